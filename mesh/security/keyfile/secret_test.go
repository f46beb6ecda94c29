package keyfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/security/keyfile"
)

// Of many who want a secret that there is not all have the same one, and so has who comes
// later.
func TestASecretIsMadeOnceAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.key")
	got := make([][]byte, 20)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			var err error
			if got[i], err = keyfile.LoadOrCreateSecret(path); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	later, err := keyfile.LoadOrCreateSecret(path)
	if err != nil || len(later) != 32 {
		t.Fatalf("%x, %v", later, err)
	}
	for i, s := range got {
		if !bytes.Equal(s, later) {
			t.Errorf("%d has another secret", i)
		}
	}
	other, err := keyfile.LoadOrCreateSecret(filepath.Join(t.TempDir(), "a.key"))
	if err != nil || bytes.Equal(other, later) {
		t.Errorf("two files have the same secret (%v)", err)
	}
}

func TestASecretThatIsNoneIsLeftAsItIs(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "short": "00ff", "no digits": "secret\n"} {
		path := filepath.Join(t.TempDir(), "a.key")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := keyfile.LoadOrCreateSecret(path); !mesh.IsCode(err, mesh.Precondition) {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != text {
			t.Errorf("%s: it became %q, %v", name, after, err)
		}
	}
	path := filepath.Join(t.TempDir(), "a.key")
	if _, err := keyfile.LoadOrCreateSecret(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := keyfile.LoadOrCreateSecret(path); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("readable by others: %v", err)
	}
	if _, err := keyfile.LoadOrCreateSecret(filepath.Join(t.TempDir(), "none", "a.key")); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("without a folder: %v", err)
	}
}
