package agent_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/text/texttest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	texttest.FromEnv()
	goleak.VerifyTestMain(m)
}

// fake is an agent that does what a function says.
type fake struct {
	run func(ctx context.Context, inv *agent.Invocation, say func(agent.Output) bool) error
}

func (f fake) Card() *a2apb.AgentCard {
	return &a2apb.AgentCard{
		Name: "fake", Description: "Does what the test says.", Version: "1",
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{Id: "fake", Name: "fake", Description: "fakes", Tags: []string{"fake"}}},
	}
}

func (f fake) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		if err := f.run(ctx, inv, func(o agent.Output) bool { return yield(o, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

// says returns an agent that yields the outputs.
func says(outs ...agent.Output) fake {
	return fake{func(_ context.Context, _ *agent.Invocation, say func(agent.Output) bool) error {
		for _, o := range outs {
			if !say(o) {
				break
			}
		}
		return nil
	}}
}

// start runs the runtime of the agent until the test stops it or ends.
func start(t *testing.T, a agent.Agent, opts ...agent.RuntimeOption) (r *agent.Runtime, stop func() error) {
	t.Helper()
	r = agent.NewRuntime(a, nil, opts...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	stop = func() error {
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if !stopped {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
	})
	return r, stop
}

// under returns ctx with the identity of a caller that activated our extension.
func under(ctx context.Context, g *mesh.Grant) context.Context {
	return mesh.WithCall(ctx, mesh.Call{
		Principal:  mesh.Principal{Tenant: g.Tenant, User: g.User, Grant: g},
		Extensions: []string{mesh.ExtensionURI},
	})
}

func send(t *testing.T, r *agent.Runtime, g *mesh.Grant, m *a2apb.Message) *a2a.Accepted {
	t.Helper()
	acc, err := r.Send(under(t.Context(), g), &a2apb.SendMessageRequest{Message: m})
	if err != nil {
		t.Fatal(err)
	}
	return acc
}

// heard is an update and when it came.
type heard struct {
	at   time.Duration
	seq  mesh.Seq
	text string // of the artifact's piece or of the status message
	kind string // state, "piece", "more" (appended), with "." when it is the last
	r    *a2apb.StreamResponse
}

// listen returns the updates after the cursor until the task rests.
func listen(t *testing.T, r *agent.Runtime, g *mesh.Grant, after mesh.Seq) []heard {
	t.Helper()
	begun := time.Now()
	var out []heard
	for u, err := range r.Updates(under(t.Context(), g), string(g.Execution), after) {
		if err != nil {
			t.Fatal(err)
		}
		h := heard{at: time.Since(begun), seq: u.Seq, r: u.Response}
		state, moved := a2a.StateOf(u.Response)
		if moved {
			h.kind = strings.TrimPrefix(state.String(), "TASK_STATE_")
			h.text = a2a.TextOf(u.Response.GetStatusUpdate().GetStatus().GetMessage())
		} else {
			a := u.Response.GetArtifactUpdate()
			h.kind, h.text = "piece", a2a.ArtifactText(a.GetArtifact())
			if a.GetAppend() {
				h.kind = "more"
			}
			if a.GetLastChunk() {
				h.kind += "."
			}
		}
		out = append(out, h)
		if moved && (mesh.Terminal(state) || mesh.Interrupted(state)) {
			break
		}
	}
	return out
}

// tell sends a message to a new task and returns what is heard of it.
func tell(t *testing.T, r *agent.Runtime, text string) []heard {
	t.Helper()
	g := agenttest.NewGrant()
	return listen(t, r, g, send(t, r, g, agenttest.Message(text)).Cursor)
}

func kinds(hs []heard) string {
	var out []string
	for _, h := range hs {
		out = append(out, h.kind)
	}
	return strings.Join(out, " ")
}

func last(hs []heard) heard { return hs[len(hs)-1] }

func reason(h heard) string {
	return a2a.Extension(a2a.MetadataOf(h.r)).GetFields()[a2a.KeyReason].GetStringValue()
}

var errPlain = errors.New("secret of the operator")
