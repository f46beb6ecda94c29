package skillbuilder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/thread"

	meshv1 "agentmesh/gen/mesh/v1"
)

// trialTime is how long a trial may take. maxTrial is how much of what came of it is shown, and
// maxShown how much of one call, in bytes; maxTried is how many commands are tried.
const (
	trialTime = time.Minute
	maxTrial  = 2000
	maxShown  = 600
	maxTried  = 5
)

// trial is what the worker is told.
const trial = `This is a dry run of a new skill. Carry out its page once, with example values of your own for its inputs. Make all the calls that it needs: those that would change or send something are noted, and not made; go on as if they had worked. Answer with what the skill would tell its user.

`

// What is said before what came of a trial, and where there was none.
const (
	wasTried   = "I tried it, without any effect:\n"
	notTried   = "It could not be tried: "
	neverTried = "It was not tried: "
)

// try runs the skill that was written once in a dry execution: the mesh itself has no call made
// that would have an effect, and notes it, whatever the page or who carries it out does. What
// the log has of it is for the user to see; it decides nothing.
func (r *run) try(ctx context.Context, t talk) (talk, error) {
	if t.Draft.Source == "" || t.Draft.Trial != "" {
		return t, nil
	}
	there, err := r.inv.Mesh.Skills(ctx)
	if err != nil {
		return t, err
	}
	orders, why := r.trials(t.Draft, there)
	if why != "" {
		t.Draft.Trial = neverTried + why
		return t, nil
	}
	t.Draft.Trial = neverTried + "the trial was cut off."
	if err := r.keep(ctx, t); err != nil { // what was written is there also when the trial is cut
		return t, err
	}
	r.say(agent.Progress{Text: "Trying it without any effect…"})
	d := r.dispatcher(ctx)
	defer d.Close()
	for i := range orders {
		o := &orders[i]
		o.AgentID, o.Name, o.Dry, o.Timeout = fmt.Sprintf("trial-%d", len(d.List())+i+1), r.Worker, true, trialTime
	}
	if err := errors.Join(d.Dispatch(ctx, orders)...); err != nil {
		t.Draft.Trial = notTried + detail(err)
		return t, ctx.Err()
	}
	var told strings.Builder
	if !r.WorkerThinks {
		told.WriteString(wasTried)
	}
	for _, o := range orders {
		result, done := d.Done(ctx, o.AgentID)
		if err := ctx.Err(); err != nil {
			return t, err
		}
		if !done {
			d.Cancel(o.AgentID)
		}
		calls, err := r.calls(ctx, result.ExecutionID)
		if err != nil {
			return t, err
		}
		told.WriteString(tell(o, result, done, calls))
	}
	if left := len(t.Draft.Steps) - len(orders); !r.WorkerThinks && left > 0 {
		fmt.Fprintf(&told, "Steps that were not tried, as without a language model only commands of skills are, and at most %d: %d.\n", maxTried, left)
	}
	t.Draft.Trial = mesh.Clip(strings.TrimRight(told.String(), "\n"), maxTrial)
	return t, nil
}

// trials are what is tried of the skill: its page, where the worker has a model; else those of
// its steps that are commands, which need none. why says why nothing can be.
func (r *run) trials(d draft, there []*meshv1.Skill) (orders []dispatch.Order, why string) {
	switch {
	case r.Worker == "" || r.Conns == nil:
		return nil, "there is no agent here that carries out skills."
	case r.WorkerThinks:
		return []dispatch.Order{{Mission: trial + d.Source}}, ""
	}
	for _, step := range d.Steps {
		if c := commandIn(step, there); c != nil && r.inv.Grant.AllowsSkill(c.Skill) && len(orders) < maxTried {
			orders = append(orders, dispatch.Order{Mission: step, Skills: []string{c.Skill}, SkillCall: c})
		}
	}
	if len(orders) == 0 {
		return nil, "there is no language model here to carry it out, and none of its steps is a command that can be tried without one, such as: tasks.search --status overdue."
	}
	return orders, ""
}

// commandIn is the call of a skill that is code which the step has in the language of commands,
// from the skill's name to its end; nil if it has none.
func commandIn(step string, there []*meshv1.Skill) *mesh.SkillCall {
	words := strings.Fields(step)
	for i, w := range words {
		name := strings.ToLower(w)
		for _, s := range there {
			if s.GetName() != name || s.GetHandler() == "" {
				continue
			}
			_, rest, _ := strings.Cut(step, words[i])
			c, _ := skilltools.CommandOf(name+strings.TrimRight(rest, ".;"), skilltools.SkillOf(s))
			return c
		}
	}
	return nil
}

// calls are those of the execution, as the log has them.
func (r *run) calls(ctx context.Context, of mesh.ExecutionID) (calls []*thread.SkillCall, err error) {
	did, err := r.inv.Mesh.Actions(ctx)
	if err != nil {
		return nil, err
	}
	return did.Below(of), nil
}

// tell says what came of a trial: what its model answered, and each call that it came to.
func tell(o dispatch.Order, result dispatch.Result, done bool, calls []*thread.SkillCall) string {
	var b strings.Builder
	text := mesh.Clip(strings.TrimSpace(result.Result), maxTrial/2)
	switch {
	case !done:
		b.WriteString(notTried + "it has to ask you something first.\n")
	case result.Status != dispatch.StatusCompleted && len(calls) == 0, result.Status != dispatch.StatusCompleted && o.SkillCall == nil:
		b.WriteString(notTried + text + "\n")
	case o.SkillCall == nil:
		b.WriteString(wasTried + quote(text) + "\n")
	}
	for _, c := range calls {
		b.WriteString(called(c, o.SkillCall != nil))
	}
	return b.String()
}

// called is a call of a trial for the user; whole says that what was read is shown too.
func called(c *thread.SkillCall, whole bool) string {
	line := quote(mesh.Clip(c.Skill+" "+c.Args, maxShown)) + "\n"
	switch {
	case c.Status == thread.CallFailed:
		return "Failed:\n" + line + quote(mesh.Clip(c.Error, maxShown)) + "\n"
	case c.Status != thread.CallNotMade && whole:
		return "Made, as it only reads:\n" + line + quote(mesh.Clip(c.Content, maxShown)) + "\n"
	case c.Status != thread.CallNotMade:
		return "Made, as it only reads:\n" + line
	}
	if request := requestOf(c); request != "" {
		line += quote(mesh.Clip(request, maxShown)) + "\n"
	}
	return "Not made:\n" + line
}

// requestOf is what the call that was not made would have sent, without secrets; "" where
// that is not known.
func requestOf(c *thread.SkillCall) string {
	var md map[string]any
	if json.Unmarshal([]byte(c.Metadata), &md) != nil {
		return ""
	}
	request, _ := md[skill.KeyRequest].(string)
	return strings.TrimSpace(request)
}

// quote marks the lines as those of somebody else.
func quote(text string) string { return "> " + strings.ReplaceAll(text, "\n", "\n> ") }
