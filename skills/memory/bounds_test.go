package memory_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
	"agentmesh/skills"
	"agentmesh/skills/internal/textindex"
	"agentmesh/skills/memory"
)

// A user's memories are limited in number, by all processes together; what is
// known is brought up to date all the same, and another user is not concerned.
func TestSave_keepsALimitedNumber(t *testing.T) {
	state := new(skilltest.State)
	var all []*process
	for range 2 {
		all = append(all, start(t, state, t.TempDir(), memory.WithMost(5)))
	}
	var refused atomic.Int32
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			r := all[i%2].Call("memory.save", fmt.Sprint(i), args{"content": fmt.Sprintf("Project number %d is about walruses", i)})
			if mesh.IsCode(r.Err, mesh.Exhausted) && strings.Contains(r.Content, "There are 5 memories of this user") {
				refused.Add(1)
			} else if r.Failed() {
				t.Error(r.Content)
			}
		})
	}
	wg.Wait()
	items, err := state.List(t.Context(), memory.Kind, "ann/m-", "", 100)
	if err != nil || len(items) != 5 || refused.Load() != 5 {
		t.Errorf("%d are kept, %d refused, %v", len(items), refused.Load(), err)
	}
	known := stored(t, state, items[0].Key)
	if r := all[0].Call("memory.save", "again", args{"content": known.Content, "tags": "sea"}); r.Failed() || r.Metadata["memory_id"] != known.ID {
		t.Errorf("%+v", r)
	}
	all[0].as("bob").save(t, "b", args{"content": "Bob likes walruses"})
}

// A hereRanker notes that it was called.
type hereRanker struct{ called *bool }

func (r hereRanker) Rank(ctx context.Context, ix *textindex.Index, q memory.Query) ([]textindex.Hit, error) {
	*r.called = true
	return memory.Words{}.Rank(ctx, ix, q)
}

// S3-137: the skills are of the domain memory and run without isolation, in
// the process of their caller: a value of this test is what searches. What is
// saved is found with nothing done to the index in between.
func TestMemory_runsInTheProcessAndIndexesOnInsert(t *testing.T) {
	c, _ := skill.Load(skills.FS)
	var names []string
	for _, s := range c.InDomain("memory") {
		if names = append(names, s.Name); s.Handler != s.Name {
			t.Errorf("%s is run by %q", s.Name, s.Handler)
		}
	}
	if diff := cmp.Diff([]string{"memory.save", "memory.search", "memory.settings"}, names); diff != "" {
		t.Error(diff)
	}
	called := false
	p := start(t, new(skilltest.State), t.TempDir(), memory.WithRanker(hereRanker{&called}))
	id := p.save(t, "k", args{"content": "The user collects stamps"})
	if got := p.find(t, args{"query": "stamp"}); !cmp.Equal(got, []string{id}) || !called {
		t.Errorf("found %v, called %v", got, called)
	}
}
