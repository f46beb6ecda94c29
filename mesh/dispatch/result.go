package dispatch

import (
	"cmp"
	"context"
	"unicode/utf8"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// result is what the agent said and, unless it completed, why it did not: its
// question, the failure, or that it was stopped (S0-030, S0-083).
func result(status, said string, last mesh.TaskMoved) string {
	why := mesh.TextOf(last.Message)
	switch status {
	case StatusCompleted:
		if said != "" {
			return said
		}
	case StatusWaiting:
		return why
	case StatusTimeout:
		why = text.AgentTookTooLong()
	case StatusFailed:
		if reason(last) == mesh.ReasonModel {
			why = text.ModelFailed(why)
		}
	case StatusCanceled:
		if last.State != a2apb.TaskState_TASK_STATE_CANCELED || why == "" {
			why = text.AgentCanceled()
		}
	}
	if said == "" || why == "" {
		return said + why
	}
	return said + "\n\n" + why
}

// conclude completes the result of an agent that is done with what the log says: its
// skill calls, its last reply and, if it was stopped or lost, the calls of which nobody
// knows what became: who reads it must not have them made again as if nothing had
// happened. An agent of others has no grant, and nothing of its own in the log (writes).
// ending says that somebody asked for its end.
func (d *Dispatcher) conclude(ctx context.Context, r *Result, said *transcript, last mesh.TaskMoved, writes bool) (ending bool) {
	r.Result = result(r.Status, said.result(), last)
	if !writes {
		return d.heed(ctx, r)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	err := d.inv.Mesh.Lately(ctx, func(did *thread.Actions) {
		if x := did.Execution(r.ExecutionID); x != nil {
			r.ToolCalls, ending = x.SkillCalls, did.Dismissed(x)
			if ended(r, x) {
				r.Result = cmp.Or(x.Result, result(r.Status, said.result(), mesh.TaskMoved{State: x.State}))
			}
		}
		switch r.Status {
		case StatusCompleted:
			r.Result = result(r.Status, said.since(did.LastWords(r.ExecutionID)), last)
		case StatusFailed, StatusTimeout, StatusCanceled:
			r.Result = withOpen(r.Result, unsettled(did.Below(r.ExecutionID)))
		}
	})
	if err != nil {
		d.opts.Logger.WarnContext(ctx, "what an agent did cannot be read", "execution", r.ExecutionID, "err", err)
	}
	return ending
}

// heed has an order end as the log says, if others ended it meanwhile. ending says that
// somebody asked for its end.
func (d *Dispatcher) heed(ctx context.Context, r *Result) (ending bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	err := d.inv.Mesh.Lately(ctx, func(did *thread.Actions) { ending = heeds(r, did) })
	if err != nil {
		d.opts.Logger.WarnContext(ctx, "how an order ended cannot be read", "execution", r.ExecutionID, "err", err)
	}
	return ending
}

// heedLast is heed for an order whose end was settled here and maybe, at the same time, by
// who drives the thread: one of the ends is in the log when it returns.
func (d *Dispatcher) heedLast(ctx context.Context, r *Result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	did, err := d.inv.Mesh.Actions(ctx)
	if err != nil {
		d.opts.Logger.WarnContext(ctx, "how an order ended cannot be read", "execution", r.ExecutionID, "err", err)
		return
	}
	heeds(r, did)
}

// heeds has the result be the end that the log has, if it is another one.
func heeds(r *Result, did *thread.Actions) (ending bool) {
	x := did.Execution(r.ExecutionID)
	if x == nil {
		return false
	}
	if ended(r, x) {
		r.Result = cmp.Or(x.Result, result(r.Status, "", mesh.TaskMoved{State: x.State}))
	}
	return did.Dismissed(x)
}

// ended has the result be the end that the execution has in the log, where others gave it
// another one.
func ended(r *Result, x *thread.Execution) bool {
	is := thread.StatusOf(x.State, x.Reason)
	if !mesh.Terminal(x.State) || is == r.Status {
		return false
	}
	r.Status = is
	return true
}

// unsettled returns those of the skill calls, in short, that have not come back.
// When who made them is over, nobody knows whether they had an effect.
func unsettled(calls []*thread.SkillCall) []string {
	var out []string
	for _, c := range calls {
		if c.Unsettled() {
			out = append(out, mesh.CallSummary(c.Skill, c.Args))
		}
	}
	return out
}

// withOpen adds the calls to a result, which is cut to make room for them.
func withOpen(result string, calls []string) string {
	if len(calls) == 0 {
		return result
	}
	note := text.EffectsUnknown(calls)
	return mesh.Clip(result, mesh.MaxResult-len(note)-2*len("…")) + note
}

// quoted is another agent's words, safe to put into a prompt, in at most that many bytes: as
// much of them as there is room for when they are quoted.
func quoted(s string, most int, remedy text.Remedy) string {
	for room := most; ; {
		q := command.Quote(shortened(s, room, remedy))
		if len(q) <= most || room <= maxNote {
			return q
		}
		room = max(maxNote, min(room-1, room*most/len(q)))
	}
}

// shortened returns a text of at most that many bytes, and of a longer one the
// beginning, with what is missing and what can be done about it.
func shortened(s string, most int, remedy text.Remedy) string {
	if len(s) <= most {
		return s
	}
	room := max(0, most-maxNote)
	for room > 0 && !utf8.RuneStart(s[room]) {
		room--
	}
	return s[:room] + text.BytesMissing(len(s)-room, len(s), remedy)
}

// maxNote is how long the note about what is missing is, at most.
const maxNote = 160
