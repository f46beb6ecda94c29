package node_test

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/store/tinydisk"
	"agentmesh/mesh/threadlog/eventpb"
)

// writable reports what the node says of itself.
func (m *testMesh) writable(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Any().HTTP+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// A turn that is at work when the disk fills waits until there is room: what its agent says,
// what it appends, and its end. Nothing of it is lost, and its user is told of no failure.
func TestATurnAtWorkWaitsForRoomOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	tinydisk.Mount(t, dir, "24m")
	begun, full, waits := make(chan struct{}), make(chan struct{}), make(chan struct{})
	piece := strings.Repeat("x", 32<<10)
	var said strings.Builder
	var m *testMesh
	m = start(t, config(dir), map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			say := func(text string) bool { said.WriteString(text); return yield(agent.Text{Text: text}, nil) }
			isFull := sync.OnceFunc(func() { close(waits) })
			defer isFull()
			if !say("before ") {
				return
			}
			close(begun)
			<-full
			for m.writable(ctx) { // what there is room for in the files that are there
				if !say(piece) {
					return
				}
			}
			isFull()
			note := &mesh.Event{ID: mesh.NewEventID(), Time: time.Now(), Execution: inv.Execution, Actor: "agent:main", Body: mesh.StateNoted{Agent: "main", Data: bytes.Repeat([]byte("n"), 60<<10)}}
			conn, err := rpc.Dial(m.Any().GRPC, rpc.DialOptions{})
			if err == nil { // without the patience of our client
				defer func() { _ = conn.Close() }()
				_, err = meshv1.NewThreadServiceClient(conn).AppendEvents(inv.Mesh.Context(ctx), &meshv1.AppendEventsRequest{ThreadId: inv.Thread.ID, Events: []*meshv1.Event{eventpb.EventToProto(note)}})
			}
			if err != nil {
				yield(nil, err)
				return
			}
			say(" after")
		}
	}})
	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("go"))
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	room := tinydisk.Fill(t, dir)
	close(full)
	<-waits
	if _, err := m.edge().SendMessage(in(t, mesh.NewThreadID()), say(strings.Repeat("y", 256<<10))); status.Code(err) != codes.Unavailable {
		t.Errorf("a new message on a full disk: %v", err)
	}
	room()
	s := hear(t, stream, nil)
	if s.state != a2apb.TaskState_TASK_STATE_COMPLETED || s.text != said.String() {
		t.Errorf("it ends %v %q with %d bytes %.40q; it said %d, %.40q", s.state, s.status, len(s.text), s.text, said.Len(), said.String())
	}
}
