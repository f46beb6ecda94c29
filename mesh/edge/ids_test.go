package edge_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// S4-007, S4-009, S4-013, S4-014, S4-066: ids that do not fit are refused, each as what
// it is, and nothing is written.
func TestIdsThatDoNotFitAreRefused(t *testing.T) {
	w := build(t)
	w.agent("main", echo)
	mine := w.send("hello")
	w.hear(mine)
	events := len(w.logs()[w.key()])
	other := mesh.NewThreadID()
	inContext := func(id, task string) *a2apb.SendMessageRequest {
		req := to(say("x"), task)
		req.Message.ContextId = id
		return req
	}
	own := func(*mesh.Call) {}
	tests := map[string]struct {
		call  func(*mesh.Call)
		req   *a2apb.SendMessageRequest
		code  mesh.Code
		field string
	}{
		"context is no UUID":                 {own, inContext("chat-1", ""), mesh.Invalid, "message.context_id"},
		"context is a UUID v1":               {own, inContext("2c5ea4c0-4067-11e9-8bad-9b1deb4d3b7d", ""), mesh.Invalid, "message.context_id"},
		"context is not the thread-id":       {own, inContext(other, ""), mesh.Invalid, "message.context_id"},
		"context is not the task's":          {func(c *mesh.Call) { c.Thread = "" }, inContext(other, mine.Task.Id), mesh.Invalid, "message.context_id"},
		"thread-id is not the task's":        {func(c *mesh.Call) { c.Thread = other }, to(say("x"), mine.Task.Id), mesh.Invalid, "message.context_id"},
		"malformed task":                     {own, to(say("x"), "task-1"), mesh.NotFound, "id"},
		"unknown task":                       {own, to(say("x"), string(mesh.NewExecutionID(w.thread))), mesh.NotFound, "id"},
		"another tenant's task":              {func(c *mesh.Call) { c.Principal.Tenant = "evil" }, to(say("x"), mine.Task.Id), mesh.NotFound, "id"},
		"an agent's execution":               {own, to(say("x"), string(w.fold().Executions()[1].ID)), mesh.NotFound, "id"},
		"a task that is over":                {own, to(say("x"), mine.Task.Id), mesh.Precondition, "message.task_id"},
		"the extension without a thread":     {func(c *mesh.Call) { c.Thread = "" }, say("x"), mesh.Invalid, "thread-id"},
		"another's thread in the metadata":   {func(c *mesh.Call) { c.Principal.User = "eve" }, say("x"), mesh.NotFound, "thread-id"},
		"another's thread as the context":    {func(c *mesh.Call) { c.Principal.User, c.Thread = "eve", "" }, inContext(w.thread, ""), mesh.NotFound, "message.context_id"},
		"another tenant in the A2A field":    {own, &a2apb.SendMessageRequest{Tenant: "evil", Message: say("x").Message}, mesh.NotFound, "tenant"},
		"text that is no UTF-8 in a message": {own, say("\xff"), mesh.Invalid, "message"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := w.Send(w.call(tt.call), tt.req)
			e, _ := err.(*mesh.Error)
			if e == nil || e.Code != tt.code || e.Field != tt.field || e.Detail == "" {
				t.Errorf("got %v, want %v about %q", err, tt.code, tt.field)
			}
		})
	}
	if _, err := w.Send(context.Background(), say("x")); !mesh.IsCode(err, mesh.Unknown) {
		t.Errorf("without the interceptors: %v", err)
	}
	if n := len(w.logs()[w.key()]); n != events || len(w.logs()) != 1 {
		t.Errorf("the thread has %d events, had %d; %d threads", n, events, len(w.logs()))
	}
	if _, err := w.Send(w.call(own), &a2apb.SendMessageRequest{Tenant: "acme", Message: say("x").Message}); err != nil {
		t.Errorf("the caller's own tenant: %v", err)
	}
}

// What is another tenant's looks like what does not exist.
func TestTasksAreShownToThoseOfTheirTenantAlone(t *testing.T) {
	w := build(t)
	w.agent("main", func(s *scene) { s.move(asks, "Which?") })
	w.agent("smith", echo)
	acc := w.send("hello")
	w.hear(acc)
	id := acc.Task.Id
	tests := map[string]struct {
		call func(*mesh.Call)
		id   string
		code mesh.Code
	}{
		"another tenant": {func(c *mesh.Call) { c.Principal.Tenant = "evil" }, id, mesh.NotFound},
		"another thread": {func(c *mesh.Call) { c.Thread = mesh.NewThreadID() }, id, mesh.NotFound},
		"unknown":        {func(*mesh.Call) {}, string(mesh.NewExecutionID(w.thread)), mesh.NotFound},
		"malformed":      {func(*mesh.Call) {}, "x", mesh.NotFound},
		"upper case":     {func(*mesh.Call) {}, strings.ToUpper(id), mesh.NotFound},
		"another agent":  {func(c *mesh.Call) { c.Agent = "smith" }, id, mesh.NotFound},
		"no agent":       {func(c *mesh.Call) { c.Agent = "nobody" }, id, mesh.NotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := w.call(tt.call)
			if _, _, err := w.Task(ctx, tt.id); !mesh.IsCode(err, tt.code) {
				t.Errorf("Task: %v", err)
			}
			if err := refusal(w.Updates(ctx, tt.id, 0)); !mesh.IsCode(err, tt.code) {
				t.Errorf("Updates: %v", err)
			}
			if _, err := w.Cancel(ctx, &a2apb.CancelTaskRequest{Id: tt.id}); !mesh.IsCode(err, tt.code) {
				t.Errorf("Cancel: %v", err)
			}
		})
	}
	if _, err := w.Cancel(w.ctx(w.thread), &a2apb.CancelTaskRequest{Id: id, Tenant: "evil"}); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("Cancel with another tenant in the A2A field: %v", err)
	}
	if w.snapshot(id).Status.State != asks {
		t.Errorf("the task was changed: %v", w.snapshot(id).Status)
	}
}

// S4-009, S4-074: a plain A2A call gets a thread of its own, with a UUID v4; a context
// that only another tenant uses is simply new.
func TestAPlainCallGetsAThreadOfItsOwn(t *testing.T) {
	w := build(t)
	w.agent("main", echo)
	plain := func(c *mesh.Call) { c.Thread, c.Extensions = "", nil }
	first, second := w.post(w.call(plain), say("a")), w.post(w.call(plain), say("b"))
	if id, err := mesh.ParseThreadID(first.Task.ContextId); err != nil || id != first.Task.ContextId || id == second.Task.ContextId {
		t.Errorf("contexts %q and %q, %v", first.Task.ContextId, second.Task.ContextId, err)
	}
	evil := say("c")
	evil.Message.ContextId = first.Task.ContextId
	acc := w.post(w.call(func(c *mesh.Call) { plain(c); c.Principal.Tenant = "evil" }), evil)
	if acc.Task.ContextId != first.Task.ContextId || len(acc.Task.History) != 1 {
		t.Errorf("the other tenant got %v", acc.Task)
	}
	if card, err := w.ExtendedCard(w.call(func(c *mesh.Call) { c.Principal.Tenant = "evil" })); err != nil || card.Name != "edge of evil" {
		t.Errorf("card %v, %v", card, err)
	}
	w.hear(first)
}

// S4-010, S4-070: what the user said, under whose name and with which rights, reaches
// the agent.
func TestTheAgentLearnsWhoIsAsking(t *testing.T) {
	w := build(t)
	heard := make(chan *scene, 2)
	play := func(s *scene) { heard <- s; s.answer("ok") }
	w.agent("main", play)
	acc := w.send("hi")
	w.hear(acc)
	s := <-heard
	g := s.call.Principal.Grant
	if g == nil || g.Tenant != "acme" || g.User != "ann" || g.Thread != w.thread || string(g.Turn) != acc.Task.Id || g.Execution != s.call.Execution ||
		!slices.Equal(g.Chain, []mesh.Actor{{Agent: "main", Execution: g.Execution}}) || g.Depth != 2 || g.Has(mesh.CapCreateSkill) {
		t.Errorf("grant %+v", g)
	}
	if s.call.Thread != w.thread || s.call.ParentTask != acc.Task.Id || s.msg.ContextId != w.thread || s.msg.TaskId != "" {
		t.Errorf("call %+v with message %v", s.call, s.msg)
	}
	w.agent("main", play, foreign)
	w.hear(w.send("hi"))
	if s := <-heard; s.call.Principal.Grant != nil || s.msg.ContextId != "" || len(s.call.Extensions) != 0 {
		t.Errorf("a foreign agent got %+v with %v", s.call, s.msg)
	}
}
