package mesh_test

import (
	"cmp"
	"testing"

	"agentmesh/mesh"

	"google.golang.org/protobuf/types/known/structpb"
)

// A log of before does not say what a status asks.
func TestAQuestionOfBeforeIsShownWhereItStandsAsAParagraph(t *testing.T) {
	const q = "May I run mail.send? Sends.\n- to: bob\n- body: Hi,  Bob"
	for name, tt := range map[string]struct {
		text, question string
		want           bool
	}{
		"alone":                   {q, q, true},
		"numbered and indented":   {"1. May I run x?\n\n2. May I run mail.send? Sends.\n   - to: bob\n   - body: Hi, Bob\n\nYour answer counts for all of these.", q, true},
		"numbered twice":          {"1. 2. May I run mail.send? Sends.\n   - to: bob\n   - body: Hi, Bob", q, true},
		"with other line ends":    {"May I run mail.send? Sends.\r\n- to: bob\r\n- body: Hi, Bob\r\n", q, true},
		"with more of the answer": {q + ", and Alice", q, false},
		"with another argument":   {q + "\n- cc: eve", q, false},
		"with another recipient":  {"May I run mail.send? Sends.\n- to: bob@example.com\n- body: Hi, Bob", q, false},
		"without an argument":     {"May I run mail.send? Sends.\n- to: bob", q, false},
		"behind other words":      {"No harm. " + q, q, false},
		"one that is numbered":    {"1. 3. Delete?", "3. Delete?", true},
		"one of two paragraphs":   {"1. Sure?\n\n   Really?\n\n2. Other?", "Sure?\n\nReally?", true},
		"another one":             {"May I?", q, false},
		"none":                    {"May I?", " \n", false},
		"of nothing":              {"", q, false},
	} {
		if got := mesh.Shown(tt.text, nil, mesh.Question{Text: tt.question}); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// finding C8: a status says which calls it asks about. The words around a question
// do not matter, but what is said to be the question must be it, for all to see.
func TestAStatusShowsTheQuestionsThatItSaysItAsks(t *testing.T) {
	const q, list = "May I run mail.send?\n- to: bob", "1. Other?\n\n2. May I run mail.send?\n   - to: bob\n\nzik wug"
	asked := mesh.Question{Execution: "x", Call: "c", Text: q}
	for name, tt := range map[string]struct {
		text             string
		at, size         int
		execution, other string
		want             bool
	}{
		"alone":                  {text: q, size: len(q), want: true},
		"in a list":              {text: list, at: 14, size: 33, want: true},
		"after any words":        {text: "wug zik\n" + q, at: 8, size: len(q), want: true},
		"on a line of others":    {text: "No harm. " + q, at: 9, size: len(q)},
		"with more to the line":  {text: q + "@example.com", size: len(q)},
		"with another argument":  {text: q + "\n- cc: eve", size: len(q)},
		"with another question":  {text: "Shall I go on?", size: 14},
		"outside of the text":    {text: q, at: 2, size: len(q)},
		"before the text":        {text: q, at: -1, size: len(q)},
		"nowhere":                {text: q},
		"of another execution":   {text: q, size: len(q), execution: "y"},
		"of another call":        {text: q, size: len(q), other: "d"},
		"beside one of the list": {text: list, at: 0, size: 10},
	} {
		told := asked
		told.At, told.Size = tt.at, tt.size
		told.Execution = cmp.Or(mesh.ExecutionID(tt.execution), told.Execution)
		told.Call = cmp.Or(tt.other, told.Call)
		md := &structpb.Struct{Fields: map[string]*structpb.Value{mesh.ExtensionURI: structpb.NewStructValue(
			&structpb.Struct{Fields: map[string]*structpb.Value{mesh.KeyAsks: mesh.AsksValue([]mesh.Question{{Call: "e"}, told})}})}}
		if got := mesh.Shown(tt.text, md, asked); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
		if asks, ok := mesh.Asks(md); !ok || len(asks) != 2 || asks[1] != told {
			t.Errorf("%s: read back as %+v", name, asks)
		}
	}
	none := &structpb.Struct{Fields: map[string]*structpb.Value{mesh.ExtensionURI: structpb.NewStructValue(
		&structpb.Struct{Fields: map[string]*structpb.Value{mesh.KeyAsks: mesh.AsksValue(nil)}})}}
	if mesh.Shown(q, none, asked) {
		t.Error("a status that asks about nothing shows a question")
	}
}
