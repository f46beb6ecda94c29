package handoff_test

import (
	"context"
	"sync/atomic"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// A counting store counts the events that are read.
type counting struct {
	threadlog.Backend
	events atomic.Int64
}

func (c *counting) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	recs, err := c.Backend.Read(ctx, key, after, limit)
	c.events.Add(int64(len(recs)))
	return recs, err
}

// Who may not end a handoff has nothing read for it, and who may has the log read no further
// than what is named.
func TestArtifactsAreLookedForNoFurtherThanTheyAre(t *testing.T) {
	const long = 5000
	store := &counting{Backend: mem.Open()}
	s := sceneOn(t, store)
	history := make([]*mesh.Event, long)
	for i := range history {
		history[i] = said("a1", "answer", "Plan")
	}
	err := s.any().states.Decide(t.Context(), key, func(*thread.State) (cache.Decision, error) { return cache.Decision{Events: history}, nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(t.Context(), by("main", "a1"), start("builder")); err != nil {
		t.Fatal(err)
	}
	s.add(run("t1", "b1", "builder"), said("b1", "2.skill", "Skill"), said("b1", "2.skill", ""))
	for _, m := range s.nodes { // has its state
		if _, _, err := m.Get(t.Context(), key, mesh.Principal{Tenant: key.Tenant, User: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	before := store.events.Load()
	for what, p := range map[string]mesh.Principal{
		"a stranger":           {Tenant: key.Tenant, User: "eve"},
		"who does not have it": {Tenant: key.Tenant, User: "ann", Grant: by("main", "a1")},
	} {
		for _, m := range s.nodes {
			if _, err := m.End(t.Context(), key, p, handoff.End{Artifacts: []string{"nothing"}}); err == nil || mesh.IsCode(err, mesh.Invalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if n := store.events.Load() - before; n != 0 {
		t.Errorf("%d events were read for who may not end the handoff", n)
	}
	got, err := s.end(by("builder", "b1"), handoff.End{Artifacts: []string{"skill", "answer"}})
	if err != nil || len(got.Artifacts) != 2 || got.Artifacts[0] != (mesh.ArtifactRef{Task: "t1", ID: "2.skill", Name: "Skill"}) || got.Artifacts[1].Name != "Plan" {
		t.Errorf("%+v, %v", got, err)
	}
	if n := store.events.Load() - before; n > long/10 {
		t.Errorf("%d events were read of %d", n, long)
	}
}
