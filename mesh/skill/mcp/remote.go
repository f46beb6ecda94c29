package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// pace is the least time between two listings of a server's tools.
const pace = 200 * time.Millisecond

// A remote is one server: its connection, if there is one, and its tools.
type remote struct {
	name      string
	dialer    dialer
	retry     time.Duration
	refresh   time.Duration
	maxResult int
	hide      *strings.Replacer
	logger    *slog.Logger
	// check is told when a call has failed in a way that may mean that the
	// server is gone.
	check chan struct{}

	mu      sync.RWMutex
	session *session        // nil while there is no connection
	tools   map[string]tool // by name of the skill, as of the last listing
}

// A tool is one of a server's.
type tool struct {
	name    string
	promise *output // nil if it promises nothing
}

func newRemote(name string, s Server, o Options) *remote {
	hide := s.hidden()
	logger := slog.New(discreet{o.Logger.Handler(), hide}).With("server", name)
	return &remote{
		name: name, dialer: dialer{server: s, version: o.Version, grace: goodOrder, logger: logger},
		retry: o.Retry, refresh: o.Refresh, maxResult: o.MaxResult, logger: logger, hide: hide, check: make(chan struct{}, 1),
	}
}

// run keeps the server connected until ctx ends.
func (r *remote) run(ctx context.Context, base http.RoundTripper, to Sink) {
	offered := map[string]*skill.Skill{}
	wait, legacy := r.retry, false
	for {
		s, err := r.dialer.dial(ctx, base, legacy)
		if err != nil {
			legacy = !legacy
		} else {
			began := time.Now()
			err = r.serve(ctx, s, to, offered)
			if time.Since(began) > longestRetry {
				wait = r.retry
			}
		}
		if ctx.Err() != nil {
			return
		}
		// Half of the pause is by chance, so that not all come back at once.
		pause := wait/2 + rand.N(wait/2+1) //nolint:gosec // needs no secrecy
		r.logger.WarnContext(ctx, "mcp server is not connected; trying again", "err", line(err.Error(), maxSaid), "in", pause)
		if !sleep(ctx, pause) {
			return
		}
		wait = min(2*wait, longestRetry)
	}
}

// sleep reports whether ctx let it sleep for so long.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// serve offers the tools of a connection until it or ctx ends, and closes it.
func (r *remote) serve(ctx context.Context, s *session, to Sink, offered map[string]*skill.Skill) error {
	defer s.close()
	defer r.connected(nil)
	tick := time.NewTicker(r.refresh)
	defer tick.Stop()
	for first := true; ; first = false {
		tools, whole, err := s.list(ctx, r.dialer.server.Timeout)
		if err != nil {
			return err
		}
		if !whole && first {
			r.logger.WarnContext(ctx, "mcp server has too many tools; the rest is left out", "tools", len(tools))
		}
		skills, names := r.skillsOf(ctx, tools, first)
		r.mu.Lock()
		r.tools = names
		r.mu.Unlock()
		r.connected(s)
		publish(skills, to, offered)
		if first {
			r.logger.InfoContext(ctx, "mcp server is connected", "skills", len(skills))
		}
		if !sleep(ctx, pace) {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ended:
			return errEnded
		case <-s.changed:
		case <-r.check:
		case <-tick.C:
		}
	}
}

func (r *remote) connected(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = s
}

// publish tells the sink what is new, what is different and what is gone.
func publish(skills []*skill.Skill, to Sink, offered map[string]*skill.Skill) {
	var put []*skill.Skill
	is := make(map[string]bool, len(skills))
	for _, s := range skills {
		is[s.Name] = true
		if !reflect.DeepEqual(offered[s.Name], s) {
			put = append(put, s)
			offered[s.Name] = s
		}
	}
	var gone []string
	for name := range offered {
		if !is[name] {
			gone = append(gone, name)
			delete(offered, name)
		}
	}
	if to == nil {
		return
	}
	if len(gone) > 0 {
		to.Remove(gone...)
	}
	if len(put) > 0 {
		to.Put(put...)
	}
}

// execute implements [skill.Handler] for all tools of the server.
func (r *remote) execute(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	const op = "mcp.Execute"
	r.mu.RLock()
	s := r.session
	tool, known := r.tools[call.Skill]
	r.mu.RUnlock()
	switch {
	case s == nil:
		return nil, mesh.Errorf(mesh.Unavailable, op, "the MCP server '%s' is not connected; it was not called", r.name)
	case !known:
		return nil, mesh.Errorf(mesh.NotFound, op, "the MCP server '%s' has no such tool any more", r.name)
	}
	timed, cancel := context.WithTimeoutCause(ctx, r.dialer.server.Timeout, errSlow)
	defer cancel()
	var progress func(skill.Progress)
	if env != nil {
		progress = env.Progress
	}
	res, err := s.call(timed, tool.name, call.Key, call.Args, progress)
	if err == nil {
		return r.result(res, tool.promise)
	}
	if ctx.Err() != nil {
		return nil, mesh.Wrap(op, ctx.Err())
	}
	if errors.Is(context.Cause(timed), errSlow) {
		err = errSlow
	}
	doubt, err := r.explain(err)
	if doubt {
		wake(r.check)
	}
	return nil, err
}

// errSlow is the cause of a context whose call took longer than a call may.
var errSlow = fmt.Errorf("the call took longer than the server's timeout: %w", context.DeadlineExceeded)
