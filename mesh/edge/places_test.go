package edge_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/turn"
)

// crowd is a world in which turns are worked on at so many places, and whose agent has
// what it was told named in begun and stays with it until it is released.
type crowd struct {
	*world
	begun chan string
	gate  chan struct{}
	users map[string]string // by task, who are not ann
}

func newCrowd(w *world) *crowd {
	c := &crowd{w, make(chan string, 100), make(chan struct{}), map[string]string{}}
	w.agent("main", func(s *scene) {
		if s.text() == "ask" {
			s.move(asks, "Which?")
			return
		}
		c.begun <- s.text()
		s.ensure()
		s.until(c.gate)
		s.move(completed, "")
	})
	return c
}

func places(p turn.Places) option { return func(c *settings) { c.turn.Places = p } }

// as sends words of the user as a new conversation.
func (c *crowd) as(user, words string) *a2a.Accepted {
	c.t.Helper()
	acc := c.post(c.by(user), say(words))
	c.users[acc.Task.Id] = user
	return acc
}

// until is that of the world, as the user whose task it is.
func (c *crowd) until(acc *a2a.Accepted, cond func(*heard) bool) *heard {
	c.t.Helper()
	h, ctx := new(heard), c.ctx("")
	if user := c.users[acc.Task.Id]; user != "" {
		call, _ := mesh.CallFrom(ctx)
		call.Principal.User = user
		ctx = mesh.WithCall(ctx, call)
	}
	for u, err := range c.Updates(ctx, acc.Task.Id, acc.Cursor) {
		if err != nil {
			c.t.Fatalf("updates after %v: %v", h, err)
		}
		if h.add(u); cond(h) {
			break
		}
	}
	return h
}

func (c *crowd) hear(acc *a2a.Accepted) *heard {
	c.t.Helper()
	return c.until(acc, func(h *heard) bool { return h.state == asks })
}

// by is ctx of the user, in a new conversation.
func (c *crowd) by(user string) context.Context {
	call, _ := mesh.CallFrom(c.ctx(mesh.NewThreadID()))
	call.Principal.User = user
	return mesh.WithCall(c.ctx(""), call)
}

// place is that at which the last status says that a task waits, or 0.
func (h *heard) place() float64 {
	return a2a.Extension(h.last.GetMetadata()).GetFields()[a2a.KeyPlace].GetNumberValue()
}

// waits reads until the task is told to wait, and returns at which place.
func (c *crowd) waits(acc *a2a.Accepted) float64 {
	c.t.Helper()
	h := c.until(acc, func(h *heard) bool { return h.last != nil })
	if h.state != submitted || h.reason() != mesh.ReasonQueued || len(h.words) != 1 {
		c.t.Errorf("who waits is told %v", h)
	}
	return h.place()
}

// idle waits until nobody drives anything.
func (c *crowd) idle() {
	for c.nodes[0].turns.Running() > 0 {
		runtime.Gosched()
	}
}

// finding R6: no more turns are worked on than there are places. The others are accepted, wait
// as SUBMITTED, say at which place, and come in their turns; who waits for its user holds no
// place.
func TestTurnsWaitForAPlaceInTheirTurns(t *testing.T) {
	c := newCrowd(buildOne(t, places(turn.Places{Running: 2})))
	if h := c.hear(c.as("ann", "ask")); h.state != asks { // and holds none
		t.Fatalf("heard %v", h)
	}
	all := []*a2a.Accepted{c.as("ann", "one"), c.as("ann", "two")}
	<-c.begun
	<-c.begun
	for _, m := range []struct {
		user, words string
		place       float64
	}{{"ann", "three", 1}, {"ann", "four", 2}, {"bob", "five", 2}} {
		acc := c.as(m.user, m.words)
		if at := c.waits(acc); at != m.place {
			t.Errorf("%s waits at place %v, want %v", m.words, at, m.place)
		}
		all = append(all, acc)
	}
	if n := c.nodes[0].turns.Waiting(); n != 3 {
		t.Errorf("%d wait", n)
	}
	var came []string
	for range 3 {
		c.gate <- struct{}{}
		came = append(came, <-c.begun)
	}
	c.gate <- struct{}{}
	c.gate <- struct{}{}
	if want := []string{"five", "three", "four"}; !slices.Equal(came, want) { // ann has one place, and bob has none
		t.Errorf("they came as %v, want %v", came, want)
	}
	for i, acc := range all {
		h := c.hear(acc)
		if h.state != completed || i > 1 && h.all[1].Response.GetStatusUpdate().GetStatus().GetState() != working {
			t.Errorf("heard %v", h)
		}
	}
	c.idle()
}

// What waits can be canceled at once, also the answer to a question, and those behind move up.
func TestWhoWaitsForAPlaceCanBeCanceledAtOnce(t *testing.T) {
	c := newCrowd(buildOne(t, places(turn.Places{Running: 1})))
	asked := c.send("ask")
	c.hear(asked)
	c.idle()
	c.as("ann", "one")
	<-c.begun
	answer := c.post(c.ctx(c.thread), to(say("this"), asked.Task.Id))
	h := c.until(answer, func(h *heard) bool { return h.reason() == mesh.ReasonQueued })
	if h.state != working || h.place() != 1 {
		t.Errorf("the answer waits: %v", h)
	}
	second, third := c.as("ann", "two"), c.as("ann", "three")
	if at := c.waits(third); at != 3 {
		t.Errorf("the third waits at place %v", at)
	}
	for _, acc := range []*a2a.Accepted{answer, second} {
		c.mustCancel(acc.Task.Id)
		if h := c.hear(acc); h.state != canceled {
			t.Errorf("heard %v", h)
		}
	}
	for c.nodes[0].turns.Waiting() > 1 {
		runtime.Gosched()
	}
	c.gate <- struct{}{}
	if next := <-c.begun; next != "three" {
		t.Errorf("next came %q", next)
	}
	c.gate <- struct{}{}
	c.hear(third)
	c.idle()
}

// Where too many wait, a message is refused before anything is accepted, by the name of the
// setting and with a time to try again; what was accepted is attached to nevertheless.
func TestWhereTooManyWaitNothingIsAccepted(t *testing.T) {
	c := newCrowd(buildOne(t, places(turn.Places{Running: 1, Waiting: 1})))
	c.as("ann", "one")
	<-c.begun
	req, ctx := say("two"), c.by("ann")
	second := c.post(ctx, req)
	_, err := c.Send(c.ctx(c.thread), say("three"))
	trip := limit.TripOf(err)
	if !mesh.IsCode(err, mesh.Exhausted) || trip == nil || trip.Limit != limit.TurnsWaiting || trip.Used != 1 || trip.Most != 1 || trip.Free.IsZero() {
		t.Fatalf("refused with %v, %+v", err, trip)
	}
	if _, retry := rpc.RetryAfter(rpc.FromStatus(rpc.ToStatus(err))); !retry {
		t.Error("it is not said when to try again")
	}
	if s := c.fold(); s.Seq != 0 {
		t.Errorf("%d events were accepted", s.Seq)
	}
	if again := c.post(ctx, req); again.Task.GetId() != second.Task.GetId() {
		t.Errorf("sent again: %v", again.Task)
	}
	c.gate <- struct{}{}
	<-c.begun
	c.gate <- struct{}{}
	c.hear(second)
	c.idle()
}

// finding R6: what was accepted and waited when its node died is worked on by the next one, in
// the order in which it came, at as many places as there are.
func TestWhoWaitedWhenItsNodeDiedWaitsInOrder(t *testing.T) {
	const turns = 20
	c := newCrowd(buildOne(t, places(turn.Places{Running: 1})))
	var sent []*a2a.Accepted
	var want []string
	for i := range turns {
		sent = append(sent, c.as("ann", fmt.Sprint(i)))
		want = append(want, fmt.Sprint(i))
		if i == 0 {
			<-c.begun
		}
	}
	c.crash()

	next := newCrowd(rebuild(t, c.backend, "node-2", places(turn.Places{Running: 1}), func(s *settings) { s.turn.Interrupt = false }))
	next.tend()
	var came []string
	for i := range turns {
		if came = append(came, <-next.begun); i == 0 {
			next.tend() // what waits is left alone
		}
		next.gate <- struct{}{}
	}
	if !slices.Equal(came, want) {
		t.Errorf("they came as %v", came)
	}
	for _, acc := range sent {
		if h := next.hear(acc); h.state != completed {
			t.Errorf("heard %v", h)
		}
	}
	next.idle()
}

// The shares of users and tenants keep nobody else waiting, and a conversation with many
// messages goes behind those that wait after each.
func TestNobodyKeepsOthersWaiting(t *testing.T) {
	c := newCrowd(buildOne(t, places(turn.Places{Running: 3, OfUser: 1})))
	var sent []*a2a.Accepted
	for i := range 3 {
		sent = append(sent, c.send(fmt.Sprint("first ", i)))
	}
	<-c.begun
	other := c.as("ann", "second")
	if at := c.waits(other); at != 1 {
		t.Errorf("the second conversation waits at place %v", at)
	}
	c.as("bob", "bob's") // who has a place
	if next := <-c.begun; next != "bob's" {
		t.Errorf("%q has bob's place", next)
	}
	c.gate <- struct{}{}
	c.gate <- struct{}{}
	if next := <-c.begun; next != "second" {
		t.Errorf("after the first turn came %q", next)
	}
	for range 2 {
		c.gate <- struct{}{}
		<-c.begun
	}
	c.gate <- struct{}{}
	for _, acc := range append(sent, other) {
		if h := c.hear(acc); h.state != completed {
			t.Errorf("heard %v", h)
		}
	}
	c.await("it is at rest", func(s *thread.State) bool { return len(s.Turns()) == 3 && s.NextTurn() == nil })
	c.idle()
}
