// Package cachetest has what tests of rules on threads begin with: a thread in which
// agents are at work, over a store that counts what is read from it.
package cachetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// A Store counts the bytes that are read of threads. It may be used concurrently.
type Store struct {
	threadlog.Backend
	mu    sync.Mutex
	bytes int
}

// Read implements [threadlog.Store].
func (s *Store) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	recs, err := s.Backend.Read(ctx, key, after, limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range recs {
		s.bytes += len(r.Data)
	}
	return recs, err
}

// Count returns how much was read since it was called last.
func (s *Store) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.bytes
	s.bytes = 0
	return n
}

// Decide adds the events to the thread, as one decision.
func Decide(ctx context.Context, states *cache.States, key mesh.ThreadKey, events ...*mesh.Event) error {
	return states.Decide(ctx, key, func(*thread.State) (cache.Decision, error) {
		return cache.Decision{Events: events}, nil
	})
}

// Post opens a turn, as a message of a user does.
func Post(t testing.TB, states *cache.States, key mesh.ThreadKey) mesh.ExecutionID {
	t.Helper()
	id := mesh.NewExecutionID(key.ID)
	if err := Decide(t.Context(), states, key, &mesh.Event{Execution: id, Body: mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn, Agent: "main", User: "ann"}}}); err != nil {
		t.Fatal(err)
	}
	return id
}

// Run opens an execution of the agent below the turn and returns its grant.
func Run(t testing.TB, states *cache.States, key mesh.ThreadKey, turn mesh.ExecutionID, agent string, skills ...string) *mesh.Grant {
	t.Helper()
	x := mesh.Execution{ID: mesh.NewExecutionID(key.ID), Parent: turn, Kind: mesh.KindAgent, Agent: agent, User: "ann", Skills: skills}
	if err := Decide(t.Context(), states, key, &mesh.Event{Execution: turn, Body: mesh.DispatchIssued{Child: x}}); err != nil {
		t.Fatal(err)
	}
	return &mesh.Grant{
		Tenant: key.Tenant, User: "ann", Thread: key.ID, Execution: x.ID, Parent: turn, Turn: turn, Agent: agent,
		Chain: []mesh.Actor{{Agent: agent, Execution: x.ID}}, Skills: skills, Depth: 2, Expires: time.Now().Add(time.Hour).Unix(),
	}
}
