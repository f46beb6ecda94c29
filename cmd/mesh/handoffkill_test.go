package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
)

// asDying makes the test binary 'mesh up' in its folder, with a store that kills it before or
// after the append that MESH_DIE names, counted from that on which begins a handoff, or which
// has the user's words that it names.
const asDying = "mesh-dying"

func runDying() int {
	var dies moment
	_, _ = fmt.Sscanf(os.Getenv("MESH_DIE"), "%s %d %q", &dies.when, &dies.n, &dies.from) // who does not say so does not die
	err := func() error {
		cfg, err := node.LoadConfig(defaultConfig)
		if err == nil {
			err = cfg.Fill()
		}
		if err != nil {
			return err
		}
		a := &app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, now: time.Now, after: time.After}
		logger, err := a.logger(cfg.LogLevel)
		if err != nil {
			return err
		}
		c, err := newCrew(cfg, a.now, logger)
		if err != nil {
			return err
		}
		opts := nodeOptions(&cfg, c, logger)
		open := opts.Backend
		opts.Ready = func(at node.Addresses) { a.greet(cfg, c, at, logger) }
		opts.Backend = func(cfg node.Config, address string) (node.Backend, error) {
			b, err := open(cfg, address)
			if err == nil {
				b.Threads = &dyingStore{Backend: b.Threads, dies: dies}
			}
			return b, err
		}
		return node.Run(context.Background(), cfg, opts)
	}()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const appendsFile = "appends"

// A dyingStore kills its process, or counts.
type dyingStore struct {
	threadlog.Backend
	dies moment
	mu   sync.Mutex
	n    int
}

// counts reports whether it is counted from the batch on.
func (w moment) counts(b *threadlog.Batch) bool {
	for _, e := range b.Entries {
		if ev, err := eventpb.Decode(e.Data); err == nil {
			_, starts := ev.Body.(mesh.HandoffStarted)
			said, _ := ev.Body.(mesh.MessagePosted)
			if w.from == "" && starts || w.from != "" && mesh.TextOf(said.Message) == w.from {
				return true
			}
		}
	}
	return false
}

func (d *dyingStore) Append(ctx context.Context, k mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	d.mu.Lock()
	if d.n > 0 || d.dies.counts(b) {
		d.n++
	}
	now, after := d.n == d.dies.n && d.n > 0, d.dies.when == "after"
	if d.dies.n == 0 {
		_ = os.WriteFile(appendsFile, []byte(strconv.Itoa(d.n)), 0o600) // how many there are
	}
	d.mu.Unlock()
	if now && !after {
		dies()
	}
	done, err := d.Backend.Append(ctx, k, b)
	if now && after {
		dies()
	}
	return done, err
}

// A moment is when a node is killed: "before" or "after" the n-th append of a handoff, or
// from the message on with the words from, or 0 for never.
type moment struct {
	when string
	n    int
	from string
}

func (w moment) String() string { return fmt.Sprintf("%s %d", w.when, w.n) }

// moments are those before and after each of so many appends, or a sample of so many.
func moments(t *testing.T, appends, sample int, from string) (all []moment) {
	t.Helper()
	for n := 1; n <= appends; n++ {
		all = append(all, moment{"before", n, from}, moment{"after", n, from})
	}
	if *everyHandoff {
		return all
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(sample, len(all))]
}

// A killed is a mesh that is killed at a moment, and started again.
type killed struct {
	*realMesh
	again chan struct{} // closed when it was
}

// upUntil starts a mesh that dies then. Its webhooks may be on this machine.
func upUntil(t *testing.T, main string, dies moment) *killed {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, dir+"/mesh.yaml", fmt.Sprintf("main: %s\ngrpc: %s\nhttp: %s\ndata: data\nlog_level: warn\negress: {allow: [127.0.0.0/8], allow_http: true}\n", main, rpctest.Free(t), rpctest.Free(t)))
	k := &killed{launch(t, dir, asDying, []string{fmt.Sprintf("MESH_DIE=%v %q", dies, dies.from)}).mesh(dir), make(chan struct{})}
	first := k.process
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-first.ended:
			if t.Context().Err() != nil { // it did not die, and the test is over
				return
			}
			second := launch(t, dir, asDying, nil)
			second.mesh(dir)
			close(k.again)
		case <-t.Context().Done():
		}
	})
	t.Cleanup(watching.Wait)
	return k
}

// dies waits until the mesh is there again, and kills it if that moment did not come.
func (k *killed) dies(t *testing.T) {
	t.Helper()
	select {
	case <-k.again:
		return
	case <-k.ended: // it is about to be
	default:
		t.Logf("there are fewer appends")
		_ = k.cmd.Process.Kill() // it may just have ended
	}
	select {
	case <-k.again:
	case <-timely(t).Done():
		t.Fatal("the mesh does not start again")
	}
}

// logOf is the thread's log, read as soon as that can be read.
func (k *killed) logOf(t *testing.T, thread string) (log []*meshv1.Event) {
	t.Helper()
	for ctx := timely(t); len(log) == 0 && ctx.Err() == nil; {
		log = readAll(inThread(t, thread), meshv1.NewThreadServiceClient(k.dial()), thread)
	}
	return log
}

// seqOf is where in the log an update is, 0 if it does not say so.
func seqOf(u *a2apb.StreamResponse) mesh.Seq {
	md := u.GetStatusUpdate().GetMetadata()
	if u.GetArtifactUpdate() != nil {
		md = u.GetArtifactUpdate().GetMetadata()
	}
	return mesh.Seq(md.GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["seq"].GetNumberValue())
}

// A play is a conversation that hands over, and what must come of it whenever the node dies.
type play struct {
	target string
	lines  []string
	says   string // of the artifacts of the task at the end
	ends   string // the handoff
	// foreign says that nobody knows what became of the target's task before it has said which
	// that is: then control returns, after as much as it had said.
	foreign bool
	// noted is what the target notes after each line but the last; nil of one that notes nothing.
	// It asks once more what it was told when it was killed, and has all that it was told before.
	noted []string
}

// converse sends the messages of one task, one after the other, as often as it takes, and those
// once more that the target asks for again. It returns what who listens that way heard of it, and
// how many messages there were.
func (p *play) converse(t *testing.T, k *killed, thread, way string, dies bool) (h heardTurn, said int) {
	t.Helper()
	for i := 0; i < len(p.lines) && !t.Failed(); {
		h = k.hear(t, way, messageIn(thread, h.task, p.lines[i]), h)
		said++
		if !mesh.Interrupted(h.state) {
			i = len(p.lines)
			continue
		}
		noted := ""
		for _, e := range k.logOf(t, thread) {
			if e.GetStateNoted().GetAgent() == p.target {
				noted = string(e.GetStateNoted().GetData())
			}
		}
		switch {
		case !dies:
			p.noted = append(p.noted, noted)
			i++
		case i < len(p.noted) && noted == p.noted[i]:
			i++
		case i == 0 || noted != p.noted[i-1] || said > i+1: // which the first line or a second kill would be
			t.Errorf("after %q it has noted %s, want %s", p.lines[i], noted, p.noted[min(i, len(p.noted)-1)])
		}
	}
	return h, said
}

// lost reports whether the play ended as it may when nobody knows what became of the target.
func (p *play) lost(text, ends string) bool {
	before, back := strings.CutSuffix(text, "Back: error.")
	return p.foreign && back && strings.HasPrefix(p.says, before) && ends == p.ends+", node error"
}

func plays() []play {
	all := []play{{castOurs, []string{"to=ours act=slow"}, "One moment. Here is ours. I do it. Back: completed.", "agent:lead to ours, agent:ours completed", false, nil}}
	for _, kind := range []string{castStreaming, castUnary, castV03} {
		all = append(all, play{kind, []string{"to=" + kind + " act=slow"}, "One moment. Here is " + kind + ". I do it. ", "agent:lead to " + kind, true, nil})
	}
	return append(all, play{"skill-builder", append([]string{"to=skill-builder " + skillTalks[1].lines[0]}, skillTalks[1].lines[1:]...),
		"One moment. Hi! I am here to help you create a skill that converts currencies.Your skill is ready! Returning you to the main assistant.Back: completed.",
		"agent:lead to skill-builder, agent:skill-builder completed", false, nil})
}

// S4-062: a node that is killed before or after any append of a handoff loses nothing of it,
// whatever way its user hears of it: the target goes on, where it was at work, its user's stream
// is one task with legal states and one end, no event comes twice, and the handoff ends as it
// would have.
func TestAHandoffSurvivesKill9AtEveryAppend(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Parallel()
	all := append(slices.Sorted(maps.Keys(listeners)), "webhook")
	for i, p := range plays() {
		t.Run(p.target, func(t *testing.T) {
			t.Parallel()
			for j, at := range moments(t, p.run(t, moment{when: "never"}, byGRPC), 2, "") {
				in := all
				if !*everyHandoff { // all of them by five plays
					in = all[(2*i+j)%len(all):][:1]
				}
				for _, way := range in {
					t.Run(at.String()+", "+way, func(t *testing.T) { p.run(t, at, way) })
				}
			}
		})
	}
}

// run plays it on a mesh that is killed then, heard that way. It returns how many appends there
// are of one that is not.
func (p *play) run(t *testing.T, at moment, way string) int {
	t.Helper()
	k := upUntil(t, "lead", at)
	k.cast(t, castLead, "lead")
	if p.target != "skill-builder" {
		k.cast(t, p.target, p.target)
	}
	id := mesh.NewThreadID()
	h, said := p.converse(t, k, id, way, at.n > 0)
	if at.n > 0 {
		k.dies(t)
	}
	log := k.logOf(t, id)
	task, err := k.edge().GetTask(inThread(t, id), &a2apb.GetTaskRequest{Id: h.task})
	if err != nil {
		t.Fatal(err)
	}
	heard := taskText(&a2apb.Task{Artifacts: h.shown})
	text, ends := taskText(task), strings.Join(handoffs(log), ", ")
	as := ends == p.ends && text == p.says
	if h.state.String() != stateComplete || heard != text || !as && (at.n == 0 || !p.lost(text, ends)) {
		t.Errorf("it ended %v: %q, the task has %q, and the handoff is %s; %q", h.state, heard, text, ends, h.status)
	}
	checkSound(t, log, said)
	if t.Failed() {
		t.Log(short(log))
		t.Log(k.stderr.String())
	}
	if at.n > 0 {
		return 0
	}
	return k.appends(t)
}

// appends are how many there were of a mesh that is not killed.
func (k *killed) appends(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(readFile(t, k.dir+"/"+appendsFile))
	if err != nil {
		t.Error(err)
	}
	return n
}
