package thread

import (
	"time"

	"agentmesh/mesh"
)

func (c *coder) execution(x *Execution) {
	c.task(&x.Execution)
	number(c, &x.State)
	words(c, &x.Reason, &x.Delivery, &x.HelpTold, &x.Result, &x.RemoteTask, &x.RemoteContext, &x.Instance, &x.WentOn, &x.Credential)
	c.message(&x.Message)
	for _, at := range []*mesh.Seq{&x.Opened, &x.Ended, &x.Issued, &x.Delivered, &x.Detail} {
		number(c, at)
	}
	optional(c, &x.Accepted, c.accepted)
	for _, at := range []*time.Time{&x.Started, &x.Updated, &x.Began, &x.Heard, &x.Asked} {
		c.when(at)
	}
	for _, p := range []*bool{&x.Remembers, &x.Anew, &x.CutOff, &x.Canceled} {
		c.flag(p)
	}
	c.usage(&x.Usage)
	c.budget(&x.Used)
	for _, n := range []*int64{&x.Artifacts, &x.Logged.Events, &x.Logged.Bytes} {
		number(c, n)
	}
	for _, n := range []*int{&x.SkillCalls, &x.ToolCalls, &x.Adoptions, &x.Handoffs} {
		number(c, n)
	}
	number(c, &x.Allowed)
	number(c, &x.Worked)
	c.calls(&x.Calls)
	dict(c, &x.Unsettled, func(skill *string) { word(c, skill) })
	dict(c, &x.Intents, func(p **mesh.Event) { optional(c, p, c.intent) })
	list(c, &x.Tripped, c.trip)
	list(c, &x.Approvals, c.approval)
	dict(c, &x.Approved, c.digest)
	optional(c, &x.Requested, func(s *mesh.SkillCall) {
		words(c, &s.Skill, &s.Source)
		c.json(&s.Arguments)
		c.flag(&s.Approved)
	})
	list(c, &x.Instructions, func(i *Instruction) { words(c, &i.ID, &i.By, &i.Text); number(c, &i.Seq) })
	list(c, &x.Told, func(id *string) { word(c, id) })
	list(c, &x.Legs, func(l *Leg) { word(c, &l.Execution); word(c, &l.Agent); number(c, &l.From); number(c, &l.To) })
	list(c, &x.Posts, func(at *mesh.Seq) { number(c, at) })
	list(c, &x.Got, func(at *mesh.Seq) { number(c, at) })
	list(c, &x.Roles, func(r *mesh.Role) { word(c, r) })
}

// task codes what is asked of an execution.
func (c *coder) task(x *mesh.Execution) {
	words(c, &x.ID, &x.Parent)
	word(c, &x.Kind)
	words(c, &x.Agent, &x.User, &x.Label, &x.Text, &x.Context, &x.Traceparent)
	list(c, &x.Skills, func(s *string) { word(c, s) })
	list(c, &x.DependsOn, func(id *mesh.ExecutionID) { word(c, id) })
	number(c, &x.MaxToolCalls)
	c.when(&x.Deadline)
	c.budget(&x.Budget)
	c.flag(&x.Dry)
}

func (c *coder) accepted(b *mesh.DispatchAccepted) {
	c.task(&b.Child)
	words(c, &b.Context, &b.Call)
	number(c, &b.Wave)
	list(c, &b.Answers, func(a *string) { word(c, a) })
}

// intent codes an event that announced a call of a skill: no other is one.
func (c *coder) intent(e *mesh.Event) {
	number(c, &e.Seq)
	number(c, &e.Pos)
	number(c, &e.Size)
	number(c, &e.Epoch)
	words(c, &e.ID, &e.Actor)
	c.when(&e.Time)
	word(c, &e.Execution)
	b, _ := e.Body.(mesh.SkillCalled)
	words(c, &b.Call, &b.Skill, &b.Args, &b.Source, &b.Version)
	c.flag(&b.NotMade)
	e.Body = b
}

func (c *coder) calls(n *Calls) {
	number(c, &n.Since)
	for _, p := range []*int{&n.Skills, &n.Tools, &n.Discoveries, &n.Steps, &n.Agents} {
		number(c, p)
	}
}

func (c *coder) trip(t *mesh.LimitTripped) {
	words(c, &t.Limit, &t.Detail)
	number(c, &t.Used)
	number(c, &t.Most)
	c.when(&t.Free)
}

func (c *coder) approval(a *Approval) {
	words(c, &a.Call, &a.Skill, &a.Text)
	c.digest(&a.What)
	number(c, &a.Asked)
	number(c, &a.Shown)
	number(c, &a.Answer)
	c.flag(&a.Asking)
}

func (c *coder) digest(d *mesh.Digest) {
	if !c.reads {
		c.buf = append(c.buf, d[:]...)
		return
	}
	copy(d[:], c.take(len(d)))
}
