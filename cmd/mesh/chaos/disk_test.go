//go:build unix

package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// faulty is where the disk of the meshes is told to fail.
func (m *target) faulty() string { return filepath.Join(m.dir, "disk") }

// overlay has the mesh built with a disk that can be told to fail.
func overlay(t *testing.T) string {
	t.Helper()
	top, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(strings.TrimSpace(string(top)), "mesh", "store", "segment", "realdisk.go")
	faulty, err := filepath.Abs(filepath.Join("testdata", "faultydisk.go"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(whole); err != nil {
		t.Fatal(err) // else the mesh would have a disk that never fails
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {whole: faulty}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// exitStore is how a mesh ends that cannot tell any more what is in its data folder.
const exitStore = 6

// exited is the exit code of a mesh that ended by itself; -1 if it does not.
func (m *target) exited() int {
	m.mu.Lock()
	cmd, gone := m.cmd, m.gone
	m.mu.Unlock()
	select {
	case <-gone:
		return cmd.ProcessState.ExitCode()
	case <-time.After(patient):
		return -1
	}
}

// finding R3: a sync that fails ends the mesh, in words and with a code of its own, and the
// next one has all that was acknowledged.
func TestAFailedSyncEndsTheMesh(t *testing.T) {
	m := prepare(t)
	if err := m.start(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.end(syscall.SIGKILL) })
	l := newLedger()
	if err := m.takes(l); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.faulty(), []byte("sync"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := m.takes(l)
	for range 20 { // every other sync fails
		if err != nil {
			break
		}
		err = m.takes(l)
	}
	if code := m.exited(); code != exitStore || !strings.Contains(m.words(), "data folder failed") {
		t.Errorf("after %v it ended with %d: %s", err, code, tail(m.words()))
	}
	if err := errors.Join(os.Remove(m.faulty()), m.end(syscall.SIGKILL), m.start(0), m.takes(l)); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// finding R11: a file that is cut off while the mesh uses it ends the mesh in words of its own,
// and with the code of a data folder that failed, and not as a fault of memory ends a program.
func TestAFileThatIsCutOffEndsTheMesh(t *testing.T) {
	for _, file := range []string{"mesh.db", "mesh.log/0000000000000000001.seg"} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := prepare(t)
			if err := m.start(0); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = m.end(syscall.SIGKILL) })
			l := newLedger()
			if err := m.takes(l); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(filepath.Join(m.dir, "data", file), 0); err != nil {
				t.Fatal(err)
			}
			_ = m.takes(l) // it reads what there was
			if code := m.exited(); code != exitStore || !strings.Contains(m.words(), "data folder failed") || strings.Contains(m.words(), "goroutine ") {
				t.Errorf("it ended with %d: %s", code, tail(m.words()))
			}
		})
	}
}

// fail lets the disk fail for a while, and sees that the mesh goes on when it is
// whole again: by itself if it was full; after a restart, if it ended, when
// nobody can tell what is on it.
func (m *target) fail(l *ledger, chance *rand.Rand) error {
	what := []string{"full", "sync", "write"}[chance.IntN(3)]
	l.count("disk "+what, 1)
	broken, whole := m.full, m.room
	if what != "full" {
		broken = func() error { return os.WriteFile(m.faulty(), []byte(what), 0o600) }
		whole = func() error { return os.Remove(m.faulty()) }
	}
	if err := broken(); err != nil {
		return err
	}
	time.Sleep(time.Duration(20+chance.IntN(800)) * time.Millisecond)
	killed := chance.IntN(4) == 0
	if killed { // while it fails
		if err := m.end(syscall.SIGKILL); err != nil {
			return err
		}
	}
	if err := whole(); !killed && err != nil || killed && what != "full" && err != nil {
		return err
	}
	if killed {
		return m.start(0)
	}
	err := m.takes(l)
	if err != nil && what != "full" && m.exited() == exitStore {
		l.count("stores that stopped", 1)
		return errors.Join(m.end(syscall.SIGKILL), m.start(0))
	}
	if err != nil {
		return fmt.Errorf("after the disk (%s) was whole again: %w; the mesh said: %s", what, err, tail(m.words()))
	}
	return nil
}

// message is one of a new conversation.
func message(words string) *a2apb.SendMessageRequest {
	return &a2apb.SendMessageRequest{Message: &a2apb.Message{MessageId: mesh.NewEventID(), ContextId: mesh.NewThreadID(), Role: a2apb.Role_ROLE_USER,
		Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}}}}
}

// takes sees that the mesh takes messages.
func (m *target) takes(l *ledger) error {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	at, err := m.use(ctx)
	if err != nil {
		return err
	}
	req := message("plan pz0 of chaos-z: ")
	for try := 0; ; try++ {
		s, err := overGRPC{}.send(ctx, at, req)
		if err == nil {
			_, err = s.next()
			s.close()
		}
		if err == nil || try == 20 {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
