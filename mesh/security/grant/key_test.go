package grant_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/security/grant"
)

func TestAKeyFileIsMadeOnceAndThenKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grant.key")
	signers := make([]*grant.Signer, 8)
	var all sync.WaitGroup
	for i := range signers {
		all.Go(func() {
			var err error
			if signers[i], err = grant.LoadOrCreateKey(path); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	token := signers[0].Issue(full())
	for i, s := range signers {
		if !s.Public().Equal(signers[0].Public()) {
			t.Errorf("signer %d has another key", i)
		}
		if _, err := verifier(t, s, now).Check(token); err != nil {
			t.Errorf("signer %d: %v", i, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("beside the key there is %v, %v", left, err)
	}
	other, err := grant.LoadOrCreateKey(filepath.Join(t.TempDir(), "grant.key"))
	if err != nil || other.Public().Equal(signers[0].Public()) {
		t.Errorf("another folder: %v, or the same key", err)
	}
}

func TestAKeyFileThatCannotBeUsedIsLeftAlone(t *testing.T) {
	ec := "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\n-----END PRIVATE KEY-----\n"
	for name, tt := range map[string]struct {
		content string
		mode    os.FileMode
		says    string
	}{
		"empty":             {"", 0o600, "does not hold an Ed25519 private key"},
		"something else":    {"hello", 0o600, "does not hold"},
		"another key":       {ec, 0o600, "does not hold"},
		"open to the group": {"hello", 0o640, "chmod 600"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "grant.key")
			if err := os.WriteFile(path, []byte(tt.content), tt.mode); err != nil {
				t.Fatal(err)
			}
			_, err := grant.LoadOrCreateKey(path)
			detail := mesh.DetailOf(err)
			if !mesh.IsCode(err, mesh.Precondition) || !strings.Contains(detail, tt.says) || !strings.Contains(detail, path) {
				t.Errorf("got %v, want precondition naming the file and saying %q", err, tt.says)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != tt.content {
				t.Errorf("the file was changed to %q, %v", after, err)
			}
		})
	}
}

func TestAKeyFileInAFolderThatIsNotThereIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "grant.key")
	if _, err := grant.LoadOrCreateKey(path); !mesh.IsCode(err, mesh.Precondition) || !strings.Contains(mesh.DetailOf(err), path) {
		t.Errorf("got %v, want precondition naming the file", err)
	}
}
