package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"
	"agentmesh/mesh/text/texttest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
)

// paced says the texts, one after each pause.
func paced(pause time.Duration, texts ...string) fake {
	return fake{func(_ context.Context, _ *agent.Invocation, say func(agent.Output) bool) error {
		for _, s := range texts {
			time.Sleep(pause)
			say(agent.Text{Text: s})
		}
		return nil
	}}
}

func TestTextGoesOutAtOnceAndThenInPiecesOf50Milliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t, paced(12*time.Millisecond, strings.Split("abcdefghijklmnopq", "")...))
		var got []string
		for _, h := range tell(t, r, "go") {
			got = append(got, fmt.Sprintf("%dms %s %s", h.at.Milliseconds(), h.kind, h.text))
		}
		want := []string{
			"12ms piece a", "62ms more bcde", "112ms more fghi", "162ms more jklm", "204ms more. nopq", "204ms COMPLETED ",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTextThatComesSlowlyIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t, paced(100*time.Millisecond, "a", "b", "c"))
		for i, h := range tell(t, r, "go") {
			if want := time.Duration(min(i+1, 3)) * 100 * time.Millisecond; h.at != want {
				t.Errorf("update %d came after %v, want %v", i, h.at, want)
			}
		}
	})
}

func TestTextThatComesFastGoesOutEvery2KiB(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delta := strings.Repeat("x", 100)
		texts := make([]string, 50)
		for i := range texts {
			texts[i] = delta
		}
		r, _ := start(t, paced(0, texts...))
		hs := tell(t, r, "go")
		if got := kinds(hs); got != "piece more more more. COMPLETED" {
			t.Errorf("got %s", got)
		}
		for _, h := range hs {
			if len(h.text) > 2100 || h.at != 0 {
				t.Errorf("a piece of %d bytes after %v", len(h.text), h.at)
			}
		}
		if got := hs[0].text + hs[1].text + hs[2].text + hs[3].text; got != strings.Repeat(delta, 50) {
			t.Errorf("got %d bytes of text, want 5000", len(got))
		}
	})
}

func TestOpenTextGoesOutBeforeWhateverElseIsSaid(t *testing.T) {
	r, _ := start(t, says(
		agent.Text{Text: "one "}, agent.Text{Text: "two "},
		agent.Progress{Text: "looking", Step: 2, Steps: 5, State: "search"},
		agent.Text{Text: "three "}, agent.Text{Text: "four"},
		agent.Data{Name: "numbers", Value: map[string]any{"n": []int{1, 2}}},
		agent.Text{Text: "five"},
	))
	hs := tell(t, r, "go")
	if got := kinds(hs); got != "piece more WORKING more piece. more. COMPLETED" {
		t.Fatalf("got %s", got)
	}
	if hs[1].text != "two " || hs[2].text != "looking" || hs[3].text != "three four" || hs[5].text != "five" {
		t.Errorf("got %q %q %q %q", hs[1].text, hs[2].text, hs[3].text, hs[5].text)
	}
	ext := a2a.Extension(a2a.MetadataOf(hs[2].r)).AsMap()
	want := map[string]any{"seq": 3.0, "step": 2.0, "steps": 5.0, "state": "search"}
	if diff := cmp.Diff(want, ext); diff != "" {
		t.Error(diff)
	}
	data := hs[4].r.GetArtifactUpdate().GetArtifact()
	if diff := cmp.Diff(map[string]any{"n": []any{1.0, 2.0}}, data.GetParts()[0].GetData().AsInterface()); diff != "" || data.GetName() != "numbers" {
		t.Errorf("%s %s", data.GetName(), diff)
	}
}

func TestCharactersAreNeverTorn(t *testing.T) {
	const text = "Grüße, 世界 🎉!"
	var bytes []string
	for i := range len(text) {
		bytes = append(bytes, text[i:i+1])
	}
	r, _ := start(t, paced(0, bytes...))
	got := ""
	for _, h := range tell(t, r, "go") {
		got += h.text
	}
	if got != text {
		t.Errorf("got %q", got)
	}
	r, _ = start(t, says(agent.Text{Text: "a\xff"}, agent.Text{Text: "b\xe4\xb8"}))
	got = ""
	for _, h := range tell(t, r, "go") {
		got += h.text
	}
	if got != "a\uFFFDb\uFFFD" {
		t.Errorf("got %q, want what is not text to be replaced", got)
	}
}

func TestLongTextIsSentInPiecesThatFitIntoEvents(t *testing.T) {
	text := strings.Repeat("世", 500_000)
	r, _ := start(t, says(agent.Text{Text: text}))
	got := ""
	for _, h := range tell(t, r, "go") {
		if len(h.text) > 256<<10 {
			t.Errorf("a piece of %d bytes", len(h.text))
		}
		got += h.text
	}
	if got != text {
		t.Errorf("got %d bytes, want %d", len(got), len(text))
	}
}

func TestTheTaskHasItsArtifactsInOnePiece(t *testing.T) {
	picture := &a2apb.Artifact{ArtifactId: "p", Parts: []*a2apb.Part{{Content: &a2apb.Part_Raw{Raw: []byte{1}}}}}
	again := &a2apb.Artifact{ArtifactId: "p", Parts: []*a2apb.Part{{Content: &a2apb.Part_Raw{Raw: []byte{2}}}}}
	r, _ := start(t, says(agent.Text{Text: "Hel"}, agent.Artifact{Artifact: picture}, agent.Text{Text: "lo"}, agent.Artifact{Artifact: again}))
	g := agenttest.NewGrant()
	m := agenttest.Message("go")
	hs := listen(t, r, g, send(t, r, g, m).Cursor)
	task, seq, err := r.Task(under(t.Context(), g), string(g.Execution))
	if err != nil {
		t.Fatal(err)
	}
	if seq != last(hs).seq || task.GetStatus().GetState() != agenttest.Completed {
		t.Errorf("got %v at %d", task.GetStatus(), seq)
	}
	if len(task.Artifacts) != 2 || len(task.Artifacts[0].Parts) != 1 || a2a.ArtifactText(task.Artifacts[0]) != "Hello" ||
		task.Artifacts[1].GetParts()[0].GetRaw()[0] != 2 {
		t.Errorf("got %v", task.Artifacts)
	}
	if len(task.History) != 1 || task.History[0].GetMessageId() != m.MessageId || task.History[0].GetTaskId() != string(g.Execution) ||
		task.History[0].GetContextId() != agenttest.Thread {
		t.Errorf("got %v", task.History)
	}
}

func TestWhatCannotGoToAClientFailsTheTask(t *testing.T) {
	texttest.Fixed(t)
	part := []*a2apb.Part{a2a.TextPart("x")}
	for name, out := range map[string]agent.Output{
		"no artifact":       agent.Artifact{},
		"no parts":          agent.Artifact{Artifact: &a2apb.Artifact{ArtifactId: "a"}},
		"a hollow part":     agent.Artifact{Artifact: &a2apb.Artifact{Parts: []*a2apb.Part{{}}}},
		"no part":           agent.Artifact{Artifact: &a2apb.Artifact{Parts: []*a2apb.Part{nil}}},
		"a reserved id":     agent.Artifact{Artifact: &a2apb.Artifact{ArtifactId: agent.ResponseArtifact, Parts: part}},
		"not UTF-8":         agent.Artifact{Artifact: &a2apb.Artifact{Name: "\xff", Parts: part}},
		"a huge artifact":   agent.Artifact{Artifact: &a2apb.Artifact{Parts: []*a2apb.Part{a2a.TextPart(strings.Repeat("x", mesh.MaxEvent))}}},
		"a function":        agent.Data{Name: "f", Value: func() {}},
		"a huge status":     agent.Progress{Text: strings.Repeat("x", 300<<10)},
		"no question":       agent.Ask{},
		"a huge question":   agent.Ask{Text: strings.Repeat("x", 300<<10)},
		"an endless answer": agent.Text{Text: strings.Repeat("x", 17<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := start(t, says(agent.Text{Text: "before"}, out, agent.Text{Text: "after"}))
			hs := tell(t, r, "go")
			if got := kinds(hs); got != "piece FAILED" || reason(last(hs)) != mesh.ReasonIllegal || !strings.HasPrefix(last(hs).text, "The agent gave ") {
				t.Errorf("got %s: %q (%s)", got, last(hs).text, reason(last(hs)))
			}
		})
	}
}

func TestSilenceIsNotSent(t *testing.T) {
	r, _ := start(t, says(nil, agent.Text{}, agent.Progress{}, agent.Text{Text: "x"}, agent.Text{}))
	if got := kinds(tell(t, r, "go")); got != "piece COMPLETED" {
		t.Errorf("got %s", got)
	}
}
