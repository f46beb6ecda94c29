package llm_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// named is a model that makes calls of these ids, and then answers.
type named struct {
	ids  []string
	last *llm.Request
}

func (n *named) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	n.last = req
	return func(yield func(llm.Chunk, error) bool) {
		for _, id := range n.ids {
			if !yield(llm.Chunk{Tool: &mesh.ToolUse{ID: id, Name: "a", Arguments: "{}"}}, nil) {
				return
			}
		}
		if len(n.ids) == 0 && !yield(llm.Chunk{Text: "Done."}, nil) {
			return
		}
		n.ids = nil
		yield(llm.Chunk{Done: &llm.Done{Finish: "stop"}}, nil)
	}
}

// Some gateways put more than an id into the id of a call: what a log would
// refuse gets an id of ours, the same in the reply, the result and the history.
func TestIdsThatAreTooLongAreReplaced(t *testing.T) {
	long, fits := strings.Repeat("x", 129), strings.Repeat("y", 128)
	model := &named{ids: []string{long, long, fits}}
	loop := &llm.Loop{Model: model, Tools: tools{"a": echo("a")}}
	var replied, ended []string
	for e, err := range loop.Run(t.Context(), []llm.Message{{Role: llm.RoleUser, Text: "go"}}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Reply != nil:
			for _, u := range e.Reply.Tools {
				replied = append(replied, u.ID)
			}
		case e.Result != nil:
			ended = append(ended, e.Result.Use.ID)
		}
	}
	if len(replied) != 3 || len(ended) != 3 || replied[0] == replied[1] || replied[2] != fits {
		t.Fatalf("calls %v, results %v", replied, ended)
	}
	for i, m := range model.last.Messages[2:] {
		if m.ToolID != replied[i] || len(m.ToolID) > 128 {
			t.Errorf("result %d is of %q, want %q", i, m.ToolID, replied[i])
		}
	}
}
