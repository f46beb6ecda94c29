package dispatch

import (
	"context"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// resume is what is known of an agent's task that goes on.
type resume struct {
	task     string      // the agent's own id, where it has one
	instance string      // the process of the agent that has it, or ""
	said     []mesh.Body // what the log has of it
	// continued says that it did not wait: its work was cut off. Then message is what it
	// was dispatched with, answers says that it went on since with the user's message, and
	// updates counts its artifact updates.
	continued bool
	message   *a2apb.Message
	answers   bool
	updates   int64
}

// restore takes in what the execution dispatched before: those that wait for the user,
// or were at work, are to go on. It returns how long the run worked before it was cut off.
func (d *Dispatcher) restore(ctx context.Context) (worked time.Duration, err error) {
	did, err := d.inv.Mesh.Actions(ctx)
	if err != nil {
		return 0, mesh.Errorf(mesh.Unavailable, "dispatch.restore", "what was dispatched before cannot be read; try again later: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	label := map[mesh.ExecutionID]string{}
	var pending []*job
	for _, x := range did.Dispatched() {
		label[x.ID] = x.Label
	}
	for _, x := range did.Dispatched() {
		o := orderOf(x, label)
		o.Name = d.opts.called(x.Agent)
		j := new(job)
		d.fill(j, o, x.ID)
		j.exec.Traceparent = x.Traceparent // its agent goes on in the trace in which it was called
		d.add(j)
		if x.Waits() {
			j.exec.DependsOn, j.wave = x.DependsOn, x.Accepted.Wave
			pending = append(pending, j)
			continue
		}
		switch restored(j, x, did); {
		case x.WaitsForHelp():
			d.restoreAsk(j, x, did)
		case j.Terminal():
			d.over(j)
		}
		d.queue(j)
	}
	for _, j := range d.order {
		j.resolve(func(id string) *job { return d.jobs[id] })
	}
	for _, j := range pending {
		d.link(j)
	}
	if x := did.Execution(d.inv.Execution); x != nil {
		worked = x.Worked
	}
	return worked, nil
}

// orderOf is what was asked of the execution; labels are those of what came before it.
func orderOf(x *thread.Execution, labels map[mesh.ExecutionID]string) Order {
	o := Order{AgentID: x.Label, Mission: x.Text, Skills: x.Skills, MaxToolCalls: x.MaxToolCalls, Budget: x.Budget, Dry: x.Dry}
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
	reply := did.HelpAnswer(x.ID)
	j.answered, _ = mesh.HelpAnswerOf(reply.GetMetadata())
	if x.WaitsForHelp() {
		return
	}
	if waits := x.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && forUser(x.Reason); waits || !mesh.Terminal(x.State) {
		if j.goOn(x, did, !waits); !waits {
			j.reply = reply
		}
		return
	}
	j.Status, j.Result.Result, j.DurationMS = thread.StatusOf(x.State, x.Reason), x.Result, x.Updated.Sub(x.Started).Milliseconds()
}

// ordered returns the label of what a call of the model ordered before, so that it does
// not order it again; "" if nothing.
func (d *Dispatcher) ordered(call string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[call]
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
	if left := t.left(); left > 0 {
		return t.String() + text.EndMissing(left, text.AskForLess)
	}
	return t.String()
}

func (t *transcript) left() (bytes int) {
	for _, s := range t.said {
		bytes += s.left
	}
	return bytes
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
	case t.left() > 0: // it is in what there was no room for
		return shortened(reply, maxSaid, text.AskForLess)
	}
	return all
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
