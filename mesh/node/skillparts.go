package node

import (
	"context"
	"fmt"

	"agentmesh/mesh"
	"agentmesh/mesh/api"
	mcptools "agentmesh/mesh/bind/mcp"
	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/runs"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/mcp"
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
	if n.runner, err = runs.New(runs.Config{Edge: standing{n.edge, n.erasing}, Threads: n.states, KV: n.kv, Agent: n.opts.Runner, ReadByRole: n.audit.Read}); err != nil {
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
func (n *node) mcpHandler(services rpc.Conn) *mcp.Handler {
	if !n.cfg.MCP.Offer {
		return nil
	}
	conn := rest.Conn(services)
	caller := func(ctx context.Context) (string, error) {
		p, err := conn.Known(ctx)
		who := fmt.Sprintf("%q %q", p.Tenant, p.User)
		if p.Grant != nil { // an agent is not its user
			who += fmt.Sprintf(" %q", p.Grant.Execution)
		}
		return who, err
	}
	return mcp.NewHandler(mcptools.InProcess(conn), caller, mcp.HandlerOptions{Version: n.opts.Version, Logger: n.logger})
}
