package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
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
	writeFile(t, dir+"/mesh.yaml", fmt.Sprintf("main: %s\ngrpc: %s\nhttp: %s\ndata: data\nlog_level: warn\negress: {allow: [127.0.0.0/8], allow_http: true}\n", main, freeAddress(t), freeAddress(t)))
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

// converse sends the messages of one task, one after the other, as often as it takes, and
// returns what a stream that is resumed where it broke heard of it.
func (k *killed) converse(t *testing.T, thread string, lines ...string) heardTurn {
	t.Helper()
	var h heardTurn
	for _, line := range lines {
		req := userMessage(thread, line)
		req.Message.TaskId = h.task
		if h = k.hear(t, thread, req, h); t.Failed() {
			break
		}
	}
	return h
}

// hear sends a message and hears what comes, to the end of the turn.
func (k *killed) hear(t *testing.T, thread string, req *a2apb.SendMessageRequest, h heardTurn) heardTurn {
	t.Helper()
	seq, acked := h.seq, false
	h.state = 0
	ctx := inThread(t, thread)
	for !ended(h.state) && ctx.Err() == nil {
		var stream interface {
			Recv() (*a2apb.StreamResponse, error)
		}
		var err error
		if !acked {
			stream, err = k.edge().SendStreamingMessage(ctx, req) // again it is the same message
		} else {
			call := mesh.Call{Thread: thread, Extensions: []string{mesh.ExtensionURI}, AfterSeq: seq, HasCursor: true}
			stream, err = k.edge().SubscribeToTask(mesh.WithCall(ctx, call), &a2apb.SubscribeToTaskRequest{Id: h.task})
		}
		for first := true; err == nil && !ended(h.state); first = false { // who subscribes hears more of a task that waits
			var u *a2apb.StreamResponse
			if u, err = stream.Recv(); err != nil {
				break
			}
			acked = acked || u.GetTask() != nil
			if first && u.GetTask() != nil {
				h.task = u.GetTask().GetId()
				continue
			}
			if n := seqOf(u); n > 0 {
				if n <= seq {
					t.Errorf("update %d after %d", n, seq)
				}
				seq = n
			}
			h.hear(t, u, thread)
		}
		if err != nil && err != io.EOF {
			time.Sleep(50 * time.Millisecond)
		}
	}
	h.seq = seq
	return h
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
	// asks says that the target asks once more what it was told when it was killed, so that the
	// conversation has further to go.
	asks bool
}

// leaves ends the handoff as its user does.
func (k *killed) leaves(t *testing.T, thread string) {
	t.Helper()
	h, err := meshv1.NewHandoffServiceClient(k.dial()).EndHandoff(inThread(t, thread), &meshv1.EndHandoffRequest{ThreadId: thread, Outcome: "cancelled"})
	if err != nil || h.GetHandoff().GetState() != "cancelled" {
		t.Errorf("the user cannot leave: %v, %v", h, err)
	}
}

// lost reports whether the play ended as it may when nobody knows what became of the target.
func (p play) lost(text, ends string) bool {
	before, back := strings.CutSuffix(text, "Back: error.")
	return p.foreign && back && strings.HasPrefix(p.says, before) && ends == p.ends+", node error"
}

func plays() []play {
	all := []play{{castOurs, []string{"to=ours act=slow"}, "One moment. Here is ours. I do it. Back: completed.", "agent:lead to ours, agent:ours completed", false, false}}
	for _, kind := range []string{castStreaming, castUnary, castV03} {
		all = append(all, play{kind, []string{"to=" + kind + " act=slow"}, "One moment. Here is " + kind + ". I do it. ", "agent:lead to " + kind, true, false})
	}
	return append(all, play{"skill-builder", append([]string{"to=skill-builder " + skillTalks[1].lines[0]}, skillTalks[1].lines[1:]...), "", "agent:lead to skill-builder, agent:skill-builder completed", false, true})
}

// S4-062: a node that is killed before or after any append of a handoff loses nothing of it:
// the target goes on, where it was at work, its user's stream is one task with legal states
// and one end, no event comes twice, and the handoff ends as it would have.
func TestAHandoffSurvivesKill9AtEveryAppend(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Parallel()
	for _, p := range plays() {
		t.Run(p.target, func(t *testing.T) {
			t.Parallel()
			for _, at := range moments(t, p.run(t, moment{when: "never"}), 1, "") {
				t.Run(at.String(), func(t *testing.T) { p.run(t, at) })
			}
		})
	}
}

// run plays it on a mesh that is killed then. It returns how many appends there are of one
// that is not.
func (p play) run(t *testing.T, at moment) int {
	t.Helper()
	k := upUntil(t, "lead", at)
	k.cast(t, castLead, "lead")
	if p.target != "skill-builder" {
		k.cast(t, p.target, p.target)
	}
	id := mesh.NewThreadID()
	h := k.converse(t, id, p.lines...)
	if at.n > 0 {
		select {
		case <-k.again:
		case <-k.ended: // it is about to be
		default:
			t.Logf("it did not die: there are fewer appends")
		}
	}
	var log []*meshv1.Event
	for ctx := timely(t); len(log) == 0 && ctx.Err() == nil; {
		log = readAll(inThread(t, id), meshv1.NewThreadServiceClient(k.dial()), id)
	}
	task, err := k.edge().GetTask(inThread(t, id), &a2apb.GetTaskRequest{Id: h.task})
	if err != nil {
		t.Fatal(err)
	}
	if p.asks && at.n > 0 && mesh.Interrupted(h.state) {
		k.leaves(t, id)
		checkSound(t, k.log(id), len(p.lines))
		return 0
	}
	text, ends := taskText(task), strings.Join(handoffs(log), ", ")
	as := ends == p.ends && (p.says == "" || text == p.says)
	if h.state.String() != stateComplete || !as && (at.n == 0 || !p.lost(text, ends)) {
		t.Errorf("it ended %v: %q, the task has %q, and the handoff is %s; %q", h.state, h.text, text, ends, h.status)
	}
	checkSound(t, log, len(p.lines))
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

// short is a log in a line for each event.
func short(log []*meshv1.Event) string {
	var b strings.Builder
	for _, e := range log {
		m := e.ProtoReflect()
		_, what, _ := strings.Cut(protojson.Format(m.Get(m.WhichOneof(m.Descriptor().Oneofs().ByName("body"))).Message().Interface()), "{")
		_, x, _ := strings.Cut(e.GetExecutionId(), "-")
		fmt.Fprintf(&b, "%d %s %s %s %.200s\n", e.GetSeq(), e.GetActor(), x, m.WhichOneof(m.Descriptor().Oneofs().ByName("body")).Name(), strings.Join(strings.Fields(what), " "))
	}
	return b.String()
}

func readAll(ctx context.Context, threads meshv1.ThreadServiceClient, id string) []*meshv1.Event {
	resp, err := threads.ReadThread(ctx, &meshv1.ReadThreadRequest{ThreadId: id, Limit: 1000})
	if err != nil {
		return nil
	}
	return resp.GetEvents()
}

// checkSound checks a log of one task with as many messages, which is over: every event is
// there once, the task's states are legal, with one end, and every execution has ended once.
func checkSound(t *testing.T, log []*meshv1.Event, messages int) {
	t.Helper()
	ids, posted, settled, issued, states := map[string]bool{}, map[string]int{}, map[string]int{}, map[string]bool{}, map[string]mesh.TaskState{}
	opened := 0
	for i, e := range log {
		if e.GetSeq() != int64(i+1) || e.GetId() != "" && ids[e.GetId()] {
			t.Errorf("event %d has the seq %d and the id %s", i+1, e.GetSeq(), e.GetId())
		}
		ids[e.GetId()] = true
		switch {
		case e.GetTaskOpened() != nil:
			opened++
			states[e.GetExecutionId()] = a2apb.TaskState_TASK_STATE_SUBMITTED
		case e.GetMessagePosted() != nil:
			posted[e.GetMessagePosted().GetMessage().GetMessageId()]++
		case e.GetDispatchIssued() != nil:
			if x := e.GetDispatchIssued().GetChild().GetId(); issued[x] {
				t.Errorf("%s was begun twice", x)
			} else {
				issued[x] = true
			}
		case e.GetDispatchSettled() != nil:
			settled[e.GetDispatchSettled().GetChild()]++
		}
		if s, turn := states[e.GetExecutionId()]; turn && e.GetTaskMoved() != nil {
			if mesh.Terminal(s) {
				t.Errorf("the task moved to %v after its end", e.GetTaskMoved().GetState())
			}
			states[e.GetExecutionId()] = e.GetTaskMoved().GetState()
		}
	}
	for id, n := range posted {
		if n != 1 {
			t.Errorf("message %s is there %d times", id, n)
		}
	}
	for id := range issued {
		if settled[id] != 1 {
			t.Errorf("the execution %s ended %d times", id, settled[id])
		}
	}
	if opened != 1 || len(posted) != messages {
		t.Errorf("%d tasks of %d messages, want one of %d", opened, len(posted), messages)
	}
	for id, s := range states {
		if !mesh.Terminal(s) {
			t.Errorf("task %s is %v", id, s)
		}
	}
}
