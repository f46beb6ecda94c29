package call_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// The cursor of an agent's own stream counts what is not ours: all else that
// the agent says beside it stays.
func TestTheAgentsOwnCursorStaysOutOfTheLog(t *testing.T) {
	given := []map[string]any{
		{mesh.ExtensionURI: map[string]any{"seq": 1.0}},
		{mesh.ExtensionURI: map[string]any{"seq": 2.0, "step": 1.0}},
		{mesh.ExtensionURI: map[string]any{"seq": 3.0}, "other": "x"},
		{mesh.ExtensionURI: map[string]any{"step": 2.0}},
		{"seq": 4.0},
	}
	want := []map[string]any{
		nil,
		{mesh.ExtensionURI: map[string]any{"step": 1.0}},
		{"other": "x"},
		{mesh.ExtensionURI: map[string]any{"step": 2.0}},
		{"seq": 4.0},
	}
	stream := []*a2apb.StreamResponse{task("t", working)}
	for _, g := range given {
		md, err := structpb.NewStruct(g)
		if err != nil {
			t.Fatal(err)
		}
		r := piece("t", "a", "x", true)
		r.GetArtifactUpdate().Metadata = md
		stream = append(stream, r)
	}
	stream = append(stream, status1("t", completed, ""))
	var got []map[string]any
	for _, b := range collect(t.Context(), serve(t, &actor{says: script(stream...)}), request()) {
		if a, ok := b.(mesh.ArtifactAppended); ok {
			var md map[string]any
			if a.Metadata != nil {
				md = a.Metadata.AsMap()
			}
			got = append(got, md)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata in the log (-want +got):\n%s", diff)
	}
}
