package turn

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/call"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
)

// Targets are main, who says a word and hands over to smith, and smith, who may not be there.
type targets struct {
	agent
	r          *Runner
	gone, back time.Time       // smith is not live before that
	dies       bool            // smith says nothing to a message
	late       []time.Duration // after which main says more, when it has given the stream away
	called     []string
}

func (s *targets) Resolve(tenant mesh.TenantID, name string) (registry.Entry, error) {
	if name == "smith" && time.Now().Before(s.back) {
		return registry.Entry{Name: name, Gone: s.gone}, mesh.Errorf(mesh.Unavailable, "test", "not live")
	}
	e, err := s.agent.Resolve(tenant, name)
	e.Card.Capabilities.Extensions = []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI}}
	return e, err
}

func (s *targets) Dial(t call.Target) (call.Client, error) {
	return &targetCall{targets: s, name: t.Name}, nil
}

type targetCall struct {
	*targets
	name string
}

func (c *targetCall) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[call.Response, error] {
	c.called = append(c.called, c.name)
	as, _ := mesh.CallFrom(ctx)
	return func(yield func(call.Response, error) bool) {
		say := func(r *a2apb.StreamResponse) { yield(call.Response{StreamResponse: r}, nil) }
		switch {
		case c.name == "smith" && c.dies:
			yield(call.Response{}, mesh.Errorf(mesh.Unavailable, "test", "the connection broke"))
			return
		case c.name == "main" && len(c.called) == 1:
			say(task("t"))
			say(piece("t", "one moment"))
			time.Sleep(time.Millisecond) // until it is logged
			if err := add(c.r, gives(as.Execution, "main", "smith")); err != nil {
				yield(call.Response{}, err)
				return
			}
			for gave, i := time.Now(), 0; i < len(c.late); i++ {
				select {
				case <-time.After(time.Until(gave.Add(c.late[i]))):
				case <-ctx.Done():
					return
				}
				say(piece("t", c.late[i].String()))
			}
		default:
			say(task("t"))
			say(piece("t", c.name+": "+a2a.Extension(req.GetMessage().GetMetadata()).GetFields()["handoff_return"].GetStructValue().GetFields()["state"].GetStringValue()))
		}
		say(status("t", completed))
	}
}

// S4-063: whoever has given the stream away has it back within two seconds where its target is
// not there, however long other agents are waited for, with what was said before.
func TestATargetThatIsNotThereIsNotWaitedForLong(t *testing.T) {
	const never = time.Hour
	for name, tt := range map[string]struct {
		gone, back time.Duration // before the handoff, and after it
		dies       bool
		after      time.Duration
		called     []string
		text       string
	}{
		"it is back in time":            {time.Second, 500 * time.Millisecond, false, 500 * time.Millisecond, []string{"main", "smith"}, "one moment.smith: ."},
		"it was there a moment ago":     {500 * time.Millisecond, never, false, 1500 * time.Millisecond, []string{"main", "main"}, "one moment.main: error."},
		"it has been gone for longer":   {10 * time.Second, never, false, 0, []string{"main", "main"}, "one moment.main: error."},
		"it dies before its first word": {0, 0, true, 0, []string{"main", "smith", "main"}, "one moment.main: error."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &targets{agent: agent{canceled: make(chan string, 8)}, dies: tt.dies, gone: time.Now().Add(-tt.gone), back: time.Now().Add(tt.back)}
				s.r = runner(t, &ledger{Backend: mem.Open()}, &s.agent)
				s.r.Directory, s.r.Dialer = s, s
				defer func() { _ = s.r.Close(t.Context()) }()
				began := time.Now()
				post(t, s.r, "t1")
				time.Sleep(time.Minute)
				synctest.Wait()
				events, err := s.r.Log.Read(t.Context(), key, 0, 1000)
				must(t, err)
				shown, text := thread.NewSnapshot(key.ID, "t1"), ""
				for _, e := range events {
					shown.Apply(e)
				}
				task, _ := shown.Task()
				for _, a := range task.GetArtifacts() {
					text += a2a.ArtifactText(a) + "."
				}
				turn := thread.Fold(events).Turn("t1")
				if diff := cmp.Diff(tt.called, s.called); diff != "" || text != tt.text || turn.State != completed {
					t.Errorf("ended %v with %q (-want +got):\n%s", turn.State, text, diff)
				}
				if took := turn.Updated.Sub(began); took < tt.after || took > tt.after+500*time.Millisecond {
					t.Errorf("it took %v, want about %v", took, tt.after)
				}
			})
		})
	}
}

// finding N12: who gave the stream away is logged for two seconds, and not shown; then it is told
// to end.
func TestWhoGaveTheStreamAwayIsHeardForTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &targets{agent: agent{canceled: make(chan string, 8)}, late: []time.Duration{time.Second, 1900 * time.Millisecond, 2100 * time.Millisecond}}
		s.r = runner(t, &ledger{Backend: mem.Open()}, &s.agent)
		s.r.Directory, s.r.Dialer = s, s
		defer func() { _ = s.r.Close(t.Context()) }()
		post(t, s.r, "t1")
		time.Sleep(time.Minute)
		synctest.Wait()
		events, err := s.r.Log.Read(t.Context(), key, 0, 1000)
		must(t, err)
		var logged, text []string
		shown := thread.NewSnapshot(key.ID, "t1")
		for _, e := range events {
			if a, ok := e.Body.(mesh.ArtifactAppended); ok && e.Actor == "agent:main" {
				logged = append(logged, a2a.ArtifactText(a.Artifact))
			}
			shown.Apply(e)
		}
		task, _ := shown.Task()
		for _, a := range task.GetArtifacts() {
			text = append(text, a2a.ArtifactText(a))
		}
		if diff := cmp.Diff([][]string{{"one moment", "1s", "1.9s"}, {"one moment", "smith: "}}, [][]string{logged, text}); diff != "" {
			t.Errorf("logged of main, and shown (-want +got):\n%s", diff)
		}
		if len(s.canceled) != 1 {
			t.Errorf("it was told to end %d times", len(s.canceled))
		}
	})
}
