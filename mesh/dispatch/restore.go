package dispatch

import (
	"context"
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
	label := map[mesh.ExecutionID]string{}
	var pending []*job
	for _, x := range did.Dispatched() {
		label[x.ID] = x.Label
	}
	for _, x := range did.Dispatched() {
		j := d.job(orderOf(x, label), x.ID)
		d.add(j)
		if x.Waits() {
			j.exec.DependsOn, j.wave = x.DependsOn, x.Accepted.Wave
			pending = append(pending, j)
			continue
		}
		if restored(j, x, did); j.Status == StatusFailed && !mesh.Terminal(x.State) {
			j.Result.Result = withOpen(text.AgentInterrupted(), unsettled(did.Below(x.ID)))
			d.settle(ctx, j, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_FAILED, Reason: mesh.ReasonInterrupted}, j.Result)
		}
		if j.Terminal() {
			d.over(j)
		}
	}
	for _, j := range pending {
		d.link(j)
	}
	d.start()
	return nil
}

// orderOf is what was asked of the execution; labels are those of what came before it.
func orderOf(x *thread.Execution, labels map[mesh.ExecutionID]string) Order {
	o := Order{AgentID: x.Label, Name: x.Agent, Mission: x.Text, Skills: x.Skills, MaxToolCalls: x.MaxToolCalls, Budget: x.Budget}
	if a := x.Accepted; a != nil {
		o.Context, o.Call, o.Answers = a.Context, a.Call, a.Answers
	}
	for _, id := range x.DependsOn {
		o.DependsOn = append(o.DependsOn, labels[id])
	}
	return o
}

// restored gives the job what became of its execution.
func restored(j *job, x *thread.Execution, did *thread.Actions) {
	j.told, j.ToolCalls, j.wave = x.Delivery != "", x.SkillCalls, 1
	if x.Accepted != nil {
		j.wave = x.Accepted.Wave
	}
	if x.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && forUser(x.Reason) {
		var said transcript
		for _, o := range did.Output(x.ID) {
			said.take(o.Artifact, o.Append)
		}
		j.resume = &resume{task: x.RemoteTask, said: said.String()}
		return
	}
	j.Status, j.Result.Result, j.DurationMS = thread.StatusOf(x.State, x.Reason), x.Result, x.Updated.Sub(x.Started).Milliseconds()
}

// ordered returns the label of what a call of the model ordered before, so that it does
// not order it again; "" if nothing.
func (d *Dispatcher) ordered(call string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byCall[call]
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

// since is the text from the agent's last reply on, or all of it where that is not known.
func (t *transcript) since(reply string) string {
	reply = strings.TrimSpace(reply)
	all := t.result()
	switch at := strings.LastIndex(all, reply); {
	case reply == "":
		return all
	case at >= 0:
		return all[at:]
	case t.left > 0: // it is in what there was no room for
		return shortened(reply, maxSaid, text.AskForLess)
	}
	return all
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
