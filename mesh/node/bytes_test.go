package node_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// A newer agent says things that this version does not know.
type newer struct {
	a2apb.UnimplementedA2AServiceServer
	said []*a2apb.Artifact
}

func (a newer) SendStreamingMessage(_ *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	task := &a2apb.Task{Id: "t", ContextId: "c", Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_WORKING}}
	err := stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: task}})
	for i, piece := range a.said {
		u := &a2apb.TaskArtifactUpdateEvent{TaskId: "t", ContextId: "c", Artifact: piece, Append: i > 0}
		err = errors.Join(err, stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: u}}))
	}
	return errors.Join(err, stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		TaskId: "t", ContextId: "c", Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED}}}}))
}

// received reads the stream's artifact updates, and the task's id.
func received(t *testing.T, stream grpc.ServerStreamingClient[a2apb.StreamResponse], err error) (task string, updates [][]byte) {
	t.Helper()
	for err == nil {
		r := new(a2apb.StreamResponse)
		in := rpc.Encoded{Message: r}
		if err = stream.RecvMsg(&in); err == nil && r.GetArtifactUpdate() != nil {
			updates = append(updates, in.Wire)
		}
		if id := r.GetTask().GetId(); id != "" {
			task = id
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return task, updates
}

// What an agent says reaches everybody as the bytes that it came as, fields of newer
// versions among them: who listens live, who asks later, and who asks after a restart,
// of the same bytes around them.
func TestOutputReachesAllAsTheBytesThatItCameAs(t *testing.T) {
	text := &a2apb.Part{Content: &a2apb.Part_Text{Text: "hello"}}
	unknown := &a2apb.Artifact{ArtifactId: "out", Parts: []*a2apb.Part{text}}
	field := func(b []byte, n protowire.Number, v string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	// Its name, which we do know, comes last, where we would not put it.
	unknown.ProtoReflect().SetUnknown(field(field(nil, 999, "from the future"), 2, "name"))
	rich := &a2apb.Artifact{ArtifactId: "out", Name: "name", Parts: []*a2apb.Part{text, {Content: &a2apb.Part_Raw{Raw: bytes.Repeat([]byte{7}, 100_000)}}},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewNumberValue(1)}}}
	agent := newer{said: []*a2apb.Artifact{{ArtifactId: "out", Parts: []*a2apb.Part{text}}, unknown, rich}}

	dir, id := t.TempDir(), mesh.NewThreadID()
	m := start(t, config(dir), nil)
	join(t, m, "newer", agent, false)
	call, _ := mesh.CallFrom(ann(t.Context(), id))
	call.Agent = "newer"
	stream, err := m.edge().SendStreamingMessage(mesh.WithCall(t.Context(), call), say("go"))
	task, live := received(t, stream, err)
	if len(live) != len(agent.said) {
		t.Fatalf("%d pieces came", len(live))
	}
	for i, piece := range agent.said {
		if want, err := proto.Marshal(piece); err != nil || !bytes.Contains(live[i], want) {
			t.Errorf("piece %d came as %.200x, %v; want %.200x in it", i, live[i], err, want)
		}
	}
	again := func(when string, m *testMesh) {
		stream, err := m.edge().SubscribeToTask(from(t.Context(), id, 0), &a2apb.SubscribeToTaskRequest{Id: task})
		if _, got := received(t, stream, err); len(got) != len(live) || !bytes.Equal(bytes.Join(got, nil), bytes.Join(live, nil)) {
			t.Errorf("%s, %d pieces came as %.300x, want %.300x", when, len(got), got, live)
		}
	}
	again("afterwards", m)
	m.Stop()
	again("after a restart", start(t, config(dir), nil))
}
