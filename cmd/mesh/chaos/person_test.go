//go:build unix

package chaos_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// An entry is what a client writes down before it goes on, so that it can when it was killed:
// a message that it is about to send, that one was acknowledged, an update; or a handoff's
// state as it was read, that something is wrong, or that all is said.
type entry struct {
	Turn    string          `json:",omitempty"` // its plan
	Message json.RawMessage `json:",omitempty"`
	Acked   string          `json:",omitempty"`
	Task    string          `json:",omitempty"`
	First   int64           `json:",omitempty"`
	Seq     int64           `json:",omitempty"`
	Sum     uint64          `json:",omitempty"`
	State   int32           `json:",omitempty"`
	Step    string          `json:",omitempty"`
	Handoff int64           `json:",omitempty"` // its seq
	Is      string          `json:",omitempty"` // its state
	Wrong   string          `json:",omitempty"`
	Done    bool            `json:",omitempty"`
}

// A person is a client in a process of its own, with one conversation. What it is asked and
// answers is in its journal.
type person struct {
	*client
	thread  string
	turns   []*turn
	states  []entry        // of handoffs, as they were read
	pending *a2apb.Message // not acknowledged yet
	done    bool

	mu      sync.Mutex
	journal *os.File
}

// Bounds of a conversation: how many tasks are begun for what somebody else does, and how
// many messages there are before its person leaves whoever has it.
const (
	mostWishes   = 3
	mostMessages = 14
)

// talks is the process. told is where the mesh is, over gRPC and HTTP, the thread, the name
// of the conversation, the seed, and the file of the journal.
func talks(told []string) error {
	conn, err := grpc.NewClient(told[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(told[4], 10, 64)
	if err != nil {
		return err
	}
	p, err := remember(told[5], told[2], told[3])
	if err != nil {
		return err
	}
	if p.journal, err = os.OpenFile(told[5], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.m = &target{at: &address{conn, "http://" + told[1]}}
	p.life, p.chance, p.l.note = ctx, rand.New(rand.NewPCG(seed, uint64(len(p.states)+len(p.turns)))), p.write
	var watching sync.WaitGroup
	watching.Go(func() { p.watch(ctx) })
	for !p.done && len(p.l.wrong) == 0 {
		if err := p.goOn(ctx); err != nil {
			p.l.fault("%s: %v", p.name, err)
			break
		}
	}
	cancel()
	watching.Wait()
	return nil
}

// write keeps an entry. It is whole, or the last.
func (p *person) write(e entry) {
	data, err := json.Marshal(e)
	if err != nil {
		panic(err) // it has a JSON form
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.journal.Write(append(data, '\n')); err != nil {
		panic(err) // as if it was killed
	}
}

// remember reads a journal. A line that was cut is forgotten.
func remember(file, thread, name string) (*person, error) {
	p := &person{client: &client{name: name, l: newLedger()}, thread: thread}
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	whole := int64(0)
	for rest := data; ; {
		n, line, err := bufio.ScanLines(rest, false)
		if err != nil || n == 0 {
			return p, os.Truncate(file, whole)
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		p.learn(e)
		whole, rest = whole+int64(n), rest[n:]
	}
}

// learn takes an entry for what it says.
func (p *person) learn(e entry) {
	var t *turn
	if len(p.turns) > 0 {
		t = p.turns[len(p.turns)-1]
	}
	switch {
	case e.Wrong != "":
		p.l.wrong = append(p.l.wrong, e.Wrong)
	case e.Done:
		p.done = true
	case e.Is != "":
		p.states = append(p.states, e)
	case e.Message != nil:
		if t == nil || t.plan != e.Turn {
			t = &turn{thread: p.thread, plan: e.Turn, seen: map[int64]uint64{}}
			p.turns, p.n = append(p.turns, t), p.n+1
		}
		p.pending, t.state = new(a2apb.Message), 0
		if err := protojson.Unmarshal(e.Message, p.pending); err != nil {
			panic(err) // it was written so
		}
	case e.Acked != "":
		t.task, t.first, t.state, p.pending = e.Task, e.First, a2apb.TaskState(e.State), nil
		t.messages = append(t.messages, e.Acked)
	case e.First != 0:
		t.task, t.first, t.last = e.Task, e.First, e.First
	default:
		t.seen[e.Seq], t.last, t.state, t.step = e.Sum, e.Seq, a2apb.TaskState(e.State), e.Step
	}
}

// goOn does the next thing: it sends what it was about to, reads on, answers, or begins
// something else.
func (p *person) goOn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*patient)
	defer cancel()
	var t *turn
	if len(p.turns) > 0 {
		t = p.turns[len(p.turns)-1]
	}
	switch {
	case p.pending != nil:
		if !p.deliver(ctx, t, p.pending) {
			return fmt.Errorf("message %s cannot be sent", p.pending.MessageId)
		}
		p.pending = nil
	case t != nil && !mesh.Terminal(t.state):
		if p.follow(ctx, t) {
			p.intend(t.plan, t.task, p.answer(t))
		} else if !mesh.Terminal(t.state) {
			return fmt.Errorf("task %s cannot be followed", t.task)
		}
	default:
		return p.begin(ctx)
	}
	return nil
}

// intend writes down what is said next.
func (p *person) intend(plan, task, text string) {
	msg := &a2apb.Message{MessageId: mesh.NewEventID(), ContextId: p.thread, TaskId: task, Role: a2apb.Role_ROLE_USER,
		Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}}
	data, err := protojson.Marshal(msg)
	if err != nil {
		panic(err) // it has a JSON form
	}
	e := entry{Turn: plan, Message: data}
	p.write(e)
	p.learn(e)
}

// said is how many messages there were.
func (p *person) said() (n int) {
	for _, t := range p.turns {
		n += len(t.messages)
	}
	return n
}

// mark is the word of the effect of the next message.
func (p *person) mark() string { return fmt.Sprintf("p%sx%d", p.name, p.said()) }

// thing is what the skill is for that the turn of the plan has built: no other is.
func thing(plan string) string {
	letters := []byte(plan)
	for i, c := range letters {
		if '0' <= c && c <= '9' {
			letters[i] = 'a' + c - '0'
		}
	}
	return string(letters)
}

// answers of who has a skill built, by the step.
var answers = map[string]string{
	"gathering_requirements": "It looks up the rate and multiplies; it needs amount, source and target",
	"testing":                "yes",
}

// answer is what the person says to a question.
func (p *person) answer(t *turn) string {
	if p.said() >= mostMessages || p.chance.IntN(8) == 0 {
		return "exit"
	}
	if t.step == "" {
		return fmt.Sprintf("word=%s act=%s", p.mark(), []string{"ask", "end", "end", "fail", "rest"}[p.chance.IntN(5)])
	}
	if said := answers[t.step]; said != "" {
		return said
	}
	return fmt.Sprintf("call it money.%s, use it for “convert %s”", thing(t.plan), thing(t.plan))
}

// begin begins the next task, or leaves whoever has the conversation, or is done.
func (p *person) begin(ctx context.Context) error {
	h, err := p.has(ctx)
	if err != nil {
		return err
	}
	plan := fmt.Sprintf("%sq%d", p.name, p.n+1)
	stands := mesh.HandoffState(h.GetState()).Stands()
	switch {
	case stands && p.n < mostWishes+2 && p.chance.IntN(2) == 0: // who has it hears more
		p.intend(plan, "", fmt.Sprintf("word=%s act=%s", p.mark(), []string{"ask", "end", "rest"}[p.chance.IntN(3)]))
	case stands && p.chance.IntN(2) == 0:
		p.intend(plan, "", "exit")
	case stands:
		return p.leave(ctx)
	case p.n < mostWishes && p.said() < mostMessages:
		to := []string{"smith", "plain", "skill-builder"}[p.chance.IntN(3)]
		text := fmt.Sprintf("to=%s act=%s word=%s", to, []string{"ask", "ask", "end", "fail", "rest"}[p.chance.IntN(5)], p.mark())
		if to == "skill-builder" {
			text = "to=skill-builder Help me build a skill for converting " + thing(plan)
		}
		p.intend(plan, "", text)
	default:
		p.write(entry{Done: true})
		p.done = true
	}
	return nil
}

// has asks who has the conversation, until somebody says so.
func (p *person) has(ctx context.Context) (*meshv1.Handoff, error) {
	for {
		resp, err := meshv1.NewHandoffServiceClient(p.m.at.conn).GetHandoff(outgoing(ctx, p.thread), &meshv1.GetHandoffRequest{ThreadId: p.thread})
		err = answered(err)
		if err == nil || refused(err) == codes.NotFound {
			return resp.GetHandoff(), nil
		}
		if refused(err) != codes.Unavailable && refused(err) != codes.ResourceExhausted || ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// leave ends the handoff without a word.
func (p *person) leave(ctx context.Context) error {
	for {
		_, err := meshv1.NewHandoffServiceClient(p.m.at.conn).EndHandoff(outgoing(ctx, p.thread), &meshv1.EndHandoffRequest{ThreadId: p.thread, Outcome: "cancelled"})
		err = answered(err)
		if err == nil || refused(err) == codes.FailedPrecondition { // it was over
			return nil
		}
		if refused(err) != codes.Unavailable && refused(err) != codes.ResourceExhausted || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// watch writes down each state of a handoff that it reads.
func (p *person) watch(ctx context.Context) {
	var last entry
	for ctx.Err() == nil {
		resp, err := meshv1.NewHandoffServiceClient(p.m.at.conn).GetHandoff(outgoing(ctx, p.thread), &meshv1.GetHandoffRequest{ThreadId: p.thread})
		if now := (entry{Handoff: resp.GetHandoff().GetSeq(), Is: resp.GetHandoff().GetState()}); err == nil && now.Is != last.Is || now.Handoff != last.Handoff && now.Is != "" {
			p.write(now)
			last = now
		}
		select {
		case <-ctx.Done():
		case <-time.After(60 * time.Millisecond):
		}
	}
}
