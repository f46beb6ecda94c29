package memory_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill/skilltest"
	"agentmesh/skills/memory"
)

// concepts knows of some words what they are about; of all others, that they are different.
type concepts struct {
	mu    sync.Mutex
	asked [][]string
	fails error
	hangs bool
	zero  bool // it has no direction for anything
}

var about = map[string]int{"sea": 0, "ocean": 0, "whales": 0, "eat": 1, "food": 1, "dinner": 1, "pasta": 1}

func (c *concepts) Space() string { return "concepts" }

func (c *concepts) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	c.mu.Lock()
	c.asked = append(c.asked, slices.Clone(texts))
	fails, hangs, zero := c.fails, c.hangs, c.zero
	c.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var out [][]float32
	for _, text := range texts {
		v := make([]float32, 64)
		for w := range strings.FieldsSeq(strings.ToLower(text)) {
			at, known := about[w]
			if !known {
				h := fnv.New32()
				h.Write([]byte(w))
				at = 2 + int(h.Sum32()%62)
			}
			if !zero {
				v[at]++
			}
		}
		out = append(out, v)
	}
	return out, fails
}

func (c *concepts) calls() [][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

func (c *concepts) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func meaning(c *concepts) memory.Option {
	return memory.WithRanker(&memory.Meaning{Embedder: c, Least: 0.3, Logger: slog.New(slog.DiscardHandler)})
}

// S0-140, S3-160: a search is by words, by meaning and by what else is asked for: who is found
// in both ways is first, what means something else is not found, and nobody finds another's.
func TestSearch_isByWordsMeaningAndFilters(t *testing.T) {
	c := new(concepts)
	p := start(t, new(skilltest.State), t.TempDir(), meaning(c))
	both := p.save(t, "1", args{"content": "Whales at sea", "tags": "trip"})
	words := p.save(t, "2", args{"content": "The sea battle starts early today", "category": "fact"})
	means := p.save(t, "3", args{"content": "Ocean waves", "importance": "0.9"})
	other := p.save(t, "4", args{"content": "Pasta for dinner"})
	p.as("bob").save(t, "5", args{"content": "Whales at sea"})
	p.as("ann")
	for name, tt := range map[string]struct {
		args args
		want []string
	}{
		"by both":            {args{"query": "whales sea"}, []string{both, words, means}},
		"by meaning alone":   {args{"query": "food"}, []string{other}},
		"by words alone":     {args{"query": "battle"}, []string{words}},
		"neither":            {args{"query": "airports"}, nil},
		"no words":           {args{"query": "?!"}, nil},
		"with a tag":         {args{"query": "ocean", "tags": "trip"}, []string{both}},
		"with a category":    {args{"query": "ocean", "category": "fact"}, []string{words}},
		"with an importance": {args{"query": "sea", "min_importance": "0.8"}, []string{means}},
		"with a limit":       {args{"query": "whales sea", "limit": "1"}, []string{both}},
	} {
		got := p.find(t, tt.args)
		if !slices.Equal(got, tt.want) && (len(got) > 0 || len(tt.want) > 0) {
			t.Errorf("%s: found %v, want %v", name, got, tt.want)
		}
	}
}

// What changed has another meaning, what is new is found at once, and a new process does not
// ask again for what is known.
func TestSearch_keepsMeaningsUpToDateAndAsksOnceForEach(t *testing.T) {
	c, state, dir := new(concepts), new(skilltest.State), t.TempDir()
	p := start(t, state, dir, meaning(c))
	p.save(t, "1", args{"content": "Whales"})
	if got := p.find(t, args{"query": "ocean"}); len(got) != 1 {
		t.Fatalf("found %v", got)
	}
	for i := range 70 {
		p.save(t, fmt.Sprint("more", i), args{"content": fmt.Sprintf("Number%d thing%d", i, i*7)})
	}
	p.find(t, args{"query": "ocean"})
	if err := p.store.Close(); err != nil { // what is left is given up, or was done
		t.Fatal(err)
	}
	again := start(t, state, dir, meaning(c))
	again.find(t, args{"query": "ocean"})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		seen := map[string]int{}
		for _, texts := range c.calls() {
			for _, text := range texts {
				seen[text]++
			}
		}
		delete(seen, "ocean")
		if len(seen) == 71 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d memories have a meaning", len(seen))
		}
	}
	for _, texts := range c.calls() {
		if len(texts) > 64 {
			t.Errorf("it was asked for %d at once", len(texts))
		}
	}
}

// Where vectors cannot be had, words are what there is: at once, and for a while nobody asks.
func TestSearch_goesByWordsWhereMeaningsCannotBeHad(t *testing.T) {
	for name, breaks := range map[string]func(c *concepts){
		"refused": func(c *concepts) { c.fails = mesh.Errorf(mesh.Unavailable, "test", "down") },
		"hangs":   func(c *concepts) { c.hangs = true },
		"nothing": func(c *concepts) { c.zero = true },
	} {
		t.Run(name, func(t *testing.T) {
			c := new(concepts)
			c.set(func() { breaks(c) })
			p := start(t, new(skilltest.State), t.TempDir(), meaning(c))
			id := p.save(t, "1", args{"content": "Whales sing"})
			for range 3 {
				if got := p.find(t, args{"query": "whales"}); !slices.Equal(got, []string{id}) {
					t.Errorf("found %v", got)
				}
			}
			if n := len(c.calls()); name != "nothing" && n != 1 {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}
