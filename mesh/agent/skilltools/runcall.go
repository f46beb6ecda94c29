package skilltools

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// RunCall runs the skill call of an invocation without a model, and yields what
// came of it: its text, and as data its files and metadata. A call that needs
// the user's approval asks; a call that fails is the run's failure. A call that
// the log has the end of is not made again.
//
// A template has to be carried out: the page is for who does that, and nil where nothing is left
// to do.
func (t *Tools) RunCall(ctx context.Context, c *agent.SkillCall, yield func(agent.Output, error) bool) *llm.Page {
	t.asked = c
	r, err := t.returned(ctx)
	if err != nil {
		yield(nil, mesh.Wrap("skilltools.RunCall", err))
		return nil
	}
	if r == nil {
		var listens bool
		r, listens = t.watched(ctx, &skill.Call{ID: runCall, Skill: c.Skill, Args: c.Arguments, Source: c.Source}, yield)
		if !listens {
			return nil
		}
	}
	switch {
	case r.Ask != "":
		yield(agent.AskAbout([]mesh.Question{{Execution: t.inv.Execution, Call: runCall, Text: r.Ask}}, nil), nil)
		return nil
	case r.Failed():
		e := &mesh.Error{Code: mesh.Precondition, Op: "skilltools.RunCall", Err: r.Err}
		if errors.As(r.Err, &e) {
			e = &mesh.Error{Code: e.Code, Op: "skilltools.RunCall", Reason: e.Reason, Limit: e.Limit, Err: r.Err}
		}
		e.Detail = r.Content
		if trip := limit.TripOf(r.Err); trip != nil { // nobody is told what a model is to do
			e.Detail = agent.Report{Limit: trip.Limit, Most: trip.Most, Free: trip.Free}.Why()
		}
		yield(nil, e)
		return nil
	case r.Template():
		args := ""
		if len(c.Arguments) > 0 {
			args = command.JSON(c.Arguments)
		}
		return &llm.Page{Skill: c.Skill, Text: text.CarryOut(c.Skill, strings.TrimSpace(r.Content), args), Metadata: metadata(t.withSteps(ctx, r))}
	}
	listens := yield(agent.Text{Text: r.Whole()}, nil)
	if listens && (len(r.Files) > 0 || len(r.Metadata) > 0) {
		listens = yield(agent.Data{Name: ResultData, Value: map[string]any{"files": nonNil(r.Files), "metadata": r.Metadata}}, nil)
	}
	for _, p := range r.Parts {
		listens = listens && yield(agent.Artifact{Artifact: &a2apb.Artifact{Name: p.GetFilename(), Parts: []*a2apb.Part{p}}}, nil)
	}
	return nil
}

// Bounds of what is told of a call's progress: each is an event of the log.
const (
	pace      = 100 * time.Millisecond // between two
	mostSteps = 200
)

// watched makes the call, and yields how far it is; false if nobody listens any more.
func (t *Tools) watched(ctx context.Context, call *skill.Call, yield func(agent.Output, error) bool) (r *skill.Result, listens bool) {
	steps, done := make(chan skill.Progress, 1), make(chan *skill.Result, 1)
	env := *t.env
	env.Progress = func(p skill.Progress) {
		select {
		case steps <- p:
		default: // one is on its way
		}
	}
	go func() { done <- t.executor.Execute(ctx, call, &env) }() // received below
	listens = true
	var last time.Time
	told := 0
	tell := func(p skill.Progress) {
		if now := time.Now(); listens && told < mostSteps && now.Sub(last) >= pace {
			last, told = now, told+1
			listens = yield(agent.Progress{Text: p.Text, Step: steplike(p.Done), Steps: steplike(p.Total)}, nil)
		}
	}
	for {
		select {
		case p := <-steps:
			tell(p)
		case r = <-done:
			select {
			case p := <-steps:
				tell(p)
			default:
			}
			return r, listens
		}
	}
}

// steplike is n as a number of steps, which it need not be; 0 if it is none.
func steplike(n float64) int {
	if n >= 1 && n <= math.MaxInt32 {
		return int(n)
	}
	return 0
}

// ResultData is the name of the artifact with the files and the metadata of a
// skill that was run without a model.
const ResultData = "skill result"

// returned is what the log says that came of the call; nil if nothing did yet.
func (t *Tools) returned(ctx context.Context) (*skill.Result, error) {
	did, err := t.inv.Mesh.Actions(ctx)
	if err != nil {
		return nil, err
	}
	c := did.Call(runCall)
	if c == nil || c.Returned == 0 {
		return nil, nil
	}
	r := &skill.Result{Status: skill.StatusOK, Content: c.Content, Files: c.Files}
	if c.Status == thread.CallFailed {
		r.Status, r.Content = skill.StatusError, c.Error
	}
	if c.Metadata != "" {
		if err := json.Unmarshal([]byte(c.Metadata), &r.Metadata); err != nil {
			return nil, mesh.Errorf(mesh.Unknown, "skilltools.returned", "The result of the skill cannot be read: %w", err)
		}
	}
	return r, nil
}

// Progress tells which skill a call uses, whatever face it came by.
func (t *Tools) Progress(use mesh.ToolUse) (agent.Progress, bool) {
	var args struct {
		Skill string `json:"skill"`
	}
	name := ""
	switch {
	case use.Name == llm.CommandTool:
		c, err := command.Parse(commandLine(use))
		if err != nil || c.Discovery() {
			return agent.Progress{}, false
		}
		name = c.Skill
	case use.Name == UseSkill:
		if json.Unmarshal([]byte(use.Arguments), &args) != nil {
			return agent.Progress{}, false // the call fails too
		}
		name = args.Skill
	case t.o.Face == FaceDirect:
		name = t.skillOf(use.Name)
	}
	if name == "" {
		return agent.Progress{}, false
	}
	return agent.Progress{Text: "Using " + name + "…"}, true
}
