package offline

import (
	"bufio"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentmesh/mesh/llm"
)

// A stranger is a request of one who has not read the planner, with the effects
// that it may have.
type stranger struct {
	Said    []string
	Effects []effect
	Note    string
}

// An effect is a call that is right: with these arguments, which match, and no
// others but the optional ones.
type effect struct {
	Skill    string
	Args     map[string]string
	Optional []string
}

func (e *effect) allows(skill string, args map[string]any) bool {
	if skill != e.Skill {
		return false
	}
	for name := range args {
		if _, ok := e.Args[name]; !ok && !slices.Contains(e.Optional, name) {
			return false
		}
	}
	for name, pattern := range e.Args {
		text, ok := args[name].(string)
		if !ok {
			text = plainJSON(args[name])
		}
		if args[name] == nil || !regexp.MustCompile(pattern).MatchString(text) {
			return false
		}
	}
	return true
}

// understood is how many requests of the stranger are carried out as they are meant,
// or rightly left alone, in each way.
const understood = 40

// Whatever somebody asks who has not read the planner, nothing happens that was not
// meant (finding C11).
func TestStranger_nothingHappensThatWasNotMeant(t *testing.T) {
	f, err := os.Open("testdata/stranger.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	var all []stranger
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var s stranger
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if len(all) < 200 {
		t.Fatalf("only %d requests", len(all))
	}
	for n, w := range []way{ways[0], ways[2]} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			meant, wanted, right := 0, 0, 0
			for i, s := range all {
				if underRace && i%2 != n {
					continue
				}
				b := newBench(t)
				b.knowsItsTasks()
				answer := b.converse(w, s.Said)
				wrong, done := s.judge(b)
				if len(wrong) > 0 {
					t.Errorf("%q leads to %q\n%s", s.Said, wrong, answer)
				}
				if len(s.Effects) > 0 {
					wanted++
				}
				switch {
				case len(wrong) == 0 && len(s.Effects) == 0:
					right++
				case len(wrong) == 0 && done:
					meant++
				case os.Getenv("STRANGER") != "":
					t.Logf("%q: %s", s.Said, answer)
				}
			}
			t.Logf("%d of %d requests that want something are carried out, %d others are left alone", meant, wanted, right)
			if meant < understood && !underRace {
				t.Errorf("%d requests are carried out as they were meant, want %d", meant, understood)
			}
		})
	}
}

// knowsItsTasks has the skills that change a task refuse those that there are not, as
// they do: such a call has no effect.
func (b *bench) knowsItsTasks() { b.strict = true }

// judge returns the calls that were not meant, and whether something was done that
// was.
func (s *stranger) judge(b *bench) (wrong []string, done bool) {
	for _, c := range b.calls {
		name, data, _ := strings.Cut(c, " ")
		if known, ok := b.skills.Get(name); ok && known.Access == "read" {
			continue
		}
		var args map[string]any
		if err := json.Unmarshal([]byte(data), &args); err != nil {
			b.t.Fatal(err)
		}
		if slices.ContainsFunc(s.Effects, func(e effect) bool { return e.allows(name, args) }) {
			done = true
		} else {
			wrong = append(wrong, c)
		}
	}
	return wrong, done
}

// converse is hold with a yes to each question whether something may be done.
func (b *bench) converse(w way, said []string) (answer string) {
	var history []llm.Message
	tell := func(text string) {
		history = append(history, userSays(text))
		answer = b.say(w, history...)
		history = append(history, b.heard...)
	}
	for _, text := range said {
		tell(text)
		for n := 0; n < 3 && strings.HasPrefix(answer, askMark+"I would do this:"); n++ {
			tell("yes")
		}
	}
	return answer
}
