package chaos_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"agentmesh/mesh/store/tinydisk"
)

// finding R11: a mesh that was killed starts on a disk that has no byte left: it serves what
// it has and says that it writes nothing, and takes messages again when there is room.
func TestAMeshStartsOnAFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	m := prepare(t)
	disk := filepath.Join(m.dir, "data")
	tinydisk.Mount(t, disk, "12m")
	t.Cleanup(func() { _ = m.end(syscall.SIGKILL) }) // which has files there
	if err := m.start(0); err != nil {
		t.Fatal(err)
	}
	l := newLedger()
	if err := m.takes(l); err != nil {
		t.Fatal(err)
	}
	if err := m.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(disk, "mesh.db.lock"), 0); err != nil {
		t.Fatal(err)
	}
	room := tinydisk.Fill(t, disk)
	if err := m.start(0); err != nil {
		t.Fatalf("on a full disk: %v", err)
	}
	if code, text := m.read(t, "/tasks"); code != http.StatusOK || !strings.Contains(text, `"tasks":[{`) {
		t.Errorf("tasks on a full disk: %d %s", code, text)
	}
	for m.takesOnce(t) { // as long as the last file of the log has room
		time.Sleep(time.Millisecond)
	}
	if code, text := m.read(t, "/tasks"); code != http.StatusOK || !strings.Contains(text, `"tasks":[{`) {
		t.Errorf("tasks when nothing is written: %d %s", code, text)
	}
	room()
	if err := m.takes(l); err != nil {
		t.Errorf("with room again: %v", err)
	}
	for deadline := time.Now().Add(patient); ; time.Sleep(20 * time.Millisecond) {
		code, text := m.read(t, "/healthz")
		if code == http.StatusOK && strings.Contains(text, `"ok"`) && !strings.Contains(text, `"data"`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("with room again its health is %d %s", code, text)
		}
	}
}

// read gets what is at the path.
func (m *target) read(t *testing.T, path string) (int, string) {
	t.Helper()
	at, err := m.use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.http+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("A2A-Version", "1.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// takesOnce reports whether the mesh takes a large message.
func (m *target) takesOnce(t *testing.T) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	at, err := m.use(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s, err := overGRPC{}.send(ctx, at, message("plan pz0 of chaos-z: "+strings.Repeat(" ", 256<<10)))
	if err == nil {
		_, err = s.next()
		s.close()
	}
	if err != nil && refused(err) != codes.Unavailable {
		t.Errorf("it was refused in another way: %v", err)
		return false
	}
	return err == nil
}
