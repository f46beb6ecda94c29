package a2a_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/rpc"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// A client that takes what clients of gRPC take by themselves gets every task, of a larger one as
// much as it takes, and is told what is left out and where it is; one that takes more gets more.
func TestATaskIsShownAsFarAsItsCallerTakesIt(t *testing.T) {
	const at = "https://mesh.example/tasks/"
	text := func(n int) *a2apb.Part { return a2a.TextPart(strings.Repeat("é", n/2)) }
	files := func(n int) (all []*a2apb.Artifact) {
		for i := range n {
			all = append(all, &a2apb.Artifact{ArtifactId: fmt.Sprint(i), Parts: []*a2apb.Part{{Content: &a2apb.Part_Raw{Raw: make([]byte, 200)}}}})
		}
		return all
	}
	said := func(n, size int) (all []*a2apb.Message) {
		for i := range n {
			all = append(all, &a2apb.Message{MessageId: fmt.Sprint(i), Parts: []*a2apb.Part{text(size)}})
		}
		return all
	}
	for name, tt := range map[string]struct {
		artifacts       []*a2apb.Artifact
		history         []*a2apb.Message
		cut             bool
		least           int // bytes that are shown, at least
		leftMessages    float64
		leftArtifacts   bool
		keepsAllHistory bool
	}{
		"what has room is whole":          {artifacts: files(3), history: said(3, 1000), keepsAllHistory: true},
		"one long text":                   {artifacts: []*a2apb.Artifact{{ArtifactId: "a", Name: "n", Parts: []*a2apb.Part{text(9 << 20)}}}, history: said(1, 100), cut: true, least: 4<<20 - 64<<10, keepsAllHistory: true},
		"a long text before a short one":  {artifacts: append([]*a2apb.Artifact{{ArtifactId: "a", Parts: []*a2apb.Part{text(5 << 20)}}}, files(2)...), cut: true, least: 4<<20 - 64<<10, keepsAllHistory: true},
		"more files than have room":       {artifacts: files(40_000), cut: true, least: 1 << 20, leftArtifacts: true, keepsAllHistory: true},
		"a long conversation":             {artifacts: files(1), history: said(8, 1<<20-1<<10), cut: true, least: 3<<20 - 64<<10, leftMessages: 5},
		"a long conversation and a text":  {artifacts: []*a2apb.Artifact{{ArtifactId: "a", Parts: []*a2apb.Part{text(5 << 20)}}}, history: said(8, 1<<20-1<<10), cut: true, least: 4<<20 - 64<<10, leftMessages: 7},
		"a text of pieces and then files": {artifacts: []*a2apb.Artifact{{ArtifactId: "a", Parts: []*a2apb.Part{text(3 << 20), text(3 << 20)}}}, cut: true, least: 4<<20 - 64<<10, keepsAllHistory: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf()
			s.history = tt.history
			for _, a := range tt.artifacts {
				s.updates = append(s.updates, a2a.ArtifactResponse(&a2apb.TaskArtifactUpdateEvent{Artifact: a}))
			}
			client := serve(t, s, a2a.WithWhole(func(id string) string { return at + id }))
			got, err := client.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: taskID})
			if err != nil {
				t.Fatal(err)
			}
			mark, cut := got.GetMetadata().GetFields()[mesh.KeyTruncated]
			fields := mark.GetStructValue().GetFields()
			if cut != tt.cut || proto.Size(got) < tt.least || fields["messages_left_out"].GetNumberValue() != tt.leftMessages ||
				(fields["artifacts_left_out"].GetNumberValue() > 0) != tt.leftArtifacts || tt.keepsAllHistory && len(got.History) != len(tt.history) {
				t.Errorf("%d bytes, %d messages, marked %v", proto.Size(got), len(got.History), mark)
			}
			if n := len(got.History); n > 0 && got.History[n-1].MessageId != tt.history[len(tt.history)-1].MessageId {
				t.Errorf("the last message is %s", got.History[n-1].MessageId)
			}
			for i, a := range got.Artifacts {
				_, marked := a.GetMetadata().GetFields()[mesh.KeyTruncated]
				if n := len(a.Parts); marked != (n > 0 && a.Parts[n-1].GetUrl() == at+taskID) || !marked && !proto.Equal(a, tt.artifacts[i]) {
					t.Errorf("artifact %d is marked: %v, and has %d parts", i, marked, n)
				}
				for k, p := range a.Parts {
					if whole := tt.artifacts[i].GetParts(); p.GetText() != "" && (!utf8.ValidString(p.GetText()) || !strings.HasPrefix(whole[k].GetText(), p.GetText())) {
						t.Errorf("part %d of artifact %d is no beginning", k, i)
					}
				}
			}
			whole, err := serveTo(t, s, rpc.DialOptions{MaxMessage: 64 << 20}).GetTask(t.Context(), &a2apb.GetTaskRequest{Id: taskID})
			if err != nil || !proto.Equal(s.task(), whole) {
				t.Errorf("who takes more gets another task, of %d bytes: %v", proto.Size(whole), err)
			}
		})
	}
}

// A task of which the mesh itself read a part is marked, and says where the whole is, also where
// that part has room.
func TestATaskThatWasReadInPartIsMarked(t *testing.T) {
	s := newShelf()
	s.marks = &structpb.Struct{Fields: map[string]*structpb.Value{mesh.KeyTruncated: structpb.NewStructValue(&structpb.Struct{})}}
	s.updates = append(s.updates, a2a.ArtifactResponse(&a2apb.TaskArtifactUpdateEvent{Artifact: &a2apb.Artifact{ArtifactId: "a", Parts: []*a2apb.Part{a2a.TextPart("part")}}}))
	client := serve(t, s, a2a.WithWhole(func(id string) string { return "https://mesh.example/tasks/" + id }))
	got, err := client.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: taskID})
	mark := got.GetMetadata().GetFields()[mesh.KeyTruncated].GetStructValue().GetFields()
	if err != nil || len(got.Artifacts) != 1 || mark["url"].GetStringValue() != "https://mesh.example/tasks/"+taskID {
		t.Errorf("%v, %v", got, err)
	}
}
