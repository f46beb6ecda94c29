package skillbuilder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/skill"

	meshv1 "agentmesh/gen/mesh/v1"
)

// trialTime is how long a trial may take, maxTrial how much of what came of it is shown, in
// bytes, and maxReads how many skills it may use.
const (
	trialTime = time.Minute
	maxTrial  = 2000
	maxReads  = 100
)

// trial is what the worker is told.
const trial = `This is a trial run of a new skill. Carry out its page once, with example values of your own for its inputs. You have only skills that read, and cannot change or send anything: where the page needs more, write down the call or the request that you would make, with its values, and go on as if it had worked. Answer with what the skill would tell its user, and before that the list of the calls and requests that you did not make.

`

// try runs the skill that was written once in a dry scope: the worker is granted what only
// reads, so that the mesh refuses every other call, whatever the page says. What came of it
// is for the user to see; it decides nothing.
func (r *run) try(ctx context.Context, t talk) (talk, error) {
	if r.Worker == "" || r.Conns == nil || t.Draft.Source == "" || t.Draft.Trial != "" {
		return t, nil
	}
	there, err := r.inv.Mesh.Skills(ctx)
	if err != nil {
		return t, err
	}
	reads := r.harmless(there)
	if len(reads) == 0 {
		return t, nil
	}
	if err := r.keep(ctx, t); err != nil { // what was written is there also when the trial is cut
		return t, err
	}
	r.say(agent.Progress{Text: "Trying it without any effect…"})
	d := r.dispatcher(ctx)
	defer d.Close()
	o := dispatch.Order{AgentID: fmt.Sprintf("trial-%d", len(d.List())+1), Name: r.Worker, Mission: trial + t.Draft.Source, Skills: reads, Timeout: trialTime}
	if err := errors.Join(d.Dispatch(ctx, []dispatch.Order{o})...); err != nil {
		t.Draft.Trial = "It could not be tried: " + detail(err)
		return t, ctx.Err()
	}
	result, done := d.Done(ctx, o.AgentID)
	if err := ctx.Err(); err != nil {
		return t, err
	}
	text := mesh.Clip(strings.TrimSpace(result.Result), maxTrial)
	switch {
	case !done:
		d.Cancel(o.AgentID)
		t.Draft.Trial = "It could not be tried: it has to ask you something first."
	case result.Status == dispatch.StatusCompleted:
		t.Draft.Trial = "I tried it, without any effect:\n" + quote(text)
	default:
		t.Draft.Trial = "It could not be tried: " + text
	}
	return t, nil
}

// harmless are the skills that a trial may use: those of the mesh that read what it has, and
// ask nobody. Tools of other servers are requests, whatever they say of themselves.
func (r *run) harmless(there []*meshv1.Skill) (names []string) {
	for _, s := range there {
		domain, _, _ := strings.Cut(s.GetName(), ".")
		if s.GetAccess() == string(skill.AccessRead) && s.GetHandler() != "" && !strings.Contains(s.GetHandler(), ":") && domain != "http" && s.GetTenant() == "" &&
			!s.GetRequiresApproval() && s.GetConfirm() == "" && r.inv.Grant.AllowsSkill(s.GetName()) && len(names) < maxReads {
			names = append(names, s.GetName())
		}
	}
	return names
}

// quote marks the lines as those of somebody else.
func quote(text string) string { return "> " + strings.ReplaceAll(text, "\n", "\n> ") }
