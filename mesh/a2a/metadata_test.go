package a2a_test

import (
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestExtensionDataIsAddedToACopy(t *testing.T) {
	md, err := structpb.NewStruct(map[string]any{"other": "x", mesh.ExtensionURI: map[string]any{"step": 2}})
	if err != nil {
		t.Fatal(err)
	}
	got := a2a.SetSeq(md, 7).AsMap()
	want := map[string]any{"other": "x", mesh.ExtensionURI: map[string]any{"step": 2.0, "seq": 7.0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, changed := a2a.Extension(md).Fields[a2a.KeySeq]; changed {
		t.Error("the original was changed")
	}
	if diff := cmp.Diff(map[string]any{"other": "x"}, a2a.WithoutExtension(a2a.SetSeq(md, 7)).AsMap()); diff != "" {
		t.Error(diff)
	}
	if a2a.WithoutExtension(a2a.SetSeq(nil, 7)) != nil {
		t.Error("nothing is left, and yet there is metadata")
	}
}

func TestPlainUpdatesAreTheSameWithoutTheExtension(t *testing.T) {
	for _, r := range []*a2apb.StreamResponse{
		a2a.TaskResponse(&a2apb.Task{Id: "t", Status: &a2apb.TaskStatus{State: working}, History: []*a2apb.Message{{MessageId: "m"}}}),
		status(completed),
		piece("text"),
	} {
		want := r.String()
		if a2a.Plain(r) != r {
			t.Errorf("%v was copied for nothing", r)
		}
		decorated := decorate(r)
		if seq, ok := a2a.SeqOf(decorated); !ok || seq != 9 {
			t.Fatalf("got cursor %d, %v of %v", seq, ok, decorated)
		}
		if diff := cmp.Diff(r, a2a.Plain(decorated), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", want, diff)
		}
	}
}

func decorate(r *a2apb.StreamResponse) *a2apb.StreamResponse {
	switch p := r.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		t := p.Task
		return a2a.TaskResponse(&a2apb.Task{Id: t.Id, Status: t.Status, History: t.History, Metadata: a2a.SetSeq(nil, 9)})
	case *a2apb.StreamResponse_StatusUpdate:
		u := p.StatusUpdate
		return a2a.StatusResponse(&a2apb.TaskStatusUpdateEvent{TaskId: u.TaskId, ContextId: u.ContextId, Status: u.Status, Metadata: a2a.SetSeq(nil, 9)})
	}
	u := r.GetArtifactUpdate()
	return a2a.ArtifactResponse(&a2apb.TaskArtifactUpdateEvent{TaskId: u.TaskId, ContextId: u.ContextId, Artifact: u.Artifact, Metadata: a2a.SetSeq(nil, 9)})
}

func TestTextIsPutTogether(t *testing.T) {
	m := a2a.NewMessage(a2apb.Role_ROLE_USER, "one")
	m.Parts = append(m.Parts, a2a.DataPart(structpb.NewBoolValue(true)), a2a.TextPart("two"))
	if got := a2a.TextOf(m); got != "one\ntwo" {
		t.Errorf("TextOf: got %q", got)
	}
	if m.MessageId == "" || m.Role != a2apb.Role_ROLE_USER {
		t.Errorf("got %v, want a message id and the role", m)
	}
	response := &a2apb.Artifact{Parts: []*a2apb.Part{a2a.TextPart("Hel"), a2a.TextPart("lo")}}
	if got := a2a.ArtifactText(response); got != "Hello" {
		t.Errorf("ArtifactText: got %q", got)
	}
	task := &a2apb.Task{Artifacts: []*a2apb.Artifact{response, {}, {Parts: []*a2apb.Part{a2a.TextPart("Bye")}}}}
	if got := a2a.TaskText(task); got != "Hello\nBye" {
		t.Errorf("TaskText: got %q", got)
	}
	if a2a.TextOf(nil) != "" || a2a.TaskText(nil) != "" {
		t.Error("nothing has text")
	}
}
