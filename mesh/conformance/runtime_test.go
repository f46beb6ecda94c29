package conformance_test

import (
	"context"
	"fmt"
	"iter"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/conformance"
)

// mute is an agent of the mesh's own runtime.
type mute struct{}

func (mute) Card() *a2apb.AgentCard {
	return &a2apb.AgentCard{Name: "Mute", Description: "Says nothing", Version: "1.0.0", Capabilities: &a2apb.AgentCapabilities{Streaming: new(true)},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{Id: "s", Name: "S", Description: "S", Tags: []string{"s"}}}}
}

func (mute) Run(context.Context, *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(func(agent.Output, error) bool) {}
}

// An agent that takes calls of its mesh alone has not failed: the test says where it can be
// tested.
func TestAnAgentThatWantsTicketsIsNotFailed(t *testing.T) {
	t.Parallel()
	n := agenttest.NewNode(t)
	nodeAddr, _ := n.Serve(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- agent.Serve(ctx, agent.Options{Agent: mute{}, Node: agenttest.Dial(t, nodeAddr), NodeAddr: nodeAddr,
			Register: &agent.Registration{Name: "mute"}, Ready: func(at string) { ready <- at }})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	n.Mu.Lock()
	card, err := protojson.Marshal(n.Agents["mute"].GetCard())
	n.Mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(write("application/json", string(card)))
	defer srv.Close()
	all := run(t, srv.URL, conformance.Options{})
	for check, want := range map[string]conformance.Verdict{conformance.CheckConnect: ok, conformance.CheckSend: warning, conformance.CheckStream: skipped, conformance.CheckMalformed: skipped} {
		if got := of(all, check); !slices.Equal(got, []conformance.Verdict{want}) {
			t.Errorf("%s: %v: %v", check, got, all)
		}
	}
	if !strings.Contains(fmt.Sprint(all), "ticket") {
		t.Errorf("nobody says why: %v", all)
	}
}
