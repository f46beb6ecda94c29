package skillbuilder

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentmesh/mesh/session"

	"pgregory.net/rapid"
)

// finding O4: what a sentence is for, at each step, is told as the corpus says; nothing but an
// answer changes the draft or the step, and what is unclear is asked about as it was said.
func TestEachSentenceOfTheCorpusIsToldAtEachStep(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/corpus.txt")
	if err != nil {
		t.Fatal(err)
	}
	steps := []talk{begin(""), at(t), at(t, "ok"), at(t, "ok", "ok")}
	sentences := 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		sentences++
		fields := strings.Fields(line)
		said := line
		for range steps {
			_, rest, _ := strings.Cut(said, " ")
			said = strings.TrimSpace(rest)
		}
		for i, before := range steps {
			kind := session.Kind(fields[i])
			if in := before.hears(said); in.Kind != kind {
				t.Errorf("at step %d, %q is taken for %s, want %s", i, said, in.Kind, kind)
			}
			if kind != session.Answer && kind != session.Restart {
				isNotTaken(t, before, said)
			}
		}
	}
	if sentences < 60 {
		t.Errorf("there are %d sentences", sentences)
	}
}

// isNotTaken fails unless the text leaves the draft and the step as they are.
func isNotTaken(t rapid.TB, before talk, said string) {
	t.Helper()
	after, do, _ := told(before, said, "ann")
	if do == session.Take || !reflect.DeepEqual(before.Draft, after.Draft) || before.Step != after.Step {
		t.Errorf("at %s, %q leads to %s and %+v", before.Step, said, do, after)
	}
	if after.Waits == session.ForMeant && before.Waits != session.ForMeant && after.Other != said {
		t.Errorf("at %s, %q is asked about as %q", before.Step, said, after.Other)
	}
}

// finding O4: what has no word of what is being built, and is not marked as a part of it, is
// never in the draft before the user said that it is an answer; then it is taken as it was said.
// A bare yes, to the question whether it is one or something else, does not say so.
func TestWhatHasNothingOfTheDraftIsNotTaken(t *testing.T) {
	t.Parallel()
	steps := []talk{at(t), at(t, "ok"), at(t, "ok", "ok")}
	word := rapid.StringMatching(`[b-df-hj-np-tv-z]{2}[a-z]{4,8}`) // like none of a draft, and no mark
	verb := rapid.SampledFrom(strings.Fields("order find book turn tell buy translate play delete remind mail schedule search check clean pay bestell such mach " +
		"open stop read send post summarize look move write create plan ask"))
	thing := rapid.SampledFrom([]string{"pizza", "the lights", "Bob", "my tasks", "a table for two", "overdue invoices", "mom at five", "notion.read_page", "the skill notion.read_page", "das Licht aus", "“guten Tag” to Anna", "it off"})
	before := rapid.SampledFrom([]string{"", "please ", "ok, ", "first ", "and then ", "can we ", "I want to ", "would you kindly ", "bitte "})
	behind := rapid.SampledFrom([]string{"", "!", ".", "?", " tomorrow", " when Bob asks", " without asking me", ", then go home", " and tell me"})
	rapid.Check(t, func(t *rapid.T) {
		var said string
		if rapid.Bool().Draw(t, "words") {
			said = strings.Join(rapid.SliceOfN(word, 3, 9).Draw(t, "said"), " ")
		} else {
			said = before.Draw(t, "before") + verb.Draw(t, "verb") + " " + thing.Draw(t, "thing") + behind.Draw(t, "behind")
		}
		at := steps[rapid.IntRange(0, len(steps)-1).Draw(t, "step")]
		isNotTaken(t, at, said)
		asked, move := at.hear(at.hears(said))
		if asked.Waits == session.ForMeant {
			if again, move := asked.hear(asked.hears("yes")); move.Do == session.Take || again.Other != said {
				t.Fatalf("a yes, after %q, leads to %+v and asks about %q", said, move, again.Other)
			}
			yes := rapid.SampledFrom([]string{"answer", "It is an answer", "yes, an answer", "for the skill", "my answer, please"}).Draw(t, "yes")
			if _, move = asked.hear(asked.hears(yes)); move != (session.Move{Do: session.Take, Words: said}) {
				t.Fatalf("%q, after %q, leads to %+v", yes, said, move)
			}
		} else if !slices.Contains([]session.Action{session.Pass, session.Explain, session.GoAway, session.Ask}, move.Do) {
			t.Fatalf("%q leads to %+v", said, move)
		}
	})
}
