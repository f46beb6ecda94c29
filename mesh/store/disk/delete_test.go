package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// While a deletion is on its way to the disk, nobody who reads waits for it, and
// what they see of its thread is all or nothing, and no failure: finding C13.
func TestReadersDoNotWaitForADeletion(t *testing.T) {
	for name, sync := range map[string]bool{"before it is in the file": false, "before it is synced": true} {
		t.Run(name, func(t *testing.T) { deleteUnderReaders(t, sync) })
	}
}

func deleteUnderReaders(t *testing.T, atSync bool) {
	s := openNew(t)
	for _, k := range []int{1, 2, 1} {
		if _, err := s.Append(t.Context(), logtest.Key(k), fact("x")); err != nil {
			t.Fatal(err)
		}
	}
	entered, gate := make(chan struct{}), make(chan struct{})
	s.disk().on(func(c call) error {
		if c.sync == atSync {
			close(entered)
			<-gate
			s.disk().on(nil)
		}
		return nil
	})
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = s.Delete(t.Context(), logtest.Key(1), threadlog.AnyPos) })
	<-entered
	for k, want := range map[int]int{1: 2, 2: 1} {
		recs, err := s.Read(t.Context(), logtest.Key(k), 0, 9)
		if err != nil || len(recs) != want {
			t.Errorf("thread %d has %d events, %v; want %d", k, len(recs), err, want)
		}
	}
	_, there, infoErr := s.Info(t.Context(), logtest.Key(1))
	infos, listErr := s.Threads(t.Context(), logtest.Key(1).Tenant, 0, 9)
	if err := errors.Join(infoErr, listErr); err != nil || !there || len(infos) != 2 {
		t.Errorf("the thread is there: %v, of %d threads, %v; want it until its end is on disk", there, len(infos), err)
	}
	close(gate)
	wg.Wait()
	recs, err := s.Read(t.Context(), logtest.Key(1), 0, 9)
	if err := errors.Join(failed, err); err != nil || len(recs) != 0 {
		t.Errorf("after it: %d events, %v", len(recs), err)
	}
}

// A deletion that failed was none.
func TestADeletionThatFailsLeavesTheThread(t *testing.T) {
	s := openNew(t)
	if _, err := s.Append(t.Context(), logtest.Key(1), fact("x")); err != nil {
		t.Fatal(err)
	}
	failWrite(s)
	if err := s.Delete(t.Context(), logtest.Key(1), threadlog.AnyPos); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	if recs, err := s.Read(t.Context(), logtest.Key(1), 0, 9); err != nil || len(recs) != 1 {
		t.Errorf("%d events, %v", len(recs), err)
	}
	if err := s.Delete(t.Context(), logtest.Key(1), threadlog.AnyPos); err != nil {
		t.Error(err)
	}
}

// A thread that is deleted is deleted for good: its bytes go from the files while
// the mesh runs, and those of the last file when it starts next; also if it was
// killed in between, and another thread has the name.
func TestADeletedThreadLeavesNoBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	open := func() *Store {
		s, err := Open(path, Options{size: 8 << 10})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	secret := func(s *Store, from, n int) {
		for i := range n {
			if _, err := s.Append(t.Context(), logtest.Key(1), fact(fmt.Sprintf("a secret %0400d", from+i))); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Append(t.Context(), logtest.Key(2), fact(fmt.Sprintf("stays %0100d", from+i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for round := range 3 {
		secret(s, 100*round, 60)
		if err := s.Delete(t.Context(), logtest.Key(1), threadlog.AnyPos); err != nil {
			t.Fatal(err)
		}
		if round == 1 {
			secret(s, 0, 3) // another one of that name
			if err := s.Delete(t.Context(), logtest.Key(1), threadlog.AnyPos); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil { // which waits for the keeper
			t.Fatal(err)
		}
		if found := grep(t, path, "a secret"); len(found) > 1 {
			t.Errorf("round %d: it is in %v still", round, found)
		}
		s = open()
		if recs, err := s.Read(t.Context(), logtest.Key(2), 0, 1000); err != nil || len(recs) != 60*(round+1)+3*min(round, 1) {
			t.Errorf("the other one has %d events, %v", len(recs), err)
		}
		if _, there, err := s.Info(t.Context(), logtest.Key(1)); there || err != nil {
			t.Errorf("it is there: %v, %v", there, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if found := grep(t, path, "a secret"); len(found) > 0 {
		t.Errorf("after a start it is in %v still", found)
	}
}

// grep returns the files of the folder in which the text is.
func grep(t *testing.T, path, text string) (found []string) {
	t.Helper()
	for _, pattern := range []string{"*", "*/*"} {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(path), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if st, err := os.Stat(file); err != nil || st.IsDir() {
				continue
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(b, []byte(text)) {
				found = append(found, filepath.Base(file))
			}
		}
	}
	return found
}
