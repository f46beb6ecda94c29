package keyfile_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"agentmesh/mesh/security/keyfile"
)

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestOfManyWhoMakeTheFileOneDoesAndItIsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.key")
	var made atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		key := newKey(t)
		all.Go(func() {
			switch err := keyfile.Create(path, key); {
			case err == nil:
				made.Add(1)
			case !errors.Is(err, fs.ErrExist):
				t.Errorf("create: %v", err)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 {
		t.Errorf("%d made the file", made.Load())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("the file is %q", data)
	}
	if _, err := x509.ParsePKCS8PrivateKey(block.Bytes); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files are left", len(left))
	}
}

func TestAFolderThatIsNotThereIsToldOf(t *testing.T) {
	if err := keyfile.Create(filepath.Join(t.TempDir(), "none", "a.key"), newKey(t)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("create: %v", err)
	}
}
