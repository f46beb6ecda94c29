package node

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/api"
	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/runs"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/mcp"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// openSkills reads the skills.
func (n *node) openSkills() (err error) {
	n.skills, err = skill.OpenLibrary(skill.LibraryOptions{
		Folders: []string{n.skillsDir()}, Shared: n.opts.Skills, TenantDir: n.cfg.TenantSkills, Handlers: n.opts.Handlers, Logger: n.logger, Alarms: n.alarms,
	})
	return err
}

// buildRuns makes what runs skills on request and by schedule.
func (n *node) buildRuns() (err error) {
	if n.runner, err = runs.New(runs.Config{Edge: n.edge, Threads: n.states, KV: n.kv, Agent: n.opts.Runner, ReadByRole: n.audit.Read}); err != nil {
		return err
	}
	if s := n.cfg.Schedules; !s.Off {
		n.schedules, err = runs.NewScheduler(runs.SchedulerConfig{
			Runner: n.runner, Library: n.skills, Tenant: mesh.TenantID(s.Tenant), Owner: api.NewSkillOwners(n.kv).Of, User: s.User, CatchUp: s.CatchUp, Weight: func(t mesh.TenantID) int { return s.Weights[string(t)] }, Now: n.opts.Now, Logger: n.logger,
		})
	}
	return err
}

// startSchedules runs what is due from here on; stop waits for its end, and may
// be called again.
func (n *node) startSchedules(ctx context.Context) (stop func()) {
	if n.schedules == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // stop waits
		defer close(done)
		if err := n.schedules.Run(ctx); err != nil {
			n.logger.ErrorContext(ctx, "schedules do not run", "err", err)
		}
	}()
	return func() { cancel(); <-done }
}

// mcpHandler offers the skills over MCP, or is nil.
func (n *node) mcpHandler(services rpc.Conn) http.Handler {
	if !n.cfg.MCP.Offer {
		return nil
	}
	client := meshv1.NewSkillServiceClient(rest.Conn(services))
	return mcp.NewHandler(offered{client}, mcp.HandlerOptions{Version: n.opts.Version, Logger: n.logger})
}

// offered is the skills as MCP clients call them: through the services, as
// whoever the request says it comes from.
type offered struct{ skills meshv1.SkillServiceClient }

// List implements [mcp.Backend].
func (o offered) List(ctx context.Context) ([]*skill.Skill, error) {
	return o.all(ctx, &meshv1.ListSkillsRequest{})
}

// Complete implements [mcp.Backend].
func (o offered) Complete(ctx context.Context, names []string) ([]*skill.Skill, error) {
	return o.all(ctx, &meshv1.ListSkillsRequest{Patterns: names, WithSource: true})
}

// all returns the skills on all pages.
func (o offered) all(ctx context.Context, req *meshv1.ListSkillsRequest) ([]*skill.Skill, error) {
	var all []*skill.Skill
	for {
		res, err := o.skills.ListSkills(ctx, req)
		if err != nil {
			return nil, rpc.FromStatus(err)
		}
		for _, s := range res.GetSkills() {
			all = append(all, skilltools.SkillOf(s))
		}
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// Run implements [mcp.Backend].
func (o offered) Run(ctx context.Context, name string, args map[string]any, requestID string) (*mcp.Outcome, error) {
	arguments, err := structpb.NewStruct(args)
	if err != nil {
		return nil, mesh.InvalidField("node.mcp", "arguments", "have no JSON form: %v", err)
	}
	res, err := o.skills.RunSkill(ctx, &meshv1.RunSkillRequest{Name: name, Arguments: arguments, RequestId: requestID, Source: mesh.SourceMCP})
	if err != nil {
		return nil, rpc.FromStatus(err)
	}
	out := &mcp.Outcome{Text: res.GetContent(), Files: res.GetFiles(), Metadata: res.GetMetadata().AsMap(), Task: res.GetTaskId()}
	switch {
	case mesh.Interrupted(res.GetState()):
		out.Asks, out.Text = res.GetContent(), ""
	default:
		out.Failed = res.GetState() != a2apb.TaskState_TASK_STATE_COMPLETED
	}
	return out, nil
}
