package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/session"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// order is what these tests have people order, as a draft.
type order struct {
	What  string   `json:"what,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

func machine(t testing.TB) *session.Machine[order] {
	t.Helper()
	m, err := session.New[order](
		session.Step{Name: "what", Next: []string{"when"}},
		session.Step{Name: "when", Next: []string{"what", "check"}},
		session.Step{Name: "check", Next: []string{"what", "when", "done"}},
		session.Step{Name: "done"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Each line of a transcript is what happens and, behind "=>", what comes of it: the move, the
// step, what is waited for, and what is kept. A line that begins with "#" says why.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m := machine(t)
			s := m.Begin(order{})
			for line := range strings.Lines(string(data)) {
				line = strings.TrimSpace(line)
				if line == "" || strings.HasPrefix(line, "#") {
					continue
				}
				what, want, _ := strings.Cut(line, " => ")
				var got string
				s, got = happens(t, m, s, strings.TrimSpace(what))
				if want != got {
					t.Errorf("%s\n got %s\nwant %s", what, got, want)
				}
				if err := m.Check(s); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// happens does what the line says.
func happens(t *testing.T, m *session.Machine[order], s session.Session[order], line string) (session.Session[order], string) {
	t.Helper()
	what, words, _ := strings.Cut(line, " ")
	var move session.Move
	switch what {
	case "says": // into the draft
		s.Draft.Notes = append(slices.Clone(s.Draft.Notes), words)
		return s, status(s)
	case "go":
		next, err := m.Go(s, words)
		if err != nil {
			return s, "refused: " + mesh.DetailOf(err)
		}
		return next, status(next)
	case "miss":
		s, move = m.Miss(s)
	case "pause":
		s = m.Pause(s, words)
		return s, status(s)
	case "unpark":
		next, ok := m.Unpark(s)
		return next, fmt.Sprintf("%v %s", ok, status(next))
	case "restart-process":
		data, err := m.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if s, err = m.Decode(data); err != nil {
			t.Fatal(err)
		}
		return s, status(s)
	default:
		s, move = m.Hear(s, session.Input{Kind: session.Kind(what), Words: words})
	}
	return s, strings.TrimSpace(fmt.Sprintf("%s %q", move.Do, move.Words)) + " " + status(s)
}

func status(s session.Session[order]) string {
	parts := []string{"at " + s.Step}
	if s.Waits != "" {
		parts = append(parts, fmt.Sprintf("waits for %s %q", s.Waits, s.Other))
	}
	if s.Missed > 0 {
		parts = append(parts, fmt.Sprintf("missed %d", s.Missed))
	}
	if len(s.Draft.Notes) > 0 {
		parts = append(parts, "notes "+strings.Join(s.Draft.Notes, "+"))
	}
	for _, p := range s.Parked {
		parts = append(parts, "parked at "+p.Step+" "+strings.Join(p.Draft.Notes, "+"))
	}
	if len(s.Later) > 0 {
		parts = append(parts, "later "+strings.Join(s.Later, "+"))
	}
	return strings.Join(parts, ", ")
}

// anySession draws a legal session, at any step and with any wait.
func anySession(t *rapid.T, m *session.Machine[order]) session.Session[order] {
	word := rapid.StringMatching(`[a-zé "\\]{0,8}`)
	draft := func() order {
		return order{What: word.Draw(t, "what"), Notes: rapid.SliceOfN(word, 1, 3).Draw(t, "notes")}
	}
	unfinished := rapid.SampledFrom([]string{"what", "when", "check"})
	s := m.Begin(draft())
	s.Step = rapid.SampledFrom([]string{"what", "when", "check", "done"}).Draw(t, "step")
	if s.Step != "done" {
		s.Waits = rapid.SampledFrom([]session.Wait{session.ForAnswer, session.ForResume, session.ForChoice, session.ForMeant}).Draw(t, "waits")
	}
	switch s.Waits {
	case session.ForResume, session.ForChoice: // what else is wanted may be unknown
		s.Other = word.Draw(t, "other")
	case session.ForMeant:
		s.Other = "x" + word.Draw(t, "other")
	}
	s.Missed = rapid.IntRange(0, session.MaxClarifications).Draw(t, "missed")
	for range rapid.IntRange(0, session.MaxParked).Draw(t, "parked") {
		s.Parked = append(s.Parked, session.Parked[order]{Step: unfinished.Draw(t, "at"), Draft: draft()})
	}
	s.Later = rapid.SliceOfNDistinct(word, 0, session.MaxLater, rapid.ID[string]).Draw(t, "later")
	if len(s.Later) == 0 {
		s.Later = nil
	}
	return s
}

// finding O4: from every state whatever happens leads to a legal state; nothing but an answer
// is to be taken into the draft; no wish is lost without a word; and leaving gives a snapshot
// that, kept and read again, resumes with what there was.
func TestEveryInputLeadsFromEveryStateToALegalOne(t *testing.T) {
	m := machine(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := anySession(rt, m)
		if err := m.Check(s); err != nil {
			rt.Fatalf("the test's own session is illegal: %v", err)
		}
		before, err := m.Encode(s)
		if err != nil {
			rt.Fatal(err)
		}
		next := anything(rt, m, s)
		if err := m.Check(next); err != nil {
			rt.Fatalf("%+v leads to %+v: %v", s, next, err)
		}
		if after, err := m.Encode(s); err != nil || string(after) != string(before) {
			rt.Fatalf("the session that it happened to was changed:\n%s\n%s", before, after)
		}
		checkSnapshot(rt, m, next)
	})
}

// anything has one thing happen to the session, and checks what comes of it.
func anything(t *rapid.T, m *session.Machine[order], s session.Session[order]) session.Session[order] {
	words := rapid.SampledFrom(append([]string{"", "words", s.Other}, s.Later...)).Draw(t, "words")
	switch rapid.SampledFrom([]string{"hear", "hear", "hear", "go", "miss", "pause", "unpark"}).Draw(t, "happens") {
	case "go":
		to := rapid.SampledFrom([]string{"what", "when", "check", "done", "nowhere"}).Draw(t, "to")
		next, err := m.Go(s, to)
		want := m.Leave(s) // of all that it asked beside the step's question nothing is left
		if want.Step = to; err != nil {
			want = s
		}
		if follows := to == s.Step || s.Step != "done" && to != "nowhere" && slices.Contains(after[s.Step], to); follows != (err == nil) || !reflect.DeepEqual(next, want) {
			t.Fatalf("from %+v to %s leads to %+v, %v", s, to, next, err)
		}
		return next
	case "miss":
		next, move := m.Miss(s)
		want := session.Ask
		if s.Missed == session.MaxClarifications {
			want = session.GiveUp
		}
		if next.Missed > s.Missed != (want == session.Ask) || move.Do != want || !reflect.DeepEqual(m.Leave(next), m.Leave(s)) {
			t.Fatalf("%+v, missed, leads to %+v, %+v", s, next, move)
		}
		return next
	case "pause":
		if m.Done(s) {
			return s // there is nothing to pause
		}
		next := m.Pause(s, words)
		if next.Waits != session.ForResume || next.Other != words || !reflect.DeepEqual(m.Leave(next), m.Leave(s)) {
			t.Fatalf("%+v, paused for %q, is %+v", s, words, next)
		}
		return next
	case "unpark":
		next, more := m.Unpark(s)
		switch last := len(s.Parked) - 1; {
		case last < 0 && (more || !reflect.DeepEqual(next, s)):
			t.Fatalf("%+v, of which none is set aside, gives %+v", s, next)
		case last >= 0 && (!more || next.Waits != session.ForResume || next.Step != s.Parked[last].Step ||
			!reflect.DeepEqual(next.Draft, s.Parked[last].Draft) || !slices.EqualFunc(next.Parked, s.Parked[:last], equal) || !slices.Equal(next.Later, s.Later)):
			t.Fatalf("%+v gives %+v", s, next)
		}
		return next
	}
	in := session.Input{Kind: rapid.SampledFrom(session.Kinds()).Draw(t, "kind"), Words: words}
	next, move := m.Hear(s, in)
	checkMove(t, m, s, in, next, move)
	checkWishes(t, s, in, next, move)
	return next
}

// after has the steps that may follow each of machine's.
var after = map[string][]string{"what": {"when"}, "when": {"what", "check"}, "check": {"what", "when", "done"}}

func equal(a, b session.Parked[order]) bool { return reflect.DeepEqual(a, b) }

// checkWishes checks that what the user wants later stays wanted until it is begun, and that
// who finishes the session first has what they want besides noted, or is asked again.
func checkWishes(t *rapid.T, s session.Session[order], in session.Input, next session.Session[order], move session.Move) {
	for _, wish := range s.Later {
		if !slices.Contains(next.Later, wish) && (move.Do != session.Begin || move.Words != wish) {
			t.Fatalf("%+v to %+v loses the wish %q: %+v", in, s, wish, next)
		}
	}
	finishes := s.Waits == session.ForChoice && (in.Kind == session.Finish || in.Kind == session.Yes)
	if finishes && s.Other != "" && move.Do == session.Ask && !slices.Contains(next.Later, s.Other) &&
		(next.Waits != session.ForChoice || next.Other != s.Other || next.Missed != s.Missed+1) {
		t.Fatalf("%+v to %+v loses the wish %q without a word: %+v", in, s, s.Other, next)
	}
}

func checkMove(t *rapid.T, m *session.Machine[order], s session.Session[order], in session.Input, next session.Session[order], move session.Move) {
	if move.Do == session.Begin {
		kept := !m.Unfinished(s) || in.Kind == session.Restart || s.Waits == session.ForResume && in.Kind == session.No ||
			len(next.Parked) == len(s.Parked)+1 && reflect.DeepEqual(next.Parked[len(s.Parked)].Draft, s.Draft)
		if !kept || !reflect.DeepEqual(next.Draft, order{}) {
			t.Fatalf("%+v lost the draft of %+v: %+v", in, s, next)
		}
		return
	}
	if next.Step != s.Step || !reflect.DeepEqual(next.Draft, s.Draft) {
		t.Fatalf("%+v moved %+v to %+v", in, s, next)
	}
	answers := slices.Contains([]session.Kind{session.Answer, session.Yes, session.No, session.Finish, session.Park}, in.Kind)
	if move.Do == session.Take && !answers {
		t.Fatalf("%+v is to be taken into %+v", in, s)
	}
	if in.Kind == session.Leave && move.Do != session.GoAway {
		t.Fatalf("%+v does not leave %+v but %+v", in, s, move)
	}
	if next.Missed > s.Missed && move.Do != session.Ask {
		t.Fatalf("%+v, not understood by %+v, leads to %+v", in, s, move)
	}
}

func checkSnapshot(t *rapid.T, m *session.Machine[order], s session.Session[order]) {
	left := m.Leave(s)
	data, err := m.Encode(left)
	if err != nil {
		t.Fatal(err)
	}
	read, err := m.Decode(data)
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	if m.Done(read) {
		return
	}
	resumed, move := m.Hear(m.Pause(read, "something else"), session.Input{Kind: session.Yes})
	if diff := cmp.Diff(left, resumed, cmpopts.EquateEmpty()); diff != "" || move.Do != session.Ask {
		t.Fatalf("left and resumed with %+v (-left +resumed):\n%s", move, diff)
	}
	if resumed.Step != s.Step || !reflect.DeepEqual(resumed.Draft, s.Draft) || !slices.EqualFunc(resumed.Parked, s.Parked, equal) || !slices.Equal(resumed.Later, s.Later) {
		t.Fatalf("%+v resumes as %+v", s, resumed)
	}
}

// What was kept by something else, or damaged, is refused by its field, and never a session.
func TestWhatIsNoSessionOfTheMachineIsRefused(t *testing.T) {
	m := machine(t)
	for data, field := range map[string]string{
		`{`:                                           "session",
		`{"step":"cooking"}`:                          "step",
		`{"step":"what","waits":"x"}`:                 "waits",
		`{"step":"what","waits":"meant"}`:             "other",
		`{"step":"what","other":"x"}`:                 "other",
		`{"step":"done","waits":"resume"}`:            "waits",
		`{"step":"what","missed":9}`:                  "missed",
		`{"step":"what","parked":[{"step":"done"}]}`:  "parked",
		`{"step":"what","later":["","","","","",""]}`: "later",
		`{"step":"what","parked":[` + strings.Repeat(`{"step":"what"},`, session.MaxParked) + `{"step":"what"}]}`: "parked",
	} {
		if _, err := m.Decode([]byte(data)); !mesh.IsCode(err, mesh.Invalid) || !strings.Contains(fmt.Sprintf("%+v", err), field) {
			t.Errorf("%s is read with %v, which does not name %s", data, err, field)
		}
	}
}

func TestAMachineHasStepsThatLeadSomewhere(t *testing.T) {
	for name, steps := range map[string][]session.Step{
		"none": nil, "without a name": {{}}, "twice the same": {{Name: "a"}, {Name: "a"}}, "to none": {{Name: "a", Next: []string{"b"}}},
	} {
		if _, err := session.New[order](steps...); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
