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
	for range 2 { // what the agent said is not changed by who hears it
		for where, c := range places(t, &actor{says: script(stream...)}) {
			if diff := cmp.Diff(want, metadataOf(collect(t.Context(), c, request()))); diff != "" {
				t.Errorf("%s: metadata in the log (-want +got):\n%s", where, diff)
			}
		}
	}
	for i, g := range given {
		if diff := cmp.Diff(g, stream[i+1].GetArtifactUpdate().GetMetadata().AsMap()); diff != "" {
			t.Errorf("the agent's metadata (-before +after):\n%s", diff)
		}
	}
}

// metadataOf are those of output.
func metadataOf(bodies []mesh.Body) (all []map[string]any) {
	for _, b := range bodies {
		if a, ok := b.(mesh.ArtifactAppended); ok {
			var md map[string]any
			if a.Metadata != nil {
				md = a.Metadata.AsMap()
			}
			all = append(all, md)
		}
	}
	return all
}
