package a2a_test

import (
	"strings"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/rpc"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

func TestSendMessageWaitsUntilTheTaskRests(t *testing.T) {
	for _, last := range []mesh.TaskState{completed, input, authorize} {
		service := newShelf()
		client := serve(t, service)
		var writing sync.WaitGroup
		writing.Go(func() {
			<-service.follow // the message was taken, and its sender waits
			service.write(piece("one"), status(working), piece("two"), status(last))
		})
		res, err := client.SendMessage(t.Context(), hello())
		writing.Wait()
		if err != nil {
			t.Fatal(err)
		}
		task := res.GetTask()
		if task.GetStatus().GetState() != last || len(task.GetArtifacts()) != 2 || len(task.GetHistory()) != 1 {
			t.Errorf("got %v, want %v with two artifacts and the message", task, last)
		}
	}
}

func TestATaskIsCanceledOnce(t *testing.T) {
	client := serve(t, newShelf())
	task, err := client.CancelTask(t.Context(), &a2apb.CancelTaskRequest{Id: taskID})
	if err != nil || task.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_CANCELED {
		t.Errorf("got %v, %v", task, err)
	}
	_, err = client.CancelTask(t.Context(), &a2apb.CancelTaskRequest{Id: taskID})
	if e := errorOf(t, err); e.Code != mesh.Precondition || e.Reason != a2a.ReasonTaskNotCancelable {
		t.Errorf("a second time: %v", err)
	}
}

func TestSendMessageReturnsAtOnceWhenAskedTo(t *testing.T) {
	client := serve(t, newShelf())
	req := hello()
	req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	res, err := client.SendMessage(t.Context(), req)
	if err != nil || res.GetTask().GetStatus().GetState() != working {
		t.Errorf("got %v, %v; want a task at work", res, err)
	}
}

func TestHistoryHasTheMostRecentMessages(t *testing.T) {
	service := newShelf()
	for _, text := range []string{"a", "b", "c"} {
		service.history = append(service.history, a2a.NewMessage(a2apb.Role_ROLE_USER, text))
	}
	client := serve(t, service)
	for want, length := range map[string]*int32{"a b c": nil, "": proto.Int32(0), "b c": proto.Int32(2), "a b c ": proto.Int32(9)} {
		task, err := client.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: taskID, HistoryLength: length})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range task.GetHistory() {
			got = append(got, a2a.TextOf(m))
		}
		if strings.Join(got, " ") != strings.TrimSpace(want) {
			t.Errorf("history_length %v: got %q, want %q", length, got, want)
		}
	}
	if len(service.history) != 3 {
		t.Error("the service's own task was changed")
	}
}

func TestAStreamBeginsWithTheTaskAndEndsWithTheTurn(t *testing.T) {
	tests := map[string]struct {
		updates []*a2apb.StreamResponse
		want    []string
	}{
		"terminal": {
			[]*a2apb.StreamResponse{piece("hi"), status(completed)},
			[]string{"task WORKING", "text hi", "COMPLETED"},
		},
		"the user's turn": {
			[]*a2apb.StreamResponse{status(input), status(working), status(completed)},
			[]string{"task WORKING", "INPUT_REQUIRED"},
		},
		"credentials come by another way": {
			[]*a2apb.StreamResponse{status(authorize), status(working), status(completed)},
			[]string{"task WORKING", "AUTH_REQUIRED", "WORKING", "COMPLETED"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			service := newShelf()
			client := serve(t, service)
			stream, err := client.SendStreamingMessage(t.Context(), hello())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Header(); err != nil {
				t.Fatal(err)
			}
			service.write(tt.updates...)
			got, err := states(t, stream)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAStreamThatItsServerCutsIsAnError(t *testing.T) {
	service := newShelf()
	client := serve(t, service)
	stream, err := client.SendStreamingMessage(t.Context(), hello())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	service.write(piece("half"))
	service.end()
	if _, err := states(t, stream); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("got %v, want Unavailable", err)
	}
}

type subscription struct {
	before, then []*a2apb.StreamResponse
	call         mesh.Call
	id           string
	want         []string
	code         mesh.Code
	reason       string
}

func ended() []*a2apb.StreamResponse {
	return []*a2apb.StreamResponse{piece("one"), piece("two"), status(completed)}
}

func subscriptions() map[string]subscription {
	return map[string]subscription{
		"stays open while the user is asked": {
			before: []*a2apb.StreamResponse{piece("one")},
			then:   []*a2apb.StreamResponse{status(input), status(working), piece("two"), status(completed)},
			want:   []string{"task WORKING", "INPUT_REQUIRED", "WORKING", "text two", "COMPLETED"},
		},
		"begins with a task that waits": {
			before: []*a2apb.StreamResponse{status(input)},
			then:   []*a2apb.StreamResponse{status(working), status(completed)},
			want:   []string{"task INPUT_REQUIRED", "WORKING", "COMPLETED"},
		},
		"refuses a task that is over": {before: ended(), code: mesh.Precondition, reason: a2a.ReasonUnsupported},
		"serves it after a cursor": {
			before: ended(), call: mesh.Call{AfterSeq: 1, HasCursor: true},
			want: []string{"task COMPLETED", "text two", "COMPLETED"},
		},
		"serves all of it after cursor 0": {
			before: ended(), call: mesh.Call{HasCursor: true},
			want: []string{"task COMPLETED", "text one", "text two", "COMPLETED"},
		},
		"ends after the last cursor": {
			before: ended(), call: mesh.Call{AfterSeq: 3, HasCursor: true}, want: []string{"task COMPLETED"},
		},
		"refuses a cursor from the future": {before: ended(), call: mesh.Call{AfterSeq: 4, HasCursor: true}, code: mesh.Invalid},
		"does not know another task":       {id: "other", code: mesh.NotFound, reason: "TASK_NOT_FOUND"},
		"needs an id":                      {id: "/", code: mesh.Invalid},
	}
}

func TestSubscribeToTask(t *testing.T) {
	for name, tt := range subscriptions() {
		t.Run(name, func(t *testing.T) {
			service := newShelf()
			service.write(tt.before...)
			client := serve(t, service)
			id := tt.id
			if id == "" {
				id = taskID
			}
			stream, err := client.SubscribeToTask(mesh.WithCall(t.Context(), tt.call), &a2apb.SubscribeToTaskRequest{Id: id})
			if err != nil {
				t.Fatal(err)
			}
			if md, err := stream.Header(); err != nil && md != nil {
				t.Fatal(err)
			}
			service.write(tt.then...)
			got, err := states(t, stream)
			if tt.want == nil {
				e := errorOf(t, err)
				if e.Code != tt.code || e.Reason != tt.reason || len(got) > 0 {
					t.Errorf("got %v, %v %q; want %v %q alone", got, e, e.Reason, tt.code, tt.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestATaskAfterACursorHasNeitherArtifactsNorHistory(t *testing.T) {
	service := newShelf()
	service.history = []*a2apb.Message{a2a.NewMessage(a2apb.Role_ROLE_USER, "x")}
	service.write(piece("one"), status(completed))
	client := serve(t, service)
	ctx := mesh.WithCall(t.Context(), mesh.Call{HasCursor: true, AfterSeq: 1, Extensions: []string{mesh.ExtensionURI}})
	stream, err := client.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: taskID})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if seq, ok := a2a.SeqOf(first); !ok || seq != 1 || len(first.GetTask().GetArtifacts())+len(first.GetTask().GetHistory()) != 0 {
		t.Errorf("got %v at %d, want a bare task at the cursor 1", first, seq)
	}
	second, err := stream.Recv()
	if seq, _ := a2a.SeqOf(second); err != nil || seq != 2 {
		t.Errorf("got %v, %v; want the update 2", second, err)
	}
}

func TestTheExtensionIsEchoedAndGivesCursorsOnlyWhenActivated(t *testing.T) {
	for name, extensions := range map[string][]string{
		"activated": {mesh.ExtensionURI, "urn:other"}, "not": {"urn:other"}, "not, but the cursor alone": {"urn:other"},
	} {
		t.Run(name, func(t *testing.T) {
			cursors := name != "not"
			service := newShelf()
			service.write(piece("one"))
			client := serve(t, service)
			ctx := mesh.WithCall(t.Context(), mesh.Call{Extensions: extensions, WantSeq: strings.Contains(name, "alone")})
			stream, err := client.SendStreamingMessage(ctx, hello())
			if err != nil {
				t.Fatal(err)
			}
			md, err := stream.Header()
			if err != nil {
				t.Fatal(err)
			}
			service.write(status(completed))
			first, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			seq, ok := a2a.SeqOf(first)
			want := metadata.Pairs(rpc.KeyExtensions, mesh.ExtensionURI).Get(rpc.KeyExtensions)
			if name != "activated" {
				want = nil
			}
			if diff := cmp.Diff(want, md.Get(rpc.KeyExtensions)); diff != "" {
				t.Error(diff)
			}
			if ok != cursors || ok && seq != 1 {
				t.Errorf("the task has the cursor %d, %v", seq, ok)
			}
			if _, err := states(t, stream); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// numbered is a sink that keeps the places of what it is sent.
type numbered struct {
	seqs  []int64
	plain bool // nothing has its place in its metadata, too
}

func (n *numbered) Header(metadata.MD) error { return nil }

func (n *numbered) Send(m proto.Message, seq int64) error {
	_, has := a2a.SeqOf(m.(*a2apb.StreamResponse))
	n.seqs, n.plain = append(n.seqs, seq), n.plain && !has
	return nil
}

// Who is in the same process learns every place, and nothing is put into updates for
// that: those of who did not activate our extension have none of it.
func TestPlacesGoBesideWhatIsStreamedInTheProcess(t *testing.T) {
	service := newShelf()
	service.write(piece("one"), piece("two"), status(completed))
	s := rpc.NewServer(rpc.Options{Auth: anyone{}})
	t.Cleanup(s.Stop)
	a2apb.RegisterA2AServiceServer(s, a2a.NewServer(service))
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs(rpc.KeyAfterSeq, "1"))
	got := numbered{plain: true}
	err := s.Stream(ctx, a2apb.A2AService_SubscribeToTask_FullMethodName, &a2apb.SubscribeToTaskRequest{Id: taskID}, &got)
	if diff := cmp.Diff([]int64{1, 2, 3}, got.seqs); err != nil || diff != "" || !got.plain {
		t.Errorf("%v, plain %v (-want +got):\n%s", err, got.plain, diff)
	}
}
