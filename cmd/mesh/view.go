package main

import (
	"cmp"
	"fmt"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/cmd/mesh/terminal"
	"agentmesh/mesh"
)

// A view turns the updates of one turn into text, without printing any. In a
// rich view, for a person, notes about who does what stand between the text,
// and speakers are named. In a plain one the text is just what the agents
// said, and notes come apart from it.
type view struct {
	rich bool
	// marks says that what agents say is marked as that, for a terminal that
	// renders it.
	marks bool

	speaker string
	midline bool
	// held are the notes of agents at work that came while a line of the text was open.
	held     []string
	artifact string
	// said is all text of this turn, by which a status message that repeats
	// it is known.
	said strings.Builder
	// work has an entry for each execution seen.
	work    map[string]workLine
	step    string
	settled bool
}

// workLine is what was last shown of an execution.
type workLine struct {
	depth int
	shown string
}

func newView(rich bool) *view { return &view{rich: rich, work: map[string]workLine{}} }

// show returns what u adds to the text and to the notes. Notes are whole
// lines. In a rich view all is text.
func (v *view) show(u update) (text, note string) {
	switch {
	case u.lost && u.resumed:
		return v.note("· connection lost, going on where it broke")
	case u.lost:
		return v.note("· no answer, trying again")
	case u.artifact != "":
		fresh := u.begins || u.artifact != v.artifact
		v.artifact = u.artifact
		return v.say(u.agent, u.text, fresh), ""
	case u.snapshot:
		return "", ""
	case u.execution != nil:
		return v.aside(v.progress(u.execution, u.task))
	case u.handoff != nil:
		v.speaker, v.step = "", ""
		return v.note(handoffLine(u.handoff, u.text))
	case u.returned != nil:
		v.speaker, v.step = "", ""
		return v.note(returnLine(u.returned))
	}
	return v.status(u)
}

// end returns what closes the turn: how it ended, where no update said so,
// and the end of an open line.
func (v *view) end(state mesh.TaskState) (text, note string) {
	if !v.settled {
		text, note = v.status(update{state: state})
	}
	return text + v.newline(), note
}

// status shows a change of state or a word about it, and how far the agent's
// workflow is.
func (v *view) status(u update) (text, note string) {
	if mesh.Terminal(u.state) {
		v.settled = true
	}
	line, said := "", ""
	if step := stepLine(u); step != "" && step != v.step {
		v.step = step
		// Some agents say it in words as well: once is enough.
		if counted, _, _ := strings.Cut(step, " ("); !strings.HasPrefix(strings.ToLower(u.text), counted) {
			line = "· " + withText(speakerName(u.agent), step)
		}
	}
	switch u.state {
	case a2apb.TaskState_TASK_STATE_COMPLETED, a2apb.TaskState_TASK_STATE_INPUT_REQUIRED:
		if !strings.HasSuffix(strings.TrimSpace(v.said.String()), strings.TrimSpace(u.text)) {
			said = u.text
		}
	case a2apb.TaskState_TASK_STATE_FAILED:
		line = withText("✗ failed", cmp.Or(u.text, u.reason))
	case a2apb.TaskState_TASK_STATE_REJECTED:
		line = withText("✗ rejected", u.text)
	case a2apb.TaskState_TASK_STATE_CANCELED:
		if line = withText("■ cancelled", why(u.text)); u.reason == mesh.ReasonHandedOff && u.text != "" {
			line = "· " + oneLine(u.text) // the user left, and nothing went wrong
		}
	case a2apb.TaskState_TASK_STATE_AUTH_REQUIRED:
		line = withText("! the agent needs you to sign in", u.text)
	default:
		if u.text != "" {
			line = strings.TrimPrefix(line+"\n· "+oneLine(u.text), "\n")
		}
	}
	text, note = v.note(line)
	return text + v.say(u.agent, said, true), note
}

// say adds text that an agent says; fresh text begins on a line of its own.
func (v *view) say(agent, text string, fresh bool) string {
	if text == "" {
		return ""
	}
	v.said.WriteString(text)
	var b strings.Builder
	changed := agent != "" && agent != v.speaker
	if fresh || changed {
		b.WriteString(v.newline())
	}
	if v.rich {
		if text = printable(text); text == "" {
			return b.String()
		}
		if changed || v.speaker == "" {
			b.WriteString(speakerName(agent) + " › ")
		}
	}
	if agent != "" {
		v.speaker = agent
	} else if v.speaker == "" {
		v.speaker = speakerName("")
	}
	if i := strings.LastIndex(text, "\n\n"); i >= 0 && len(v.held) > 0 {
		paragraphs := text[:i+len("\n\n")]
		b.WriteString(v.marked(paragraphs) + v.release())
		text = text[len(paragraphs):]
	}
	b.WriteString(v.marked(text))
	if v.midline = text != "" && !strings.HasSuffix(text, "\n"); !v.midline {
		b.WriteString(v.release())
	}
	return b.String()
}

func (v *view) marked(text string) string {
	if v.marks && text != "" {
		return terminal.Said(text)
	}
	return text
}

// aside places a line about an agent at work. It does not cut a sentence in two: where one is
// being said, the line stands after the paragraph.
func (v *view) aside(line string) (text, note string) {
	if line != "" && v.rich && v.midline {
		v.held = append(v.held, line)
		return "", ""
	}
	return v.note(line)
}

// release returns the lines that waited for the end of one.
func (v *view) release() string {
	var b strings.Builder
	for _, line := range v.held {
		b.WriteString(line + "\n")
	}
	v.held = nil
	return b.String()
}

// note places lines that nobody said.
func (v *view) note(lines string) (text, note string) {
	if lines == "" {
		return "", ""
	}
	if v.rich {
		return v.newline() + lines + "\n", ""
	}
	return "", lines + "\n"
}

// newline closes an open line.
func (v *view) newline() string {
	if !v.midline {
		return ""
	}
	v.midline = false
	return "\n" + v.release()
}

// progress returns the line about an execution, or "" when it says nothing
// new. What an execution was asked to do stands below who asked.
func (v *view) progress(e *executionNote, task string) string {
	if e.parent == task && task != "" {
		return "" // the agent that speaks: its task is the user's
	}
	was, known := v.work[e.id]
	if !known {
		if parent, ok := v.work[e.parent]; ok {
			was.depth = parent.depth + 1
		}
	}
	name := cmp.Or(e.agent, e.label)
	if e.label != "" && e.label != e.agent && e.agent != "" {
		name = e.label + " (" + e.agent + ")"
	}
	name = oneLine(name)
	line := ""
	switch e.state {
	case "started":
		line = "· " + withText(name, clip(cmp.Or(e.text, "started"), 120))
	case "working":
		if e.text != "" {
			line = "· " + withText(name, clip(e.text, 120))
		}
	case "input_required":
		// What it asks, whoever has the stream asks the user, if need be.
		line = "· " + name + " waits for an answer"
	case "completed":
		line = "✓ " + withText(name+" done", clip(e.text, 120))
	case "skipped":
		line = "✗ " + withText(name+" skipped", clip(e.text, 240))
	case "failed":
		line = "✗ " + withText(name+" failed", clip(e.text, 240))
	case "canceled":
		line = "■ " + withText(name+" cancelled", clip(e.text, 120))
	}
	if line == "" || line == was.shown {
		return ""
	}
	was.shown = line
	v.work[e.id] = was
	return strings.Repeat("  ", was.depth) + line
}

// stepLine returns how far a workflow is, as "step 2 of 5 (naming)", or "".
func stepLine(u update) string {
	var line string
	switch {
	case u.step > 0 && u.steps > 0:
		line = fmt.Sprintf("step %d of %d", u.step, u.steps)
	case u.step > 0:
		line = fmt.Sprintf("step %d", u.step)
	default:
		return ""
	}
	if u.stage != "" {
		line += " (" + strings.ReplaceAll(oneLine(u.stage), "_", " ") + ")"
	}
	return line
}

func handoffLine(h *handoffNote, text string) string {
	text = oneLine(cmp.Or(text, "Connecting you with "+h.to+"..."))
	if h.reason != "" {
		text += " (" + oneLine(h.reason) + ")"
	}
	return "→ " + text
}

func returnLine(r *returnNote) string {
	how := "back from " + speakerName(r.from)
	if r.outcome != "" && r.outcome != string(mesh.HandoffCompleted) {
		how += " (" + oneLine(r.outcome) + ")"
	}
	return "← " + withText(how, r.summary)
}

// why is the text of a cancelled task, unless it says no more than that.
func why(text string) string {
	if strings.EqualFold(strings.TrimRight(strings.TrimSpace(text), "."), "canceled") {
		return ""
	}
	return text
}

// speakerName names who speaks where the mesh does not tell.
func speakerName(agent string) string {
	if agent == "" {
		return "agent"
	}
	return oneLine(agent)
}

// withText returns "head: text", or head alone.
func withText(head, text string) string {
	if text = oneLine(text); text == "" {
		return head
	}
	return head + ": " + text
}
