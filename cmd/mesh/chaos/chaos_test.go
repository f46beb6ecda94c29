//go:build unix

package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentmesh/skills"
)

var (
	rounds = flag.Int("rounds", 0, "how often the mesh is killed, stopped or suspended, or its disk fails; 0 is a sample of seconds")
	seed   = flag.Uint64("seed", 0, "chooses what happens when; 0 chooses one")
)

// sample is how many rounds make test has.
const sample = 3

const clients = 6

// Whatever happens to a mesh's process and disk, at any moment: no message that was
// acknowledged is lost or doubled, no event of a thread is lost or changed, no
// effect is doubled, every turn that was accepted ends or waits, and all who
// read a task read the same.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	n, s := *rounds, *seed
	if n == 0 {
		n = sample
	}
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	fmt.Printf("chaos: %d rounds, seed %d\n", n, s)
	m := prepare(t)
	l := newLedger()
	k := checker{m, l}
	if err := m.start(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.end(syscall.SIGKILL) }) // if it is there still
	talking, quiet := context.WithCancel(t.Context())
	life, off := context.WithCancel(t.Context())
	defer off()
	var wg sync.WaitGroup
	for i := range clients {
		c := &client{m: m, l: l, name: string(rune('a' + i)), chance: rand.New(rand.NewPCG(s, uint64(i+1))), life: life}
		wg.Go(func() { c.run(talking) })
	}
	chance := rand.New(rand.NewPCG(s, 0))
	for round := range n {
		time.Sleep(time.Duration(50+chance.IntN(900)) * time.Millisecond) // the moment is the point
		if err := strike(m, l, chance); err != nil {
			t.Errorf("round %d: %v", round, err)
			break
		}
		ctx, cancel := context.WithTimeout(t.Context(), patient)
		k.touched(ctx, 8)
		cancel()
		if l.failed(t) {
			off() // what is wrong may not end
			break
		}
		if (round+1)%20 == 0 {
			fmt.Printf("chaos: round %d: %v\n", round+1, l)
		}
	}
	quiet()
	wg.Wait()
	if err := m.end(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := m.start(0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	k.all(ctx, m.dir)
	if err := m.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	fmt.Printf("chaos: seed %d: %v\n", s, l)
	if l.failed(t) {
		t.Logf("seed %d; the mesh said:\n%s", s, tail(m.words()))
	}
	for _, what := range []string{"messages", "resends", "effects", "compared updates", "completed tasks"} {
		if l.counts[what] == 0 {
			t.Errorf("there were no %s: this proves nothing", what)
		}
	}
}

// strike does something to the process, and sees that it is up again.
func strike(m *target, l *ledger, chance *rand.Rand) error {
	signal := syscall.SIGKILL
	switch n := chance.IntN(10); {
	case n < 2:
		l.count("STOP", 1)
		m.suspend(time.Duration(50+chance.IntN(1500)) * time.Millisecond)
		return nil
	case n < 4:
		return m.fail(l, chance)
	case n < 6:
		signal = syscall.SIGTERM
		l.count("TERM", 1)
	default:
		l.count("KILL", 1)
	}
	if err := m.end(signal); err != nil {
		return err
	}
	for chance.IntN(4) == 0 { // and again while it starts
		l.count("KILL at start", 1)
		if err := m.start(time.Duration(1+chance.IntN(400)) * time.Millisecond); err != nil {
			return err
		}
		if err := m.end(syscall.SIGKILL); err != nil {
			return err
		}
	}
	return m.start(0)
}

// failed reports what was found wrong.
func (l *ledger) failed(t *testing.T) bool {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range l.wrong {
		if i < 20 {
			t.Error(w)
		}
	}
	return len(l.wrong) > 0
}

// prepare builds a mesh that can be started, whose mail.send asks the user.
func prepare(t *testing.T) *target {
	t.Helper()
	m := &target{bin: build(t), dir: t.TempDir(), up: make(chan struct{})}
	m.env = environment("MESH_LLM_URL="+serveModel(t), "MESH_LLM_KEY=key", "MESH_LLM_MODEL=m", "MESH_MODEL_PROBE=false", "MESH_CHAOS_DISK="+m.faulty())
	page, err := fs.ReadFile(skills.FS, "mail/send.md")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"skills/mail/send.md": strings.Replace(string(page), "\naccess: write\n", "\naccess: write\nconfirm: Send this mail?\n", 1),
		"mesh.yaml":           "limits: {turn_calls: -1, thread_calls: -1, user_calls: -1}\n",
	}
	for i := range clients {
		files[fmt.Sprintf("data/files/default/chaos-%c.txt", 'a'+i)] = "The log of a client\n"
	}
	for name, text := range files {
		name = filepath.Join(m.dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func tail(text string) string { return text[max(0, len(text)-4000):] }
