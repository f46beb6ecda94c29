package scripted_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask returns the text of a reply, its calls as "[tool args]", and its error.
func ask(ctx context.Context, m llm.Model, system, text string) (string, error) {
	var b strings.Builder
	for c, err := range m.Generate(ctx, &llm.Request{System: system, Messages: []llm.Message{{Role: llm.RoleUser, Text: text}}}) {
		switch {
		case err != nil:
			return b.String(), err
		case c.Tool != nil:
			b.WriteString("[" + c.Tool.Name + " " + c.Tool.Arguments + "]")
		case c.Done != nil:
			b.WriteString("|" + c.Done.Finish)
		}
		b.WriteString(c.Text)
	}
	return b.String(), nil
}

func TestModel_usesStepsInOrderForWhomTheyAreMeant(t *testing.T) {
	m := scripted.New(
		scripted.Say("a1").For(scripted.System("agent a")),
		scripted.Say("b1").Call("x", `{}`).For(scripted.System("agent b")),
		scripted.Say("a2").For(scripted.System("agent a")),
		scripted.Say("cut").Finish("length"),
		scripted.Say("again").Repeat().For(scripted.Last("again?")),
	)
	for _, tt := range []struct{ system, text, want string }{
		{"agent b", "hi", "b1[x {}]|tool_calls"},
		{"agent a", "hi", "a1|stop"},
		{"agent a", "hi", "a2|stop"},
		{"agent c", "hi", "cut|length"},
		{"agent c", "again?", "again|stop"},
		{"agent a", "again?", "again|stop"},
	} {
		if got, err := ask(t.Context(), m, tt.system, tt.text); err != nil || got != tt.want {
			t.Errorf("%s got %q, %v; want %q", tt.system, got, err, tt.want)
		}
	}
	if m.Left() != 0 || len(m.Requests()) != 6 {
		t.Errorf("%d steps left, %d requests", m.Left(), len(m.Requests()))
	}
}

func TestModel_failsWithoutAStep(t *testing.T) {
	_, err := ask(t.Context(), scripted.New(), "the system", "the text")
	if mesh.CodeOf(err) != mesh.Unknown || !strings.Contains(err.Error(), "the system") || !strings.Contains(err.Error(), "the text") {
		t.Errorf("error does not say what is missing: %v", err)
	}
	odd := errors.New("odd")
	if got, err := ask(t.Context(), scripted.New(scripted.Say("x").Fail(odd)), "", ""); got != "x" || !errors.Is(err, odd) {
		t.Errorf("got %q, %v", got, err)
	}
}

// Replies are held at a barrier until the test lets them go, all of them.
func TestModel_barrierHoldsReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(scripted.Say("x").Wait("gate").Say("y").Repeat())
		var running sync.WaitGroup
		var mu sync.Mutex
		ended := 0
		for range 3 {
			running.Go(func() {
				got, err := ask(t.Context(), m, "", "")
				mu.Lock()
				defer mu.Unlock()
				if ended++; err != nil || got != "xy|stop" {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		if err := m.WaitBlocked(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		if ended != 0 {
			t.Errorf("%d replies passed a closed barrier", ended)
		}
		mu.Unlock()
		m.Release("gate")
		m.Release("gate") // twice is harmless
		running.Wait()
		if got, _ := ask(t.Context(), m, "", ""); got != "xy|stop" {
			t.Errorf("after the release: %q", got)
		}
	})
}

func TestModel_cancelEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(scripted.Wait("never"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := ask(ctx, m, "", ""); mesh.CodeOf(err) != mesh.Timeout {
			t.Errorf("reply ended with %v", err)
		}
		if err := m.WaitBlocked(ctx, 1); mesh.CodeOf(err) != mesh.Timeout {
			t.Errorf("WaitBlocked ended with %v", err)
		}
	})
}
