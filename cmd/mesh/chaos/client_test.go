//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
)

// A turn is what a client knows of a task: what it sent, and what it has seen.
type turn struct {
	thread, plan string
	steps        []string
	task         string
	messages     []string // ids of those that were acknowledged
	approved     []string // words of the steps that its user said yes to

	mu    sync.Mutex
	first int64            // the cursor that came with the task
	last  int64            // of the last update
	seen  map[int64]uint64 // updates by their Seq, as sums
	state a2apb.TaskState
	asked []string // words of the steps that the last status is about
	step  string   // of its agent's workflow, if it has said one
}

// status notes the turn's status.
func (t *turn) status(s *a2apb.TaskStatus, md *structpb.Struct) {
	if step := fieldOf(md, "state").GetStringValue(); step != "" {
		t.step = step
	}
	t.state, t.asked = s.GetState(), nil
	for _, p := range s.GetMessage().GetParts() {
		t.asked = append(t.asked, words.FindAllString(p.GetText(), -1)...)
	}
}

// A ledger has all that clients were told, and what was found wrong.
type ledger struct {
	mu      sync.Mutex
	turns   []*turn
	touched map[string]bool     // threads, since the last look
	events  map[string][]uint64 // of threads, as they were read
	wrong   []string            // what must not be
	counts  map[string]int
	note    func(entry) // keeps what a client learns, or nil
}

func newLedger() *ledger {
	return &ledger{touched: map[string]bool{}, events: map[string][]uint64{}, counts: map[string]int{}}
}

func (l *ledger) noted(e entry) {
	if l.note != nil {
		l.note(e)
	}
}

func (l *ledger) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
	l.noted(entry{Wrong: l.wrong[len(l.wrong)-1]})
}

func (l *ledger) count(what string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[what] += n
}

func (l *ledger) touch(thread string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touched[thread] = true
}

// sum stands for a message of the mesh.
func sum(m proto.Message) uint64 {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // it came over the wire
	}
	h := fnv.New64a()
	_, _ = h.Write(data)
	return h.Sum64()
}

// seqOf is the place of an update in its thread.
func seqOf(md *structpb.Struct) int64 {
	return int64(fieldOf(md, "seq").GetNumberValue())
}

// fieldOf is what our extension says in metadata.
func fieldOf(md *structpb.Struct, name string) *structpb.Value {
	return md.GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()[name]
}

// A client has conversations, one after the other.
type client struct {
	m      *target
	l      *ledger
	name   string
	chance *rand.Rand
	n      int             // plans so far
	life   context.Context // when it ends, all is off
}

// run talks until the context ends, and finishes what it has begun.
func (c *client) run(until context.Context) {
	thread, turns := mesh.NewThreadID(), 0
	for until.Err() == nil {
		if turns == 5 || turns > 0 && c.chance.IntN(3) == 0 {
			thread, turns = mesh.NewThreadID(), 0
		}
		if !c.turn(thread) {
			return
		}
		turns++
	}
}

var kinds = []string{"task", "mail", "file", "memory", "event"}

// turn has a plan carried out. It returns false when nothing goes on any more.
func (c *client) turn(thread string) bool {
	c.n++
	t := &turn{thread: thread, plan: fmt.Sprintf("p%s%d", c.name, c.n), seen: map[int64]uint64{}}
	for range c.chance.IntN(4) {
		t.steps = append(t.steps, kinds[c.chance.IntN(len(kinds))])
	}
	if c.n == 1 { // however short the run is, something is done
		t.steps = append(t.steps, kinds[0])
	}
	text := fmt.Sprintf("plan %s of chaos-%s: %s", t.plan, c.name, strings.Join(t.steps, " "))
	ctx, cancel := context.WithTimeout(c.life, 3*patient)
	defer cancel()
	if !c.say(ctx, t, text) {
		return false
	}
	c.l.mu.Lock()
	c.l.turns = append(c.l.turns, t)
	c.l.mu.Unlock()
	for c.follow(ctx, t) {
		answer := "no"
		if c.chance.IntN(4) > 0 {
			answer, t.approved = "yes", append(t.approved, t.asked...)
		}
		if !c.say(ctx, t, answer) {
			return false
		}
	}
	return ctx.Err() == nil
}

func (c *client) way() way {
	if c.chance.IntN(2) == 0 {
		return overREST{}
	}
	return overGRPC{}
}

// say sends the words until they are acknowledged: the same message each time.
// Sometimes it does so again, as a client that missed the answer.
func (c *client) say(ctx context.Context, t *turn, words string) bool {
	msg := &a2apb.Message{MessageId: mesh.NewEventID(), ContextId: t.thread, TaskId: t.task, Role: a2apb.Role_ROLE_USER,
		Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}}}
	return c.deliver(ctx, t, msg)
}

// deliver sends the message until it is acknowledged.
func (c *client) deliver(ctx context.Context, t *turn, msg *a2apb.Message) bool {
	req := &a2apb.SendMessageRequest{Message: msg}
	again := c.chance.IntN(5) == 0 || c.n == 1 && t.task == ""
	for attempts := 0; ; attempts++ {
		task, err := c.attempt(ctx, t, proto.CloneOf(req))
		switch {
		case err == nil:
			if len(t.messages) == 0 || t.messages[len(t.messages)-1] != msg.MessageId {
				t.messages = append(t.messages, msg.MessageId)
				c.l.count("messages", 1)
			}
			if t.task != "" && t.task != task {
				c.l.fault("message %s opened the task %s, and when it was sent again %s", msg.MessageId, t.task, task)
			}
			t.task = task
			c.l.noted(entry{Turn: t.plan, Acked: msg.MessageId, Task: task, First: t.first, State: int32(t.state)})
			if c.l.touch(t.thread); !again {
				return true
			}
			again = false
			c.l.count("resends", 1)
		case c.life.Err() != nil:
			return false
		case ctx.Err() != nil:
			c.l.fault("message %s of %s was not acknowledged in time: %v", msg.MessageId, t.plan, err)
			return false
		case refused(err) == codes.FailedPrecondition && t.task != "": // it waits no more: it was interrupted
			return true
		case refused(err) == codes.Unavailable || refused(err) == codes.ResourceExhausted:
			c.l.count("attempts that broke", 1)
			time.Sleep(20 * time.Millisecond)
		default:
			c.l.fault("message %s of %s was refused: %v", msg.MessageId, t.plan, err)
			return false
		}
	}
}

// attempt sends once and reads some updates of what comes back.
func (c *client) attempt(ctx context.Context, t *turn, req *a2apb.SendMessageRequest) (string, error) {
	at, err := c.m.use(ctx)
	if err != nil {
		return "", err
	}
	s, err := c.way().send(ctx, at, req)
	if err != nil {
		return "", err
	}
	defer s.close()
	u, err := s.next()
	if err != nil {
		return "", err
	}
	task := u.GetTask()
	if task.GetContextId() != t.thread {
		c.l.fault("the task of a message in %s is %v", t.thread, task)
	}
	if t.first == 0 {
		t.first = seqOf(task.GetMetadata())
		t.last = t.first
		c.l.noted(entry{Turn: t.plan, Task: task.GetId(), First: t.first})
		if state := task.GetStatus().GetState(); mesh.Terminal(state) || mesh.Interrupted(state) {
			t.status(task.GetStatus(), nil) // an earlier attempt had arrived, and all has happened since
			return task.GetId(), nil
		}
	}
	if seqOf(task.GetMetadata()) == t.last { // else follow catches up
		for range c.chance.IntN(20) { // and leaves in the middle
			if u, err = s.next(); err != nil || !c.see(t, u) {
				break
			}
		}
	}
	return task.GetId(), nil
}

// see notes an update; false when the turn is over or waits for its user.
func (c *client) see(t *turn, u *a2apb.StreamResponse) bool {
	md := u.GetArtifactUpdate().GetMetadata()
	if s := u.GetStatusUpdate(); s != nil {
		md = s.GetMetadata()
	}
	seq, is := seqOf(md), sum(u)
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq <= t.last {
		c.l.fault("of %s update %d came after %d", t.plan, seq, t.last)
	}
	t.seen[seq], t.last = is, seq
	if s := u.GetStatusUpdate(); s != nil {
		t.status(s.GetStatus(), md)
	}
	c.l.noted(entry{Turn: t.plan, Seq: seq, Sum: is, State: int32(t.state), Step: t.step})
	return !mesh.Terminal(t.state) && !mesh.Interrupted(t.state)
}

// follow reads on, from the last update, whatever breaks in between. It returns
// whether the turn waits for its user.
func (c *client) follow(ctx context.Context, t *turn) bool {
	for {
		t.mu.Lock()
		state, last := t.state, t.last
		t.mu.Unlock()
		if mesh.Terminal(state) {
			c.l.count(strings.ToLower(strings.TrimPrefix(state.String(), "TASK_STATE_"))+" tasks", 1)
			return false
		}
		if mesh.Interrupted(state) {
			t.mu.Lock()
			t.state = 0 // until the next update
			t.mu.Unlock()
			c.l.count("questions", 1)
			return true
		}
		err := c.read(ctx, t, last)
		switch {
		case c.life.Err() != nil:
			return false
		case ctx.Err() != nil:
			c.l.fault("%s (task %s, after %d, %v) does not end: %v", t.plan, t.task, last, state, err)
			return false
		case errors.Is(err, io.EOF) || err == nil:
		case refused(err) != codes.Unavailable && refused(err) != codes.ResourceExhausted:
			c.l.fault("%s (task %s) cannot be followed after %d: %v", t.plan, t.task, last, err)
			return false
		default:
			c.l.count("streams resumed", 1)
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (c *client) read(ctx context.Context, t *turn, after int64) error {
	at, err := c.m.use(ctx)
	if err != nil {
		return err
	}
	s, err := c.way().subscribe(ctx, at, t.task, after)
	if err != nil {
		return err
	}
	defer s.close()
	for first := true; ; first = false {
		u, err := s.next()
		if err != nil {
			return err
		}
		if first {
			if u.GetTask().GetId() != t.task {
				c.l.fault("a stream of task %s begins with %v", t.task, u)
			}
			continue
		}
		if !c.see(t, u) {
			return nil
		}
	}
}
