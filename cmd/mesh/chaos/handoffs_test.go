//go:build unix

package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
)

var conversations = flag.Int("conversations", 0, "how many conversations with handoffs there are under kills; 0 is a sample of seconds")

// Of conversations with handoffs: how many a sample has, and how many there are at a time.
const (
	sampleConversations = 9
	atOnce              = 6
)

// A troupe is a mesh whose agents and clients are processes of their own, of which any is
// killed at any moment.
type troupe struct {
	m       *target
	l       *ledger
	seed    uint64
	effects string // the file that the agents' effects are in
	agents  []*player

	mu      sync.Mutex
	persons map[*player]bool // at work
}

// Whatever dies by kill -9 at any moment, of the node, the agents and the clients: each
// conversation with handoffs goes on. No message that was acknowledged is lost, each is of one
// task, whose client hears every update once, from its cursor on; the states of a handoff are
// legal, and in order, and one is open at a time; who has the conversation answers, or the user
// can leave, and then main does; and no effect of an agent, and no skill that is built, is
// doubled or lost.
func TestHandoffsUnderKills(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	n, s := *conversations, *seed
	if n == 0 {
		n = sampleConversations
	}
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	fmt.Printf("chaos: %d conversations with handoffs, seed %d\n", n, s)
	c := assemble(t, s)
	files := c.run(t, n)
	if !t.Failed() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		c.check(ctx, t, files)
	}
	fmt.Printf("chaos: seed %d: %v\n", s, c.l)
	if c.l.failed(t) {
		t.Logf("seed %d; the mesh said:\n%s", s, tail(c.m.words()))
		for _, a := range c.agents {
			t.Logf("%s said:\n%s", a.role, tail(a.words()))
		}
	}
	must := []string{"messages", "effects", "compared updates", "handoffs", "states of handoffs", "kills of the node", "kills of agents", "kills of clients"}
	if n > 4*sampleConversations { // of fewer it may be that none comes to its end
		must = append(must, "skills built", "handoffs completed", "handoffs cancelled", "handoffs error")
	}
	for _, what := range must {
		if c.l.counts[what] == 0 {
			t.Errorf("there were no %s: this proves nothing", what)
		}
	}
}

// assemble starts the mesh and the agents.
func assemble(t *testing.T, seed uint64) *troupe {
	t.Helper()
	dir := t.TempDir()
	const settings = "main: lead\negress: {allow: [127.0.0.0/8], allow_http: true}\n" +
		"limits: {turn_calls: -1, thread_calls: -1, user_calls: -1, agent_return: 2s, agent_time: 8s, agent_silence: 2s}\n"
	if err := os.WriteFile(filepath.Join(dir, "mesh.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &troupe{
		m:    &target{bin: build(t), dir: dir, env: environment(), up: make(chan struct{}), grpc: rpctest.Free(t), http: rpctest.Free(t)},
		l:    newLedger(),
		seed: seed, effects: filepath.Join(dir, "effects"), persons: map[*player]bool{},
	}
	t.Cleanup(func() { _ = c.m.end(syscall.SIGKILL) }) // if it is there still
	if err := c.m.start(0); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"lead", "smith", "plain"} {
		a := &player{role: role, told: []string{c.m.grpc, rpctest.Free(t), c.effects}}
		if err := a.start(true); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.kill(); a.wait() })
		c.agents = append(c.agents, a)
	}
	req := &meshv1.RegisterAgentRequest{Name: "plain", CardUrl: "http://" + c.agents[2].told[1]}
	if _, err := meshv1.NewRegistryServiceClient(c.m.at.conn).RegisterAgent(outgoing(t.Context(), mesh.NewThreadID()), req); err != nil {
		t.Fatal(err)
	}
	return c
}

// run has the conversations under kills, and returns their journals.
func (c *troupe) run(t *testing.T, n int) []string {
	t.Helper()
	dir, files, next := t.TempDir(), make([]string, 4*n), make(chan int)
	talking, over := context.WithCancel(t.Context())
	defer over()
	var talks, blows sync.WaitGroup
	for range atOnce {
		talks.Go(func() {
			for i := range next {
				files[i] = filepath.Join(dir, "c"+strconv.Itoa(i))
				if err := c.converse(talking, i, files[i]); err != nil {
					t.Error(err)
					over()
				}
			}
		})
	}
	blows.Go(func() {
		if err := c.blows(talking); err != nil {
			t.Error(err)
			over()
		}
	})
	at := 0
	for ; (at < n || at < len(files) && !c.struckOnce()) && talking.Err() == nil; at++ {
		i := at
		select {
		case next <- i:
		case <-talking.Done():
		}
		if i%20 == 19 {
			fmt.Printf("chaos: conversation %d: %v\n", i+1, c.l)
		}
	}
	close(next)
	talks.Wait()
	over()
	blows.Wait()
	return files[:at]
}

// struckOnce reports whether everybody was killed, and an agent had an effect: of few
// conversations it may be that all of those who would have one are killed before, or that all
// are over early.
func (c *troupe) struckOnce() bool {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	for _, whom := range []string{"the node", "agents", "clients"} {
		if c.l.counts["kills of "+whom] == 0 {
			return false
		}
	}
	_, err := os.Stat(c.effects)
	return err == nil
}

// converse has a client talk, and start again whenever it was killed.
func (c *troupe) converse(ctx context.Context, i int, file string) error {
	p := &player{role: "person", told: []string{c.m.grpc, c.m.http, mesh.NewThreadID(), "c" + strconv.Itoa(i), strconv.FormatUint(c.seed+uint64(i), 10), file}}
	for lives := 0; ctx.Err() == nil; lives++ {
		if err := p.start(false); err != nil {
			return err
		}
		c.mu.Lock()
		c.persons[p] = true
		c.mu.Unlock()
		stop := context.AfterFunc(ctx, p.kill)
		code := p.wait()
		stop()
		c.mu.Lock()
		delete(c.persons, p)
		c.mu.Unlock()
		if code > 0 {
			return fmt.Errorf("conversation %d: the client ended with %d: %s", i, code, p.words())
		}
		if code == 0 {
			return nil
		}
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // it starts again
	}
	return nil
}

// blows kills somebody every now and then, until all is said. Then all are there.
func (c *troupe) blows(ctx context.Context) error {
	chance := rand.New(rand.NewPCG(c.seed, 0))
	var back sync.WaitGroup
	defer back.Wait()
	away := make(map[*player]*sync.Mutex)
	for _, a := range c.agents {
		away[a] = new(sync.Mutex)
	}
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(50+chance.IntN(500)) * time.Millisecond): // the moment is the point
		}
		what := chance.IntN(10)
		if i < 6 { // however short it is, each kind is there
			what = 4 * (i % 3)
		}
		switch {
		case what < 3:
			c.l.count("kills of the node", 1)
			if err := c.m.end(syscall.SIGKILL); err != nil {
				return err
			}
			time.Sleep(time.Duration(chance.IntN(300)) * time.Millisecond)
			if err := c.m.start(0); err != nil {
				return err
			}
		case what < 6:
			a := c.agents[chance.IntN(len(c.agents))]
			down := time.Duration(chance.IntN(700)) * time.Millisecond
			if chance.IntN(8) == 0 {
				down = 3 * time.Second // longer than it is waited for
			}
			if !away[a].TryLock() {
				continue
			}
			c.l.count("kills of agents", 1)
			a.kill()
			a.wait()
			back.Go(func() {
				defer away[a].Unlock()
				time.Sleep(down)
				if err := a.start(false); err != nil {
					c.l.fault("%s does not start: %v", a.role, err)
				}
			})
		default:
			c.mu.Lock()
			for p := range c.persons { // any
				c.l.count("kills of clients", 1)
				p.kill()
				break
			}
			c.mu.Unlock()
		}
	}
}
