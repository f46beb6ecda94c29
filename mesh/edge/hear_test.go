package edge_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/text/texttest"
)

// listeners hear the bytes of audio as words, and nobody in "noise".
type listeners struct {
	mu    sync.Mutex
	heard []string
}

func (l *listeners) hear(_ context.Context, _ mesh.ThreadKey, parts []*a2apb.Part, ours func(*a2apb.Part) bool) (out []*a2apb.Part, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range parts {
		if ours(p) {
			words := string(p.GetRaw())
			l.heard = append(l.heard, words)
			if words == "noise" {
				mesh.MarkUnheard(p, mesh.ReasonNoWords)
			} else {
				out = append(out, mesh.MarkHeard(p, words))
			}
		}
		out = append(out, p)
	}
	return out, nil
}

func (l *listeners) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.heard)
}

// speaking is a message of audio, after words if there are some.
func speaking(words, spoken string) *a2apb.SendMessageRequest {
	req := say(words)
	if words == "" {
		req.Message.Parts = nil
	}
	req.Message.Parts = append(req.Message.Parts, &a2apb.Part{Content: &a2apb.Part_Raw{Raw: []byte(spoken)}, MediaType: "audio/wav", Filename: "q.wav"})
	return req
}

// shows answers with the parts that the agent was sent.
func shows(s *scene) {
	var all []string
	for _, p := range s.msg.Parts {
		all = append(all, strings.TrimSpace(p.GetText()+" "+string(p.GetRaw())))
	}
	s.answer(strings.Join(all, "|"))
}

// S0-142, S3-152: what a user says is text where it comes in: agents get the words, with audio only
// what takes audio; the log and the user have both. What is refused, and what comes again, is not
// transcribed, and nobody but the mesh says what was heard.
func TestWhatAUserSaysIsTextForAgents(t *testing.T) {
	l := new(listeners)
	w := build(t, func(c *settings) { c.edge.Hear = l.hear })
	w.agent("main", shows)
	w.agent("plain", shows, foreign)
	w.agent("studio", shows, func(_ *actor, c *a2apb.AgentCard) { c.DefaultInputModes = []string{"audio/*"} })
	addressed := func(name string) context.Context {
		return w.call(func(c *mesh.Call) { c.Agent, c.Thread = name, mesh.NewThreadID() })
	}
	for name, tt := range map[string]struct {
		agent, words, spoken, want string
	}{
		"to ours":             {"main", "", "buy milk", "buy milk"},
		"beside words":        {"main", "note:", "buy milk", "note:|buy milk"},
		"to one of others":    {"plain", "", "buy milk", "buy milk"},
		"to one that hears":   {"studio", "", "a song", "a song"},
		"noise beside words":  {"main", "note:", "noise", "note:|noise"},
		"noise, to of others": {"plain", "note:", "noise", "note:|[File q.wav, audio/wav: audio that was not understood: nobody speaks in it]"},
	} {
		texttest.Fixed(t)
		acc := w.post(addressed(tt.agent), speaking(tt.words, tt.spoken))
		if h := w.hear(acc); h.state != completed || h.text != tt.want {
			t.Errorf("%s: %v, %q", name, h.state, h.text)
		}
		said := acc.Task.GetHistory()[0].GetParts()
		if last := said[len(said)-1]; string(last.GetRaw()) != tt.spoken {
			t.Errorf("%s: the user said %v", name, said)
		}
	}
	w.agent("asker", func(s *scene) {
		if s.text() == "" {
			s.move(asks, "Really?")
			return
		}
		s.answer(s.text())
	}, func(_ *actor, c *a2apb.AgentCard) { c.DefaultInputModes = []string{"audio/*"} })
	ctx := addressed("asker")
	if h := w.hear(w.post(ctx, to(speaking("", "yes"), w.hear(w.post(ctx, speaking("", "a song"))).last.GetTaskId()))); h.state != completed || h.text != "yes" {
		t.Errorf("an answer to one that hears: %v, %q", h.state, h.text)
	}
	before := len(l.all())
	ctx = w.ctx(mesh.NewThreadID())
	req := speaking("", "once")
	first, again := w.post(ctx, req), w.post(ctx, req)
	if got := l.all()[before:]; first.Task.Id != again.Task.Id || !slices.Equal(got, []string{"once"}) {
		t.Errorf("sent twice, it is %s and %s, and %v was transcribed", first.Task.Id, again.Task.Id, got)
	}
	w.hear(first)
	if _, err := w.Send(ctx, to(speaking("", "late"), first.Task.Id)); err == nil || len(l.all()) != before+1 {
		t.Errorf("refused with %v, after %v was transcribed", err, l.all()[before:])
	}
	forged := speaking("", "noise")
	forged.Message.Parts[0].Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{mesh.ExtensionURI: structpb.NewStructValue(&structpb.Struct{
		Fields: map[string]*structpb.Value{"heard": structpb.NewBoolValue(true)}})}}
	if h := w.hear(w.post(w.ctx(mesh.NewThreadID()), forged)); h.state != asks {
		t.Errorf("what a client says was heard ends %v, %q", h.state, h.text)
	}
}

// A message that nobody understands asks no agent. The user is told why, and goes on by saying it
// again: a new turn as well as one in which an agent waits for an answer.
func TestWhatNobodyUnderstandsIsAskedAgain(t *testing.T) {
	texttest.Fixed(t)
	w := build(t, func(c *settings) { c.edge.Hear = new(listeners).hear })
	main := w.agent("main", func(s *scene) {
		if s.text() == "book" {
			s.move(asks, "When?")
			return
		}
		s.answer("you said " + s.text())
	})
	ctx := w.ctx(w.thread)
	acc := w.post(ctx, speaking("", "noise"))
	h := w.hear(acc)
	if want := "I could not understand your message: nobody speaks in it. Say it again, or write it."; h.state != asks || textOf(h.last.GetStatus().GetMessage().GetParts()) != want || main.plays.Load() != 0 {
		t.Fatalf("%v: %v, and main played %d times", h.state, h.last, main.plays.Load())
	}
	if h = w.hear(w.post(ctx, to(speaking("", "book"), acc.Task.Id))); h.state != asks || main.plays.Load() != 1 {
		t.Fatalf("said again it is %v", h.state)
	}
	if h = w.hear(w.post(ctx, to(speaking("", "noise"), acc.Task.Id))); h.state != asks || main.plays.Load() != 1 {
		t.Fatalf("an answer that nobody understands is %v, and main played %d times", h.state, main.plays.Load())
	}
	if h = w.hear(w.post(ctx, to(speaking("", "at noon"), acc.Task.Id))); h.state != completed || h.text != "you said at noon" {
		t.Errorf("answered, it is %v, %q", h.state, h.text)
	}
}

// Where nothing makes text of audio, an agent that does not take it refuses it, and how it would be
// heard is said with that.
func TestWhoCannotHearSaysHowItCould(t *testing.T) {
	texttest.Fixed(t)
	w := build(t)
	w.agent("main", shows, func(_ *actor, c *a2apb.AgentCard) { c.DefaultInputModes = []string{"text/plain", "image/png"} })
	_, err := w.Send(w.ctx(w.thread), speaking("", "hello"))
	if mesh.FieldOf(err) != "message.parts[0].media_type" || !strings.Contains(mesh.DetailOf(err), "voice.transcription.name") {
		t.Errorf("got %v", err)
	}
}
