package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/rpc"
)

// SendMessage answers when the task is over, with all of it, or at once when
// the caller wants that; the task is the same one (A2A v1.0 §3.2.2).
func TestSendMessageWaitsUnlessToldOtherwise(t *testing.T) {
	g := newGate(t, 2)
	m := start(t, config(t.TempDir()), map[string]run{"main": g.run})
	soon := say("soon")
	soon.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	resp, err := m.edge().SendMessage(in(t, mesh.NewThreadID()), soon)
	if err != nil || resp.GetTask().GetId() == "" || mesh.Terminal(resp.GetTask().GetStatus().GetState()) {
		t.Fatalf("while the agent is at work: %v, %v", resp, err)
	}
	g.let(2)
	stream, err := m.edge().SubscribeToTask(from(t.Context(), resp.GetTask().GetContextId(), 0), &a2apb.SubscribeToTaskRequest{Id: resp.GetTask().GetId()})
	if s := hear(t, stream, err); s.text != g.whole("soon") || s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("the task went on with %q, ended %v", s.text, s.state)
	}

	answered := make(chan *a2apb.Task, 1)
	go func() { // the answer is waited for below
		resp, err := m.edge().SendMessage(in(t, mesh.NewThreadID()), say("later"))
		if err != nil {
			t.Errorf("unary: %v", err)
		}
		answered <- resp.GetTask()
	}()
	g.let(1)
	select {
	case task := <-answered:
		t.Errorf("answered before the agent did: %v", task)
	default:
	}
	g.let(1)
	if task := <-answered; task.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED || textOf(task.GetArtifacts()[0].GetParts()) != g.whole("later") {
		t.Errorf("answered %v", task)
	}
}

// questionOf returns the question of an agent that the conversation was handed over to, without what the
// mesh adds to it.
func questionOf(text string) string {
	question, _, _ := strings.Cut(text, "\n\n")
	return question
}

// history_length bounds the messages of a task, the last ones first, wherever
// it can be given (A2A v1.0 §3.2.4).
func TestHistoryIsAsLongAsAskedFor(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": greeter, "builder": builder})
	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("make a skill"))
	task := hear(t, stream, err).task.GetId()
	whole := []string{"make a skill", "Which name?", "slack.send"}
	last := say("slack.send")
	last.Configuration = &a2apb.SendMessageConfiguration{HistoryLength: proto.Int32(2)}
	resp, err := m.edge().SendMessage(in(t, id), last)
	if got := history(resp.GetTask()); err != nil || !slices.Equal(got, whole[1:]) {
		t.Errorf("SendMessage with 2: %q, %v", got, err)
	}
	for length, want := range map[*int32][]string{
		nil: whole, proto.Int32(0): nil, proto.Int32(1): whole[2:], proto.Int32(3): whole, proto.Int32(100): whole,
	} {
		got, err := m.edge().GetTask(in(t, id), &a2apb.GetTaskRequest{Id: task, HistoryLength: length})
		if err != nil || !slices.Equal(history(got), want) || len(got.GetArtifacts()) == 0 {
			t.Errorf("GetTask with %v: %q, %v", length, history(got), err)
		}
	}
	if _, err := m.edge().GetTask(in(t, id), &a2apb.GetTaskRequest{Id: task, HistoryLength: proto.Int32(-1)}); !mesh.IsCode(rpc.FromStatus(err), mesh.Invalid) {
		t.Errorf("with -1: %v", err)
	}
}

func history(task *a2apb.Task) []string {
	var all []string
	for _, m := range task.GetHistory() {
		all = append(all, questionOf(textOf(m.GetParts())))
	}
	return all
}

// What the user adds to a task that is at work is answered within that task,
// after what it was at, to everyone who listens.
func TestAMessageToAWorkingTaskBelongsToIt(t *testing.T) {
	g := newGate(t, 2)
	m := start(t, config(t.TempDir()), map[string]run{"main": g.run})
	id := mesh.NewThreadID()
	first, err := m.edge().SendStreamingMessage(in(t, id), say("one"))
	if err != nil {
		t.Fatal(err)
	}
	opened, err := first.Recv()
	if err != nil {
		t.Fatal(err)
	}
	g.let(1)
	more := say("two")
	more.Message.TaskId = opened.GetTask().GetId()
	second, err := m.edge().SendStreamingMessage(in(t, id), more)
	if err != nil {
		t.Fatal(err)
	}
	attached, err := second.Recv() // it is durable
	if err != nil || attached.GetTask().GetId() != opened.GetTask().GetId() {
		t.Fatalf("the second message went to %v, %v", attached, err)
	}
	g.let(3)
	var one, two said
	for _, x := range []struct {
		s      *said
		first  *a2apb.StreamResponse
		stream grpc.ServerStreamingClient[a2apb.StreamResponse]
	}{{&one, opened, first}, {&two, attached, second}} {
		x.s.add(t, x.first)
		x.s.rest(t, x.stream)
	}
	whole := g.whole("one") + g.whole("two")
	if one.text != whole || one.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("the first stream had %q, want %q; ended %v", one.text, whole, one.state)
	}
	if !strings.HasSuffix(whole, two.text) || !strings.Contains(two.text, g.whole("two")) || two.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("the second stream had %q, want an end of %q; ended %v", two.text, whole, two.state)
	}
	task, err := m.edge().GetTask(in(t, id), &a2apb.GetTaskRequest{Id: opened.GetTask().GetId()})
	if got := history(task); err != nil || !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("the task's messages are %q, %v", got, err)
	}
}

// form is the state that the specialist of the next test keeps.
type form struct{ Name, Room string }

// registrar fills in a form with the user, one field at a time, and remembers
// it only by what it notes in the thread.
func registrar(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		var f form
		data, noted, err := inv.Mesh.Noted(ctx)
		if err == nil && noted {
			err = json.Unmarshal(data, &f)
		}
		question := ""
		switch {
		case err != nil:
		case !noted:
			question = "Which name?"
		case f.Name == "":
			f.Name, question = inv.Text(), "Which room?"
		default:
			f.Room = inv.Text()
		}
		if data, _ = json.Marshal(f); err == nil {
			err = inv.Mesh.Note(ctx, data)
		}
		if err == nil && question == "" {
			_, err = inv.Mesh.EndHandoff(ctx, &meshv1.EndHandoffRequest{Summary: fmt.Sprintf("%s is in %s", f.Name, f.Room)})
		}
		if err != nil {
			yield(nil, err)
		} else if question != "" {
			yield(agent.Ask{Text: question}, nil)
		}
	}
}

// receptionist asks for a name itself, and hands over who wants to register.
func receptionist(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		switch text := inv.Text(); {
		case inv.Returned != nil:
			yield(agent.Text{Text: "Done: " + inv.Returned.GetResultSummary()}, nil)
		case text == "register":
			if _, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "registrar"}); err != nil {
				yield(nil, err)
			}
		case text == "hello":
			yield(agent.Ask{Text: "Who are you?"}, nil)
		case strings.HasPrefix(text, "I am"):
			said, err := inv.Mesh.History(ctx, 0)
			if err != nil {
				yield(nil, err)
				return
			}
			var all []string
			for _, h := range said {
				all = append(all, h.Role+": "+h.Text)
			}
			yield(agent.Text{Text: strings.Join(all, "; ")}, nil)
		}
	}
}

// S4-016, S4-029: after a break, in which the mesh was stopped and started
// again each time, the user goes on where the conversation was, whether main
// had it or a specialist by a handoff; the thread is all that is remembered.
func TestTheUserContinuesAfterABreak(t *testing.T) {
	agents := map[string]run{"main": receptionist, "registrar": registrar}
	type exchange struct{ say, hear string }
	for name, talk := range map[string][]exchange{
		"with the main agent": {{"hello", "Who are you?"}, {"I am Ann", "user: hello; agent: Who are you?; user: I am Ann"}},
		"in a handoff":        {{"register", "Which name?"}, {"Ann", "Which room?"}, {"12", "Done: Ann is in 12"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, id, task := config(t.TempDir()), mesh.NewThreadID(), ""
			for i, x := range talk {
				m := start(t, cfg, agents)
				stream, err := m.edge().SendStreamingMessage(in(t, id), say(x.say))
				s := hear(t, stream, err)
				heard := s.text
				if s.state == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
					heard = questionOf(s.status[len(s.status)-1])
				}
				if last := i == len(talk)-1; heard != x.hear || (s.state == a2apb.TaskState_TASK_STATE_COMPLETED) != last {
					t.Fatalf("to %q: heard %q and %v, want %q", x.say, heard, s.state, x.hear)
				}
				if task == "" {
					task = s.task.GetId()
				}
				if s.task.GetId() != task {
					t.Errorf("%q opened a task, want it to continue the first one", x.say)
				}
				m.Stop()
			}
		})
	}
}
