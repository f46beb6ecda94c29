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
	if s.Waits != session.ForAnswer {
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

// finding O4: from every state every input leads to a legal state; nothing but an answer is
// to be taken into the draft; and leaving gives a snapshot that, kept and read again, resumes
// with what there was.
func TestEveryInputLeadsFromEveryStateToALegalOne(t *testing.T) {
	m := machine(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := anySession(rt, m)
		if err := m.Check(s); err != nil {
			rt.Fatalf("the test's own session is illegal: %v", err)
		}
		in := session.Input{Kind: rapid.SampledFrom(session.Kinds()).Draw(rt, "kind"), Words: rapid.SampledFrom([]string{"", "words"}).Draw(rt, "words")}
		before, err := m.Encode(s)
		if err != nil {
			rt.Fatal(err)
		}
		next, move := m.Hear(s, in)
		if err := m.Check(next); err != nil {
			rt.Fatalf("%+v told to %+v leads to %+v: %v", in, s, next, err)
		}
		if after, err := m.Encode(s); err != nil || string(after) != string(before) {
			rt.Fatalf("hearing changed the session that it was told to:\n%s\n%s", before, after)
		}
		checkMove(rt, m, s, in, next, move)
		checkSnapshot(rt, m, next)
	})
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
	if diff := cmp.Diff(left, resumed); diff != "" || move.Do != session.Ask {
		t.Fatalf("left and resumed with %+v (-left +resumed):\n%s", move, diff)
	}
	if resumed.Step != s.Step || !reflect.DeepEqual(resumed.Draft, s.Draft) || !reflect.DeepEqual(resumed.Parked, s.Parked) {
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
