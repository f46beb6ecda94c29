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
	task string      // the agent's own id, where it has one
	said []mesh.Body // what the log has of it
	// continued says that it did not wait: its work was cut off. Then message is what it
	// was dispatched with, answers says that it went on since with the user's message, and
	// updates counts its artifact updates.
	continued bool
	message   *a2apb.Message
	answers   bool
	updates   int64
}

// restore takes in what the execution dispatched before, and has those go on
// that wait for the user, or were at work.
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
			restored(d.add(orderOf(x), x.ID), x, did)
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
	if waits := x.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && forUser(x.Reason); waits || !mesh.Terminal(x.State) {
		j.goOn(x, did, !waits)
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
	said []*saying
}

// A saying is the text of one artifact.
type saying struct {
	id   string
	text strings.Builder
	left int // bytes that there was no room for
}

// maxSaid is how much of an agent's text is its result, in bytes: what a result may
// have, with room for what is said about it.
const maxSaid = mesh.MaxResult - 2<<10

// result is the text, and how much of it is missing.
func (t *transcript) result() string {
	left := 0
	for _, s := range t.said {
		left += s.left
	}
	if left == 0 {
		return t.String()
	}
	return t.String() + text.EndMissing(left, text.AskForLess)
}

// String is the text of all artifacts.
func (t *transcript) String() string {
	var all []string
	for _, s := range t.said {
		if s.text.Len() > 0 {
			all = append(all, s.text.String())
		}
	}
	return strings.Join(all, paragraph)
}

const paragraph = "\n\n"

// take adds the text of a piece of output; more says that it goes on with what the
// artifact had before, which else it replaces.
func (t *transcript) take(a *a2apb.Artifact, more bool) {
	words, room, full := a2a.ArtifactText(a), maxSaid+len(paragraph), false
	var at *saying
	for _, s := range t.said {
		if s.id == a.GetArtifactId() {
			if at = s; !more {
				s.text.Reset()
				s.left = 0
			}
		}
		room -= s.text.Len() + len(paragraph)
		full = full || s.left > 0
	}
	if at == nil {
		at = &saying{id: a.GetArtifactId()}
		t.said, room = append(t.said, at), room-len(paragraph)
	}
	if room = max(0, room); len(words) > room || full {
		fits := ""
		if !full {
			fits = strings.ToValidUTF8(words[:room], "")
		}
		at.left += len(words) - len(fits)
		words = fits
	}
	at.text.WriteString(words)
}

// hear takes in what the log has of the agent.
func (t *transcript) hear(said []mesh.Body) {
	for _, b := range said {
		if o, ok := b.(mesh.ArtifactAppended); ok {
			t.take(o.Artifact, o.Append)
		}
	}
}
