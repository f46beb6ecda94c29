package dispatch

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/text"
)

// again is what is known of an agent's task that goes on.
type again struct {
	task, context string // the agent's own ids, where it has any
	said          string // before it waited
}

// restore takes in what the execution dispatched before, and has those go on
// that wait for the user.
func (d *Dispatcher) restore(ctx context.Context) error {
	d.past = past{own: string(d.inv.Execution), children: map[string]*child{}, orders: map[string]accepted{}}
	events, err := d.inv.Mesh.Since(ctx)
	if err != nil {
		return mesh.Errorf(mesh.Unavailable, "dispatch.restore", "what was dispatched before cannot be read; try again later: %w", err)
	}
	for _, e := range events {
		d.past.apply(e)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var pending []*job
	for _, label := range d.past.labels {
		if c := d.past.children[label]; c != nil {
			j := d.add(c.order(), mesh.ExecutionID(c.x.GetId()))
			if c.restore(j); j.Status == StatusFailed && !mesh.Terminal(c.state) {
				j.Result.Result = withOpen(text.AgentInterrupted(), agent.Unsettled(events, j.exec.ID))
			}
		} else if o, ok := d.past.orders[label]; ok {
			pending = append(pending, d.add(o.Order, o.id(d.inv.Thread.ID)))
		}
	}
	for _, j := range pending {
		d.link(j)
	}
	d.start()
	return nil
}

// past is what the log says of an execution that goes on.
type past struct {
	own      string
	labels   []string            // of what was dispatched, or should have been, in order
	children map[string]*child   // by label: what was dispatched
	orders   map[string]accepted // by label: what was to be, when others are done
	// Of the last reply of the execution's model: the calls without result, its
	// orders by call, and the labels of what was dispatched since.
	open  map[string]bool
	asked map[string]Order
	fresh []string
}

// An accepted order is one that the model was told will be carried out.
type accepted struct {
	Order
	told string // what the model was told
}

// id is the execution that the model was told of.
func (a accepted) id(thread string) mesh.ExecutionID {
	var told struct {
		ID mesh.ExecutionID `json:"execution_id"`
	}
	if json.Unmarshal([]byte(a.told), &told) == nil {
		if of, ok := told.ID.ThreadID(); ok && of == thread {
			return told.ID
		}
	}
	return mesh.NewExecutionID(thread)
}

// A child is an execution that was dispatched.
type child struct {
	x             *meshv1.Execution
	state         mesh.TaskState
	reason        string
	result        string
	task, context string
	said          transcript
	calls         int
	began, ended  time.Time
}

func (p *past) apply(e *meshv1.Event) {
	if e.GetExecutionId() == p.own {
		p.applyOwn(e)
		return
	}
	c := p.child(e.GetExecutionId())
	if c == nil {
		return
	}
	switch b := e.GetBody().(type) {
	case *meshv1.Event_ArtifactAppended:
		c.said.take(b.ArtifactAppended.GetArtifact(), b.ArtifactAppended.GetAppend())
	case *meshv1.Event_SkillCalled:
		c.calls++
	case *meshv1.Event_TaskMoved:
		m := b.TaskMoved
		c.move(e, m.GetState(), m.GetReason(), "")
		if m.GetRemoteTask() != "" {
			c.task = m.GetRemoteTask()
		}
		if m.GetRemoteContext() != "" {
			c.context = m.GetRemoteContext()
		}
	}
}

func (p *past) applyOwn(e *meshv1.Event) {
	switch b := e.GetBody().(type) {
	case *meshv1.Event_ModelReplied:
		p.replied(b.ModelReplied)
	case *meshv1.Event_ToolReturned:
		r := b.ToolReturned
		delete(p.open, r.GetCall())
		if o, ok := p.asked[r.GetCall()]; ok && !r.GetFailed() {
			p.orders[o.AgentID] = accepted{o, r.GetContent()}
		}
	case *meshv1.Event_DispatchIssued:
		x := b.DispatchIssued.GetChild()
		p.children[x.GetLabel()] = &child{x: x, began: e.GetTime().AsTime()}
		p.place(x.GetLabel())
		p.fresh = append(p.fresh, x.GetLabel())
	case *meshv1.Event_DispatchSettled:
		if c := p.child(b.DispatchSettled.GetChild()); c != nil {
			c.move(e, b.DispatchSettled.GetState(), b.DispatchSettled.GetReason(), b.DispatchSettled.GetResult())
		}
	}
}

func (p *past) replied(r *meshv1.ModelReplied) {
	p.open, p.asked, p.fresh = map[string]bool{}, map[string]Order{}, nil
	for _, u := range r.GetTools() {
		p.open[u.GetId()] = true
		if u.GetName() != ToolDispatch {
			continue
		}
		if o, err := parseOrder(u.GetArguments()); err == nil {
			p.asked[u.GetId()] = o
			p.place(o.AgentID)
		}
	}
}

func (p *past) place(label string) {
	if !slices.Contains(p.labels, label) {
		p.labels = append(p.labels, label)
	}
}

func (p *past) child(id string) *child {
	for _, c := range p.children {
		if c.x.GetId() == id {
			return c
		}
	}
	return nil
}

func (c *child) move(e *meshv1.Event, state mesh.TaskState, reason, result string) {
	if !mesh.Terminal(c.state) {
		c.state, c.reason, c.result, c.ended = state, reason, result, e.GetTime().AsTime()
	}
}

// order is what was asked of the child, whose dependencies are done.
func (c *child) order() Order {
	return Order{
		AgentID: c.x.GetLabel(), Name: c.x.GetAgent(), Mission: c.x.GetText(), Skills: c.x.GetSkills(), MaxToolCalls: int(c.x.GetMaxToolCalls()),
	}
}

// restore gives the job what became of the child.
func (c *child) restore(j *job) {
	j.issued, j.counted, j.ToolCalls = true, true, c.calls
	if c.state == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && forUser(c.reason) {
		j.again = &again{task: c.task, context: c.context, said: c.said.String()}
		j.counted = false
		return
	}
	j.Status, j.Result.Result, j.DurationMS = c.status(), c.result, c.ended.Sub(c.began).Milliseconds()
}

func (c *child) status() string {
	switch {
	case c.state == a2apb.TaskState_TASK_STATE_COMPLETED:
		return StatusCompleted
	case c.state == a2apb.TaskState_TASK_STATE_CANCELED && c.reason == reasonAwaiting:
		return StatusAwaiting
	case c.state == a2apb.TaskState_TASK_STATE_CANCELED:
		return StatusCanceled
	case c.reason == mesh.ReasonTimeout:
		return StatusTimeout
	}
	return StatusFailed
}

// reopen returns the label of what a call without result dispatched before, so
// that it is not dispatched again; "" if nothing.
func (d *Dispatcher) reopen(call, agent, mission string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.past.open[call] {
		return ""
	}
	at := slices.IndexFunc(d.past.fresh, func(label string) bool {
		x := d.past.children[label].x
		return x.GetAgent() == agent && x.GetText() == mission
	})
	if at < 0 {
		return ""
	}
	label := d.past.fresh[at]
	d.past.fresh = slices.Delete(d.past.fresh, at, at+1)
	delete(d.past.open, call)
	return label
}

// has reports whether something was dispatched under the label.
func (d *Dispatcher) has(label string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.jobs[label] != nil
}

// A transcript is the text of an agent's output, up to maxSaid.
type transcript struct {
	strings.Builder
	left int // bytes that there was no room for
}

// maxSaid is how much of an agent's text is its result, in bytes: what a result may
// have, with room for what is said about it.
const maxSaid = mesh.MaxResult - 2<<10

// result is the text, and how much of it is missing.
func (t *transcript) result() string {
	if t.left == 0 {
		return t.String()
	}
	return t.String() + text.EndMissing(t.left, text.AskForLess)
}

// take adds the text of a piece of output; more says that it goes on with the
// piece before.
func (t *transcript) take(a *a2apb.Artifact, more bool) {
	s := textOf(a.GetParts())
	if t.Len() > 0 && !more && s != "" {
		s = "\n\n" + s
	}
	if room := max(0, maxSaid-t.Len()); len(s) > room || t.left > 0 {
		fits := ""
		if t.left == 0 {
			fits = strings.ToValidUTF8(s[:room], "")
		}
		t.left += len(s) - len(fits)
		s = fits
	}
	t.WriteString(s)
}
