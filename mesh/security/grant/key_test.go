package grant_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/security/grant"

	"github.com/google/go-cmp/cmp"
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
		if !cmp.Equal(s.Public(), signers[0].Public()) {
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
	if err != nil || cmp.Equal(other.Public(), signers[0].Public()) {
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

// Keys rotate with overlap: a new one is first known everywhere and signs then, and what
// the old one signed is good until that goes.
func TestKeysRotateWithOverlap(t *testing.T) {
	dir := t.TempDir()
	load := func(names ...string) *grant.Signer {
		t.Helper()
		path, all := filepath.Join(dir, "grant.key"), []byte(nil)
		for _, name := range names {
			if _, err := grant.LoadOrCreateKey(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			pem, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, pem...)
		}
		if err := os.WriteFile(path, all, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := grant.LoadOrCreateKey(path)
		if err != nil || len(s.Public()) != len(names) {
			t.Fatalf("%d keys, %v", len(s.Public()), err)
		}
		return s
	}
	grant.Forget()
	before, announced, after, gone := load("a"), load("a", "b"), load("b", "a"), load("b")
	for name, tt := range map[string]struct {
		by, at *grant.Signer
		ok     bool
	}{
		"signed by the old, known to come": {before, announced, true}, "signed by the old, still known": {announced, after, true},
		"signed by the new, announced": {after, announced, true}, "signed by the new, not announced": {after, before, false},
		"signed by the old, gone": {before, gone, false},
	} {
		for _, token := range []string{tt.by.Issue(full()), tt.by.Ticket(full(), now)} {
			_, one := verifier(t, tt.at, now).Check(token)
			_, two := verifier(t, tt.at, now).CheckTicket(token)
			if ok := one == nil || two == nil; ok != tt.ok {
				t.Errorf("%s: %v, %v", name, one, two)
			}
		}
	}
}
