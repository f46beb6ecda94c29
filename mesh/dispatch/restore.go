package dispatch

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// resume is what is known of an agent's task that goes on.
type resume struct {
	task string // the agent's own id, where it has one
	said string // before it waited
}

// restore takes in what the execution dispatched before, and has those go on
// that wait for the user.
func (d *Dispatcher) restore(ctx context.Context) error {
	did, err := d.inv.Mesh.Actions(ctx)
	if err != nil {
		return mesh.Errorf(mesh.Unavailable, "dispatch.restore", "what was dispatched before cannot be read; try again later: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = newBefore(did)
	var pending []*job
	for _, label := range d.before.labels {
		if x := d.before.children[label]; x != nil {
			j := d.add(orderOf(x), x.ID)
			if restored(j, x, did); j.Status == StatusFailed && !mesh.Terminal(x.State) {
				j.Result.Result = withOpen(text.AgentInterrupted(), unsettled(did.Below(x.ID)))
			}
		} else if o, ok := d.before.orders[label]; ok {
			pending = append(pending, d.add(o.Order, o.id(d.inv.Thread.ID)))
		}
	}
	for _, j := range pending {
		d.link(j)
	}
	d.start()
	return nil
}

// before is what an execution that goes on dispatched, and was to dispatch.
type before struct {
	labels   []string                     // of what was dispatched, or should have been, in order
	children map[string]*thread.Execution // by label: what was dispatched
	orders   map[string]accepted          // by label: what was to be, when others are done
	// Of the last reply of the execution's model: the calls without result, and the
	// labels of what was dispatched since.
	open  map[string]bool
	fresh []string
}

// An accepted order is one that the model was told will be carried out.
type accepted struct {
	Order
	answer string // what the model was told
}

// id is the execution that the model was told of.
func (a accepted) id(thread string) mesh.ExecutionID {
	var answer struct {
		ID mesh.ExecutionID `json:"execution_id"`
	}
	if json.Unmarshal([]byte(a.answer), &answer) == nil {
		if of, ok := answer.ID.ThreadID(); ok && of == thread {
			return answer.ID
		}
	}
	return mesh.NewExecutionID(thread)
}

func newBefore(did *thread.Actions) before {
	b := before{children: map[string]*thread.Execution{}, orders: map[string]accepted{}, open: map[string]bool{}}
	children := did.Dispatched()
	until := func(seq mesh.Seq) { // takes in what was dispatched before the Seq
		for len(children) > 0 && (seq == 0 || children[0].Opened < seq) {
			x := children[0]
			children = children[1:]
			b.children[x.Label] = x
			b.place(x.Label)
			b.fresh = append(b.fresh, x.Label)
		}
	}
	for _, r := range did.Replies {
		until(r.Seq)
		b.replied(r)
	}
	until(0)
	return b
}

func (b *before) replied(r *thread.Reply) {
	b.open, b.fresh = map[string]bool{}, nil
	for _, u := range r.Tools {
		result, ended := r.Results[u.ID]
		if !ended {
			b.open[u.ID] = true
		}
		if u.Name != ToolDispatch {
			continue
		}
		if o, err := parseOrder(u.Arguments); err == nil {
			b.place(o.AgentID)
			if ended && !result.Failed {
				b.orders[o.AgentID] = accepted{o, result.Text}
			}
		}
	}
}

func (b *before) place(label string) {
	if !slices.Contains(b.labels, label) {
		b.labels = append(b.labels, label)
	}
}

// orderOf is what was asked of the execution, whose dependencies are done.
func orderOf(x *thread.Execution) Order {
	return Order{AgentID: x.Label, Name: x.Agent, Mission: x.Text, Skills: x.Skills, MaxToolCalls: x.MaxToolCalls}
}

// restored gives the job what became of its execution.
func restored(j *job, x *thread.Execution, did *thread.Actions) {
	j.issued, j.counted, j.ToolCalls = true, true, x.SkillCalls
	if x.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && forUser(x.Reason) {
		var said transcript
		for _, o := range did.Output(x.ID) {
			said.take(o.Artifact, o.Append)
		}
		j.resume = &resume{task: x.RemoteTask, said: said.String()}
		j.counted = false
		return
	}
	j.Status, j.Result.Result, j.DurationMS = statusOf(x), x.Result, x.Updated.Sub(x.Started).Milliseconds()
}

func statusOf(x *thread.Execution) string {
	switch {
	case x.State == a2apb.TaskState_TASK_STATE_COMPLETED:
		return StatusCompleted
	case x.State == a2apb.TaskState_TASK_STATE_CANCELED && x.Reason == mesh.ReasonAsked:
		return StatusAwaiting
	case x.State == a2apb.TaskState_TASK_STATE_CANCELED:
		return StatusCanceled
	case x.Reason == mesh.ReasonTimeout:
		return StatusTimeout
	}
	return StatusFailed
}

// reopen returns the label of what a call without result dispatched before, so
// that it is not dispatched again; "" if nothing.
func (d *Dispatcher) reopen(call, agent, mission string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.before.open[call] {
		return ""
	}
	at := slices.IndexFunc(d.before.fresh, func(label string) bool {
		x := d.before.children[label]
		return x.Agent == agent && x.Text == mission
	})
	if at < 0 {
		return ""
	}
	label := d.before.fresh[at]
	d.before.fresh = slices.Delete(d.before.fresh, at, at+1)
	delete(d.before.open, call)
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
	left  int // bytes that there was no room for
	parts []part
}

// A part is how much of the text is of which artifact, in the order of the text.
type part struct {
	artifact string
	size     int
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
// piece before. An artifact that begins anew is said in place of what it was, as by
// another process of the agent.
func (t *transcript) take(a *a2apb.Artifact, more bool) {
	id := a.GetArtifactId()
	if !more {
		t.drop(id)
	}
	s := a2a.ArtifactText(a)
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
	if n := len(t.parts); n > 0 && t.parts[n-1].artifact == id {
		t.parts[n-1].size += len(s)
	} else {
		t.parts = append(t.parts, part{id, len(s)})
	}
}

// drop takes the artifact out of the text.
func (t *transcript) drop(id string) {
	if !slices.ContainsFunc(t.parts, func(p part) bool { return p.artifact == id }) {
		return
	}
	all, parts := t.String(), t.parts
	at := len(all)
	for _, p := range parts {
		at -= p.size
	}
	t.Reset()
	t.WriteString(all[:at])
	t.parts = nil
	for _, p := range parts {
		s := all[at : at+p.size]
		if at += p.size; p.artifact == id {
			continue
		}
		if t.Len() == 0 { // it has nothing to be apart from any more
			s = strings.TrimPrefix(s, "\n\n")
		}
		t.WriteString(s)
		t.parts = append(t.parts, part{p.artifact, len(s)})
	}
}
