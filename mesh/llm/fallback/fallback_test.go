package fallback_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/fallback"
	"agentmesh/mesh/llm/scripted"
)

// backup is two models behind a clock, and what was reported.
type backup struct {
	first, second *scripted.Model
	model         *fallback.Model
	now           time.Time
	reports       []string
	logs          bytes.Buffer
}

func newBackup(t *testing.T, first, second []scripted.Step) *backup {
	t.Helper()
	b := &backup{first: scripted.New(first...), second: scripted.New(second...), now: time.Unix(1_700_000_000, 0)}
	m, err := fallback.New([]fallback.Named{{Name: "first", Model: b.first}, {Name: "second", Model: b.second}}, fallback.Options{
		Report: func(_ context.Context, r fallback.Report) {
			line := r.Name
			for _, f := range r.Failed {
				line += fmt.Sprintf(" (%s: %v)", f.Name, mesh.CodeOf(f.Err))
			}
			b.reports = append(b.reports, line)
		},
		Logger: slog.New(slog.NewTextHandler(&b.logs, nil)),
		Now:    func() time.Time { return b.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.model = m
	return b
}

// ask returns the text of a reply, and its error.
func ask(ctx context.Context, m llm.Model, name string) (text string, err error) {
	for c, err := range m.Generate(ctx, &llm.Request{Model: name, Messages: []llm.Message{{Role: llm.RoleUser, Text: "hi"}}}) {
		if err != nil {
			return text, err
		}
		text += c.Text
	}
	return text, nil
}

func fail(code mesh.Code) scripted.Step { return scripted.Fail(mesh.Errorf(code, "m", "no luck")) }

// Before anything was said, another model is asked where it may do better, and
// only there.
func TestModel_movesOnWhereAnotherModelMayDoBetter(t *testing.T) {
	moves := map[mesh.Code]bool{
		mesh.Unavailable: true, mesh.Exhausted: true, mesh.Timeout: true, mesh.Unauthenticated: true, mesh.Denied: true, mesh.NotFound: true,
	}
	for code := range mesh.DataLoss + 1 {
		t.Run(code.String(), func(t *testing.T) {
			b := newBackup(t, []scripted.Step{fail(code)}, []scripted.Step{scripted.Say("I am ", "here.")})
			text, err := ask(t.Context(), b.model, "")
			if moves[code] && (err != nil || text != "I am here.") {
				t.Errorf("answered %q, %v", text, err)
			}
			if !moves[code] && (mesh.CodeOf(err) != code || len(b.second.Requests()) != 0) {
				t.Errorf("ended with %v after %d requests to the second", err, len(b.second.Requests()))
			}
			want := fmt.Sprintf(" (first: %v)", code)
			if moves[code] {
				want = "second" + want
			}
			if diff := cmp.Diff([]string{want}, b.reports); diff != "" {
				t.Error(diff)
			}
			if moves[code] != strings.Contains(b.logs.String(), "passed over") {
				t.Errorf("logs: %s", b.logs.String())
			}
		})
	}
}

// What was said cannot be taken back: a failure after the first chunk is the
// reply's failure.
func TestModel_staysAfterTheFirstChunk(t *testing.T) {
	for name, step := range map[string]scripted.Step{
		"text": scripted.Say("Once upon").Fail(mesh.Errorf(mesh.Unavailable, "m", "gone")),
		"call": scripted.Call("a", `{}`).Fail(mesh.Errorf(mesh.Unavailable, "m", "gone")),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackup(t, []scripted.Step{step}, []scripted.Step{scripted.Say("x")})
			if _, err := ask(t.Context(), b.model, ""); !mesh.IsCode(err, mesh.Unavailable) || len(b.second.Requests()) != 0 {
				t.Errorf("ended with %v after %d requests to the second", err, len(b.second.Requests()))
			}
		})
	}
}

// When the caller's time is over, no other model is asked.
func TestModel_staysWhenTheCallerIsGone(t *testing.T) {
	b := newBackup(t, []scripted.Step{scripted.Wait("never")}, []scripted.Step{scripted.Say("x")})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := ask(ctx, b.model, ""); !mesh.IsCode(err, mesh.Timeout) || len(b.second.Requests()) != 0 {
		t.Errorf("ended with %v after %d requests to the second", err, len(b.second.Requests()))
	}
}

// The model that answered is asked first for the cool-down, and then the
// preferred one gets its chance again.
func TestModel_sticksToTheOneThatWorked(t *testing.T) {
	b := newBackup(t, []scripted.Step{fail(mesh.Unavailable), scripted.Say("1").Repeat()}, []scripted.Step{
		scripted.Say("2"), scripted.Say("2"), fail(mesh.Exhausted), scripted.Say("2").Repeat(),
	})
	for i, step := range []struct {
		after   time.Duration
		want    string
		report  string
		toFirst int
	}{
		{0, "2", "second (first: unavailable)", 1},
		{fallback.DefaultCoolDown - time.Second, "2", "second", 1},
		{0, "1", "first (second: exhausted)", 2},
		{0, "1", "first", 3},
	} {
		b.now = b.now.Add(step.after)
		text, err := ask(t.Context(), b.model, "")
		if err != nil || text != step.want || b.reports[i] != step.report || len(b.first.Requests()) != step.toFirst {
			t.Errorf("request %d: %q, %v, report %q, %d requests to the first", i, text, err, b.reports[i], len(b.first.Requests()))
		}
	}

	b = newBackup(t, []scripted.Step{fail(mesh.Unavailable), scripted.Say("1").Repeat()}, []scripted.Step{scripted.Say("2").Repeat()})
	var got []string
	for range 4 {
		text, err := ask(t.Context(), b.model, "")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, text)
		b.now = b.now.Add(fallback.DefaultCoolDown / 2) // asking does not prolong it
	}
	if diff := cmp.Diff([]string{"2", "2", "1", "1"}, got); diff != "" {
		t.Error(diff)
	}
}

// Without a cool-down every request begins with the first model.
func TestModel_needNotStick(t *testing.T) {
	first, second := scripted.New(fail(mesh.Unavailable), scripted.Say("1")), scripted.New(scripted.Say("2"))
	m, err := fallback.New([]fallback.Named{{Name: "first", Model: first}, {Name: "second", Model: second}}, fallback.Options{CoolDown: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2", "1"} {
		if text, err := ask(t.Context(), m, ""); err != nil || text != want {
			t.Errorf("answered %q, %v, want %q", text, err, want)
		}
	}
}

// A model that no one has heard of elsewhere is asked for only where it is
// known.
func TestModel_eachIsAskedForItsOwnModel(t *testing.T) {
	down := fail(mesh.Unavailable).Repeat()
	first, second, third := scripted.New(down), scripted.New(down), scripted.New(scripted.Say("ok"))
	m, err := fallback.New([]fallback.Named{{Name: "a", Model: first}, {Name: "b", Model: second}, {Name: "c", Model: third, Ask: "small"}}, fallback.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t.Context(), m, "big"); err != nil {
		t.Fatal(err)
	}
	got := []string{first.Requests()[0].Model, second.Requests()[0].Model, third.Requests()[0].Model}
	if diff := cmp.Diff([]string{"big", "", "small"}, got); diff != "" {
		t.Error(diff)
	}
}

// If nobody answers, the error names everybody; alone, a model's error is what
// it is.
func TestModel_saysWhoFailed(t *testing.T) {
	b := newBackup(t, []scripted.Step{fail(mesh.Exhausted)}, []scripted.Step{scripted.Fail(&mesh.Error{Code: mesh.Unauthenticated, Err: errors.New("key 1234")})})
	_, err := ask(t.Context(), b.model, "")
	if want := "None of the models answered. first: no luck; second: unauthenticated"; !mesh.IsCode(err, mesh.Exhausted) || mesh.DetailOf(err) != want {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{" (first: exhausted) (second: unauthenticated)"}, b.reports); diff != "" {
		t.Error(diff)
	}

	odd := mesh.Errorf(mesh.Timeout, "m", "slow")
	alone, err := fallback.New([]fallback.Named{{Name: "a", Model: scripted.New(scripted.Fail(odd))}}, fallback.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t.Context(), alone, ""); !errors.Is(err, error(odd)) {
		t.Errorf("error %v", err)
	}
}

type silent struct{}

func (silent) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(func(llm.Chunk, error) bool) {}
}

// A model that ends without a word counts as one that is down.
func TestModel_movesOnFromSilence(t *testing.T) {
	m, err := fallback.New([]fallback.Named{{Name: "a", Model: silent{}}, {Name: "b", Model: scripted.New(scripted.Say("ok"))}}, fallback.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := ask(t.Context(), m, ""); err != nil || text != "ok" {
		t.Errorf("answered %q, %v", text, err)
	}
}

func TestModel_isSafeForConcurrentUse(t *testing.T) {
	first, second := scripted.New(fail(mesh.Unavailable).Repeat()), scripted.New(scripted.Say("ok").Repeat())
	m, err := fallback.New([]fallback.Named{{Name: "a", Model: first}, {Name: "b", Model: second}}, fallback.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if text, err := ask(t.Context(), m, ""); err != nil || text != "ok" {
				t.Errorf("answered %q, %v", text, err)
			}
		})
	}
	all.Wait()
}

func TestNew_refusesWhatCannotWork(t *testing.T) {
	ok := scripted.New()
	for name, models := range map[string][]fallback.Named{
		"none": nil, "no name": {{Model: ok}}, "twice": {{Name: "a", Model: ok}, {Name: "a", Model: ok}}, "no model": {{Name: "a"}},
	} {
		if _, err := fallback.New(models, fallback.Options{}); !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
