//go:build unix

package files_test

import (
	"syscall"
	"testing"
)

// S3-054: nobody waits for what a device or a pipe may say.
func TestRead_refusesWhatIsNoFile(t *testing.T) {
	d := setup(t)
	d.ok(t, "files.list", "", nil) // makes the drive
	if err := syscall.Mkfifo(d.path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.refused(t, "files.read", args{"path": "pipe"}, "is not a file")
	d.refused(t, "files.update", args{"path": "pipe", "content": "x"}, "is not a file")
	if r := d.ok(t, "files.search", "", args{"query": "x"}); r.Metadata["count"] != 0 {
		t.Errorf("%q", r.Content)
	}
	if r := d.ok(t, "files.list", "", nil); r.Content != "In the drive: 1\n\npipe (no file: a link or a device)" {
		t.Errorf("%q", r.Content)
	}
}
