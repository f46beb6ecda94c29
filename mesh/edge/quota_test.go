package edge_test

import (
	"bytes"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/quota"
	"agentmesh/mesh/thread/tasks"
)

// finding T7: a user has so many conversations, at whichever node they are opened. Those
// that there are go on, and a message that is sent again attaches to its task.
func TestAUserHasSoManyConversations(t *testing.T) {
	var indexes []*tasks.Index
	w := build(t, func(s *settings) {
		x, err := tasks.New(s.edge.Log, bytes.Repeat([]byte{7}, tasks.KeySize), nil)
		if err != nil {
			t.Fatal(err)
		}
		indexes = append(indexes, x)
		s.edge.Quotas = quota.New(limit.Quotas{User: limit.Quota{Threads: 2}}, x, nil)
	})
	w.agent("main", echo)
	caughtUp := func() { // as a node that has heard of the other's
		for _, x := range indexes {
			if err := x.Catch(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := mesh.NewThreadID()
	req := say("one")
	opened := w.post(w.ctx(first), req)
	w.hear(opened)
	caughtUp()
	w.hear(w.post(w.ctx(mesh.NewThreadID()), say("two")))
	caughtUp()
	for range 4 {
		_, err := w.Send(w.ctx(mesh.NewThreadID()), say("three"))
		trip := limit.TripOf(err)
		if !mesh.IsCode(err, mesh.Exhausted) || trip == nil || trip.Limit != "user.threads" || trip.Used != 2 || trip.Most != 2 {
			t.Fatalf("the third is refused with %v, %+v", err, trip)
		}
		if again := w.post(w.ctx(first), req); again.Task.GetId() != opened.Task.GetId() {
			t.Errorf("sent again: %v", again.Task)
		}
		if h := w.hear(w.post(w.ctx(first), say("more"))); h.state != completed {
			t.Errorf("a conversation that there is: %v", h)
		}
	}
	key := mesh.ThreadKey{Tenant: "acme", ID: first}
	if err := w.log.Delete(t.Context(), key, -1); err != nil {
		t.Fatal(err)
	}
	w.forget(key)
	if h := w.hear(w.post(w.ctx(mesh.NewThreadID()), say("three"))); h.state != completed {
		t.Errorf("there is no room when one was deleted: %v", h)
	}
}
