package offline

import (
	"os"
	"slices"
	"strings"
	"testing"

	"agentmesh/mesh/llm"
)

// A conversation is what a user says, one message after the other, with the
// skill calls that all of it is to lead to.
type conversation struct {
	said  []string
	calls []string
	hands []string // to whom the user is handed over
	asks  bool     // the last answer is a question
	reads bool     // only calls that change something are told
}

// corpus reads the conversations of a file. A line with "> " is what the user
// says, "= " a skill call, "@ " an agent that is given the user, "?" says that the user is asked something at the end,
// and "-" that nothing with an effect happens. "\n" in a line is a line break.
func corpus(t *testing.T, file string) []conversation {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []conversation
	for block := range strings.SplitSeq(string(data), "\n\n") {
		var c conversation
		for line := range strings.SplitSeq(strings.TrimSpace(block), "\n") {
			switch {
			case strings.HasPrefix(line, "> "):
				c.said = append(c.said, strings.ReplaceAll(line[2:], `\n`, "\n"))
			case strings.HasPrefix(line, "= "):
				c.calls = append(c.calls, line[2:])
			case strings.HasPrefix(line, "@ "):
				c.hands = append(c.hands, line[2:])
			case line == "?":
				c.asks = true
			case line == "-":
				c.reads = true
			case line != "" && !strings.HasPrefix(line, "#"):
				t.Fatalf("%s: what is %q?", file, line)
			}
		}
		if len(c.said) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// hold lets the mesh answer what the user says, one message after the other.
func (b *bench) hold(w way, said []string) (answer string) {
	var history []llm.Message
	for _, text := range said {
		history = append(history, userSays(text))
		answer = b.say(w, history...)
		history = append(history, b.heard...)
	}
	return answer
}

// report is the mail that tells of the overdue tasks.
func (b *bench) report() string {
	return `{"body":` + plainJSON(b.replies["tasks.search"]) + `,"subject":"Overdue tasks: 2, as of 2026-11-20","to":["bob@x.org"]}`
}

// What users say has the effects that they mean, or none, in every mode of the
// mesh and however skills are called (finding C11, S3-121).
func TestCorpus_requestsHaveTheEffectsThatTheirUsersMean(t *testing.T) {
	all := corpus(t, "testdata/requests.txt")
	if len(all) < 200 {
		t.Errorf("only %d conversations", len(all))
	}
	for i, c := range all {
		in := []way{ways[0], ways[3], ways[4]}
		if i%8 == 0 {
			in = ways
		}
		if underRace {
			in = in[i%len(in):][:1]
		}
		for _, w := range in {
			t.Run(c.said[0]+"/"+w.name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.handoffs = true
				answer := b.hold(w, c.said)
				calls := b.calls
				if !slices.Equal(b.handed, c.hands) {
					t.Errorf("%q hands over to %q, want %q: %s", c.said, b.handed, c.hands, answer)
				}
				if c.reads {
					calls = slices.DeleteFunc(calls, func(call string) bool {
						name, _, _ := strings.Cut(call, " ")
						s, ok := b.skills.Get(name)
						return ok && s.Access == "read"
					})
				}
				slices.Sort(calls)
				slices.Sort(c.calls)
				if want := strings.ReplaceAll(strings.Join(c.calls, "\n"), "REPORT", b.report()); want != strings.Join(calls, "\n") {
					t.Errorf("%q leads to\n%s\nwant\n%s\nanswer %s", c.said, strings.Join(calls, "\n"), want, answer)
				}
				if asks := strings.HasPrefix(answer, askMark); asks != c.asks {
					t.Errorf("%q: asked %v, want %v: %s", c.said, asks, c.asks, answer)
				}
				if strings.TrimSpace(answer) == "" {
					t.Errorf("%q: nothing was said", c.said)
				}
			})
		}
	}
}
