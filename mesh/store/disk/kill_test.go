package disk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// childEnv, when set, makes the test binary a process that appends to the file
// it names until it is killed.
const childEnv = "DISK_TEST_CHILD"

// ack is a line that the child prints when an append was acknowledged.
type ack struct {
	thread int
	seq    mesh.Seq
	id     string
}

func child(path string) int {
	s, err := Open(path, Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := 0; ; i++ {
				thread, id := w%4, fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)
				b := &threadlog.Batch{Entries: []threadlog.Entry{{Data: []byte(id), ID: id}}}
				at, err := s.Append(context.Background(), logtest.Key(thread), b)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				mu.Lock()
				fmt.Printf("%d %d %s\n", thread, at.Seqs[0], id)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return 0
}

// killed starts this program once more, with that in its environment, gives heard each whole line
// that it says, and kills it some time after heard has first said that it is enough.
func killed(t *testing.T, env []string, more time.Duration, heard func(line string) (enough bool)) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var kill *time.Timer
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break // what is left of the line was cut off
		}
		if err != nil {
			t.Fatal(err)
		}
		if heard(strings.TrimSuffix(line, "\n")) && kill == nil {
			kill = time.AfterFunc(more, func() { _ = cmd.Process.Kill() }) // Wait tells what came of it
			defer kill.Stop()
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended with %v", err)
	}
}

// runAndKill lets a child append until it has acknowledged n and some time has
// passed, kills it, and returns all that it acknowledged.
func runAndKill(t *testing.T, path string, n int, more time.Duration) []ack {
	t.Helper()
	var acks []ack
	killed(t, []string{childEnv + "=" + path}, more, func(line string) bool {
		var a ack
		if _, err := fmt.Sscanf(line, "%d %d %s", &a.thread, &a.seq, &a.id); err != nil {
			t.Fatal(err)
		}
		acks = append(acks, a)
		return len(acks) == n
	})
	return acks
}

// What was acknowledged before a kill -9 is there after it, once, at the Seq
// that was told.
func TestKillLosesNothingThatWasAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	var acks []ack
	for round := range 12 {
		acks = append(acks, runAndKill(t, path, 1+r.IntN(200), time.Duration(r.IntN(3000))*time.Microsecond)...)
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatalf("seed %d round %d: %v", seed, round, err)
		}
		checkAcks(t, s, acks)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("seed %d round %d, %d acknowledged", seed, round, len(acks))
		}
	}
	t.Logf("%d acknowledged appends survived", len(acks))
}

func checkAcks(t *testing.T, s *Store, acks []ack) {
	t.Helper()
	there := map[string]ack{}
	for thread := range 4 {
		var after mesh.Seq
		for {
			recs, err := s.Read(t.Context(), logtest.Key(thread), after, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if len(recs) == 0 {
				break
			}
			for _, r := range recs {
				if r.Seq != after+1 {
					t.Fatalf("seq %d follows %d", r.Seq, after)
				}
				after = r.Seq
				id := string(r.Data)
				if _, twice := there[id]; twice {
					t.Errorf("%s is there twice", id)
				}
				there[id] = ack{thread, r.Seq, id}
			}
		}
	}
	for _, a := range acks {
		if there[a.id] != a {
			t.Errorf("acknowledged %v, there is %v", a, there[a.id])
		}
	}
}
