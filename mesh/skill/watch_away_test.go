package skill

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// warnings is a handler of a log that passes on what the log warns of.
type warnings struct {
	slog.Handler
	to chan string
}

func (w warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	select {
	case w.to <- r.Message:
	default: // the test is not about warnings
	}
	return nil
}

// hear waits for a warning.
func (d *desk) hear(t *testing.T, want string) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case got := <-d.warned:
			if got == want {
				return
			}
		case <-late:
			t.Fatalf("waited in vain for the warning %q", want)
		}
	}
}

// Folders that go away and come back are read and watched again soon, long
// before all files are looked at now and then: also what changed meanwhile, and
// where another folder has taken their place.
func TestRun_followsFoldersThatComeBack(t *testing.T) {
	d := run(t, nil, map[string]string{"mail/send.md": leaf("mail.send", "one")})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d.expect(t, "+mail.send one", "synced")
	away, own := d.dir+".away", filepath.Join(d.tenants, "acme", "own", "a.md")
	save(t, own, leaf("own.a", "x"))
	d.expect(t, "+own.a x")
	for _, description := range []string{"two", "three"} {
		must(os.Rename(d.dir, away))
		d.hear(t, "skill file not loaded")
		save(t, filepath.Join(away, "mail", "send.md"), leaf("mail.send", description))
		must(os.Rename(away, d.dir))
		d.expect(t, "+mail.send "+description)
		if p := d.Problems(""); len(p) != 0 {
			t.Errorf("back again, problems are %v", p)
		}
		save(t, filepath.Join(d.dir, "mail", "send.md"), leaf("mail.send", description+" again"))
		d.expect(t, "+mail.send "+description+" again")
	}
	must(os.Rename(d.dir, away))
	d.hear(t, "skill file not loaded")
	save(t, filepath.Join(d.dir+".new", "post", "write.md"), leaf("post.write", "x"))
	must(os.Rename(d.dir+".new", d.dir))
	d.expect(t, "-mail.send", "+post.write x")
	save(t, filepath.Join(d.dir, "post", "write.md"), leaf("post.write", "y"))
	d.expect(t, "+post.write y")

	must(os.Rename(d.tenants, d.tenants+".away"))
	d.hear(t, "an alarm was raised") // of tenant_skills; that of skills ended with d.dir's return
	save(t, strings.Replace(own, d.tenants, d.tenants+".away", 1), leaf("own.a", "y"))
	must(os.Rename(d.tenants+".away", d.tenants))
	d.expect(t, "+own.a y")
	save(t, own, leaf("own.a", "z"))
	d.expect(t, "+own.a z")
}
