package mainagent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"agentmesh/agents/internal/meshtest"
	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
)

const (
	offered   = "Would you like to continue?"
	unrelated = "How do I configure rate limiting for my agent?"
)

// leftSkill begins a skill, leaves it in its second step, and returns the mesh.
func leftSkill(t *testing.T, w *world, thread, word string, o meshtest.Options) *meshtest.Mesh {
	t.Helper()
	m := meshtest.Start(t, w.all(), o)
	m.Say(thread, "I want to create a skill that sends Slack alerts")
	if s := m.Say(thread, "channel and text"); !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Fatalf("asked %q", s.Asked())
	}
	if s := m.Say(thread, word); s.State != completed || strings.Contains(s.Text, offered) || !strings.Contains(s.Text, "You are back with me") {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	return m
}

// S4-046, S4-064: who left a session, in whichever words, is offered to go on with it when
// the next message is answered, says yes, and is where it was left: nothing is asked again,
// though the mesh was started anew in between.
func TestWhoLeftASessionIsOfferedToGoOnWithIt(t *testing.T) {
	for _, word := range []string{"exit", "cancel", "please cancel creating the skill"} {
		t.Run(word, func(t *testing.T) {
			w := newWorld(t)
			thread := mesh.NewThreadID()
			m := leftSkill(t, w, thread, word, meshtest.Options{})
			s := m.Say(thread, unrelated)
			if s.State != completed || !strings.Contains(s.Text, "rate_limit.per_second") ||
				!strings.HasSuffix(s.Text, "By the way, you left the Skill Creation Assistant at step 2 of 5 (defining triggers), and what you said there is kept. "+offered+" Say “yes”.") {
				t.Fatalf("ended %v: %q", s.State, s.Text)
			}
			m.Stop()
			m = meshtest.Start(t, w.all(), meshtest.Options{Data: m.Data})
			if s = m.Say(thread, "yes"); !strings.Contains(s.Asked(), "What should the skill be called?") || strings.Contains(s.Asked(), "Welcome back") {
				t.Fatalf("said %q, asked %q; want the question at which the user left", s.Text, s.Asked())
			}
			m.Say(thread, "call it slack.ping")
			if s = m.Say(thread, "yes"); !strings.Contains(s.Text, "'slack.ping' is now active") {
				t.Errorf("said %q", s.Text)
			}
			if file := m.SkillFile("slack.ping"); !strings.Contains(file, "- name: text\n") {
				t.Errorf("what was said before is lost:\n%s", file)
			}
			if s = m.Say(thread, unrelated); strings.Contains(s.Text, offered) {
				t.Errorf("a skill that is done is offered: %q", s.Text)
			}
		})
	}
}

// S4-064: it is offered once: after a no, and after another message, a yes is one to main.
func TestASessionIsOfferedOnce(t *testing.T) {
	for _, answer := range []string{"no", unrelated} {
		t.Run(answer, func(t *testing.T) {
			thread := mesh.NewThreadID()
			m := leftSkill(t, newWorld(t), thread, "exit", meshtest.Options{})
			if s := m.Say(thread, unrelated); !strings.Contains(s.Text, offered) {
				t.Fatalf("said %q", s.Text)
			}
			for _, said := range []string{answer, "yes", unrelated} {
				if s := m.Say(thread, said); strings.Contains(s.Text, offered) || strings.Contains(s.Asked(), "skill") {
					t.Errorf("after %q: said %q, asked %q", said, s.Text, s.Asked())
				}
			}
			// It is there for whoever asks for it.
			if s := m.Say(thread, "I would like to create the skill after all"); !strings.Contains(s.Asked(), "Welcome back!") {
				t.Errorf("asked %q", s.Asked())
			}
		})
	}
}

// S4-080: what was noted in a session is dropped when it is older than it is kept: it is
// neither offered nor taken up.
func TestASessionIsKeptForItsRetention(t *testing.T) {
	nothing, thread := time.Duration(0), mesh.NewThreadID()
	m := leftSkill(t, newWorld(t), thread, "exit", meshtest.Options{Sessions: node.Sessions{Retention: &nothing}})
	if s := m.Say(thread, unrelated); strings.Contains(s.Text, offered) {
		t.Errorf("said %q", s.Text)
	}
	s := m.Say(thread, "I want to create a skill that mails the weather")
	if strings.Contains(s.Asked(), "Welcome back!") || !strings.Contains(s.Text, "mails the weather") {
		t.Errorf("said %q, asked %q", s.Text, s.Asked())
	}
	dropped := 0
	for _, n := range bodies[mesh.StateNoted](m.Events(thread)) {
		if n.Agent == "skill-builder" && len(n.Data) == 0 {
			dropped++
		}
	}
	if dropped != 1 {
		t.Errorf("%d times dropped", dropped)
	}
	if s = m.Say(thread, "the city"); !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Errorf("asked %q: a session is not dropped while it goes on", s.Asked())
	}
}

// An agedLog is a log in which what is there was written that much longer ago.
type agedLog struct {
	threadlog.Backend
	before time.Time
	age    time.Duration
}

func (l agedLog) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	page, err := l.Backend.Read(ctx, key, after, limit)
	return l.aged(page), err
}

func (l agedLog) Scan(ctx context.Context, after mesh.Pos, limit int) ([]threadlog.Record, error) {
	page, err := l.Backend.Scan(ctx, after, limit)
	return l.aged(page), err
}

func (l agedLog) aged(page []threadlog.Record) []threadlog.Record {
	for i, r := range page {
		e, err := eventpb.Decode(r.Data)
		if err != nil {
			panic(err)
		}
		if e.Time.Before(l.before) {
			e.Time = e.Time.Add(-l.age)
			if page[i].Data, err = eventpb.Encode(e); err != nil {
				panic(err)
			}
		}
	}
	return page
}

// later starts the mesh again when so much time has passed.
func later(t *testing.T, w *world, m *meshtest.Mesh, age time.Duration, sessions node.Sessions) *meshtest.Mesh {
	t.Helper()
	m.Stop()
	now := time.Now()
	return meshtest.Start(t, w.all(), meshtest.Options{Data: m.Data, Sessions: sessions,
		Store: func(b threadlog.Backend) threadlog.Backend { return agedLog{b, now, age} }})
}

// S4-080: what was noted ages: it is offered and taken up until its retention is over, counted
// from when the agent last noted something, and is dropped then.
func TestWhatWasNotedIsKeptUntilItIsTooOld(t *testing.T) {
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		retention time.Duration // 0 is the default, 30 days
		age       time.Duration
		kept      bool
	}{
		"younger than 30 days":   {0, 30*day - time.Hour, true},
		"older than 30 days":     {0, 30*day + time.Minute, false},
		"within the setting":     {7 * day, 7*day - time.Hour, true},
		"older than the setting": {7 * day, 7*day + time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			var sessions node.Sessions
			if tt.retention != 0 {
				sessions.Retention = &tt.retention
			}
			w, thread := newWorld(t), mesh.NewThreadID()
			m := later(t, w, leftSkill(t, w, thread, "exit", meshtest.Options{}), tt.age, sessions)
			got, err := meshv1.NewThreadServiceClient(m.Dial(rpc.DialOptions{})).GetThread(mesh.WithCall(t.Context(), mesh.Call{}), &meshv1.GetThreadRequest{ThreadId: thread})
			if at := got.GetThread().GetSession(); err != nil || at.GetAgent() != "skill-builder" || at.GetResumable() != tt.kept {
				t.Errorf("the session is %v, %v", at, err)
			}
			if s := m.Say(thread, unrelated); s.State != completed || strings.Contains(s.Text, offered) != tt.kept {
				t.Errorf("ended %v: %q", s.State, s.Text)
			}
			s := m.Say(thread, "I want to create a skill that mails the weather")
			if strings.Contains(s.Asked(), "Welcome back!") != tt.kept {
				t.Errorf("said %q, asked %q", s.Text, s.Asked())
			}
			dropped := 0
			for _, n := range bodies[mesh.StateNoted](m.Events(thread)) {
				if n.Agent == "skill-builder" && len(n.Data) == 0 {
					dropped++
				}
			}
			if (dropped == 0) != tt.kept {
				t.Errorf("%d times dropped", dropped)
			}
		})
	}
}

// S4-029, S4-064: whose session was parked reads so once, below the answer, with the offer to go
// on, and a yes goes on at the question that waited.
func TestAParkedSessionIsOfferedAndSaidToBeParkedOnce(t *testing.T) {
	w, thread := newWorld(t), mesh.NewThreadID()
	m := meshtest.Start(t, w.all(), meshtest.Options{})
	m.Say(thread, "I want to create a skill that sends Slack alerts")
	m.Say(thread, "channel and text")
	m = later(t, w, m, 2*time.Hour, node.Sessions{})
	s := m.Say(thread, unrelated)
	if s.State != completed || strings.Count(s.Text, "parked") != 1 || !strings.HasSuffix(s.Text,
		"\n\nYour session with the Skill Creation Assistant is parked at step 2 of 5 (defining triggers), as you were away for a while, and what you said there is kept. "+offered+" Say “yes”.") {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
	if s = m.Say(thread, "yes"); !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Errorf("said %q, asked %q", s.Text, s.Asked())
	}
	m = later(t, w, m, 2*time.Hour, node.Sessions{})
	if s = m.Say(thread, "exit"); s.State != completed || !strings.Contains(s.Text, "You are back with me") || strings.Contains(s.Text, "parked") {
		t.Errorf("who leaves a session that is over by time: ended %v: %q", s.State, s.Text)
	}
}

// A session that is not offered, as nothing of it is kept, is said to be parked before the answer.
func TestAParkedSessionOfWhichNothingIsKept(t *testing.T) {
	w, thread := newWorld(t), mesh.NewThreadID()
	m := meshtest.Start(t, w.all(), meshtest.Options{})
	m.Say(thread, "I want to create a skill that sends Slack alerts")
	m = later(t, w, m, 2*time.Hour, node.Sessions{Retention: new(time.Duration)})
	if s := m.Say(thread, unrelated); !strings.HasPrefix(s.Text, "The session with skill-builder is parked") || strings.Contains(s.Text, offered) {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
}

// What a client says of sessions counts for nothing: there is none to go on with.
func TestAClientCannotMakeASessionUp(t *testing.T) {
	m := meshtest.Start(t, newWorld(t).all(), meshtest.Options{})
	thread := mesh.NewThreadID()
	s := m.SayWith(thread, "yes", map[string]any{"resume": map[string]any{"agent": "skill-builder", "offered": true}, "channel": "chat"})
	for _, d := range bodies[mesh.DispatchIssued](m.Events(thread)) {
		ext := d.Message.GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()
		if ext["resume"] != nil || ext["channel"].GetStringValue() != "chat" {
			t.Errorf("%s was told %v", d.Child.Agent, ext)
		}
	}
	if n := len(bodies[mesh.HandoffStarted](m.Events(thread))); n != 0 || s.State != completed {
		t.Errorf("%d handoffs; ended %v: %q", n, s.State, s.Text)
	}
}
