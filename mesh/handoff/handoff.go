// Package handoff holds the rules by which a user's live stream changes hands.
//
// A handoff is a decision in the thread's log, made on the thread as it is and
// never in a race: of two that start at once, one stands. It is explicit, at
// its start and at its end. At most one is active in a thread, and only the
// agent that has the stream may start one, while its turn runs.
//
// The package appends decisions and nothing else; package turn follows the log
// and reroutes the stream. All methods may be called concurrently.
package handoff

import (
	"context"
	"errors"
	"fmt"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// A Directory finds agents that are live: a *registry.Registry.
type Directory interface {
	Resolve(tenant mesh.TenantID, name string) (registry.Entry, error)
}

// Turns append a handoff, and see to what follows from it: a *turn.Runner.
type Turns interface {
	HandOver(ctx context.Context, key mesh.ThreadKey, f func(*thread.State) (cache.Decision, error)) error
	// EndTasks tells the agents of executions that waited, and were canceled.
	EndTasks(ctx context.Context, key mesh.ThreadKey, waiting []thread.Execution)
}

// Bounds of a handoff.
const (
	MaxReason         = 500  // bytes
	MaxSummary        = 2000 // bytes
	MaxRecent         = 20   // messages that go along
	MaxArtifacts      = 20   // that came of it
	MaxArtifactID     = 256  // bytes
	MaxHandoffsInTurn = 4
	MinSession        = time.Minute
	MaxSession        = 30 * 24 * time.Hour
	DefaultSession    = time.Hour
)

// Settings are what an operator may choose. The zero value has the defaults.
type Settings struct {
	// Session is how long after the user's last word, or its agent's last work, a session is
	// parked, MinSession to MaxSession; 0 is DefaultSession, and less is never.
	Session time.Duration
	// Recent is how many of the last messages go along word by word, 0 to MaxRecent, where
	// a request does not ask for fewer; RecentFor is that for targets by name. Where nothing is
	// set a request has what it asks for, or 0.
	Recent    *int
	RecentFor map[string]int
}

// recent is how many messages go along to the target.
func (s Settings) recent(target string, asked *int) int {
	most := s.Recent
	if n, ok := s.RecentFor[target]; ok {
		most = &n
	}
	switch {
	case asked == nil && most == nil:
		return 0
	case asked == nil:
		return *most
	case most == nil:
		return *asked
	}
	return min(*asked, *most)
}

// session is how long a session of now may be without a word of its user, or 0.
func (s Settings) session() time.Duration {
	if s.Session == 0 {
		return DefaultSession
	}
	return max(s.Session, 0)
}

// Handoffs starts and ends handoffs. Use New.
type Handoffs struct {
	log    *threadlog.Log
	states *cache.States
	dir    Directory
	turns  Turns
	now    func() time.Time
	set    Settings
}

// With has h go by the settings, which are the operator's to check. It returns h, and is
// called before h is used.
func (h *Handoffs) With(s Settings) *Handoffs {
	h.set = s
	return h
}

// New returns Handoffs over a log and its states. A nil now is time.Now.
func New(log *threadlog.Log, states *cache.States, dir Directory, turns Turns, now func() time.Time) *Handoffs {
	if now == nil {
		now = time.Now
	}
	return &Handoffs{log: log, states: states, dir: dir, turns: turns, now: now}
}

// A Start asks for a handoff.
type Start struct {
	Target         string
	Reason         string
	Summary        string
	RecentMessages *int // nil for what is set for the target, which is the most
	PreserveState  bool
	ReturnExpected bool
	// Resume says that the user wants to go on with what the target noted before.
	Resume bool
	// UpdatesSent is how many artifact updates the caller sent before; the
	// handoff waits until they are in the log.
	UpdatesSent int64
}

func (r *Start) validate() error {
	const op = "handoff.Start"
	switch {
	case !mesh.ValidAgentName(r.Target):
		return mesh.InvalidField(op, "target_agent", "must be the name of an agent, in lower-case letters, digits, '-' and '_'")
	case len(r.Reason) > MaxReason:
		return mesh.InvalidField(op, "reason", "has %d bytes; at most %d are allowed", len(r.Reason), MaxReason)
	case len(r.Summary) > MaxSummary:
		return mesh.InvalidField(op, "context_summary", "has %d bytes; at most %d are allowed", len(r.Summary), MaxSummary)
	case r.RecentMessages != nil && (*r.RecentMessages < 0 || *r.RecentMessages > MaxRecent):
		return mesh.InvalidField(op, "recent_messages", "is %d; it must be 0 to %d", *r.RecentMessages, MaxRecent)
	case r.UpdatesSent < 0:
		return mesh.InvalidField(op, "updates_sent", "is %d; it must not be negative", r.UpdatesSent)
	}
	return nil
}

// Start makes the target the thread's active agent. g is the caller's grant.
//
// Errors: Invalid for a request that breaks a bound; NotFound for an unknown
// target; Unavailable for one that is not live; Precondition when the caller
// does not have the stream, when a handoff is active already (the detail names
// who has the conversation), and for a handoff to oneself; Exhausted when the
// turn has changed hands too often; Denied when the user lacks a permission that the target
// requires, which is then the error's Lack.
func (h *Handoffs) Start(ctx context.Context, g *mesh.Grant, req Start) (*thread.Handoff, error) {
	const op = "handoff.Start"
	if err := req.validate(); err != nil {
		return nil, err
	}
	if req.Target == g.Agent {
		return nil, mesh.Errorf(mesh.Precondition, op, "%s cannot hand over to itself", g.Agent)
	}
	entry, err := h.dir.Resolve(g.Tenant, req.Target)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if err := h.await(ctx, g, req.UpdatesSent); err != nil {
		return nil, err
	}
	started := &mesh.Event{Time: h.now().UTC().Truncate(time.Millisecond), Execution: g.Execution, Actor: "agent:" + g.Agent,
		Body: mesh.HandoffStarted{
			From: g.Agent, To: req.Target, ToName: entry.Card.GetName(), Reason: req.Reason, Summary: req.Summary,
			RecentMessages: h.set.recent(req.Target, req.RecentMessages), PreserveState: req.PreserveState, ReturnExpected: req.ReturnExpected,
			Session: h.set.session(), Resume: req.Resume,
		}}
	err = h.turns.HandOver(ctx, g.Key(), func(s *thread.State) (cache.Decision, error) {
		if err := mayStart(s, g, entry); err != nil {
			return cache.Decision{}, err
		}
		return cache.Decision{Events: []*mesh.Event{started}, Scopes: []mesh.Scope{mesh.Scope(g.Turn)}}, nil
	})
	if err != nil {
		return nil, err
	}
	return &thread.Handoff{HandoffStarted: started.Body.(mesh.HandoffStarted), Seq: started.Seq, Turn: g.Turn, By: g.User,
		State: mesh.HandoffPending, Rests: started.Time}, nil
}

// mayStart checks that the execution of the grant has the stream to give, and that its user
// has what the target requires.
func mayStart(s *thread.State, g *mesh.Grant, target registry.Entry) error {
	const op = "handoff.Start"
	if s.Handoff.Active() {
		return mesh.Errorf(mesh.Precondition, op, "%s has the conversation already; finish that first, or end it with EndHandoff", s.Handoff.To)
	}
	t := s.Turn(g.Turn)
	if t == nil || mesh.Terminal(t.State) || t.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED || t.Leg() == nil || t.Leg().Execution != g.Execution {
		return mesh.Errorf(mesh.Precondition, op, "%s does not have the user's stream, so it cannot give it away", g.Agent)
	}
	if t.Handoffs >= MaxHandoffsInTurn {
		return mesh.Errorf(mesh.Exhausted, op, "the conversation changed hands %d times for one message; answer the user first", t.Handoffs)
	}
	if e := (*mesh.Error)(nil); errors.As(target.WorksFor(op, t.Roles), &e) {
		e.Field = "target_agent"
		return e
	}
	return nil
}

// Get returns the thread's active or last handoff as it is now, or nil, for who may read it, and
// whether a role alone allows that. An agent that reads its own part of the thread alone has those to itself.
func (h *Handoffs) Get(ctx context.Context, key mesh.ThreadKey, p mesh.Principal) (last *thread.Handoff, byRole bool, err error) {
	err = h.states.With(ctx, key, func(s *thread.State) error {
		if s.Seq == 0 || !s.MayRead(p) {
			return mesh.ThreadNotFound("handoff.Get")
		}
		if byRole = !s.Involves(p); s.Part(p.Grant).HandedOver() {
			last = s.HandoffAt(h.now())
		}
		return nil
	})
	return last, byRole, err
}

// awaitMost is how long a handoff waits for the caller's updates to be logged, and awaitAgain
// how long for those of one that was cut off and went on: nobody knows how many they are now.
const (
	awaitMost  = 5 * time.Second
	awaitAgain = time.Second
)

// await returns when the log has the given number of artifact updates of the
// grant's execution, so that nothing is lost that was said before.
func (h *Handoffs) await(ctx context.Context, g *mesh.Grant, updates int64) error {
	const op = "handoff.await"
	var have int64
	var first mesh.Pos
	var from mesh.Seq
	most, counts := awaitMost, true
	err := h.states.With(ctx, g.Key(), func(s *thread.State) error {
		x := s.Execution(g.Execution)
		if x == nil {
			return mesh.ThreadNotFound(op)
		}
		if have, first, from = x.Artifacts, s.First, s.Seq; x.CutOff {
			most, counts = awaitAgain, false
		}
		return nil
	})
	if err != nil || have >= updates {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for ev, err := range h.log.Follow(wait, g.Key(), first, from) {
		if err != nil {
			break
		}
		if _, ok := ev.Body.(mesh.ArtifactAppended); ok && ev.Execution == g.Execution {
			if have++; have >= updates {
				return nil
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return mesh.Wrap(op, err)
	}
	if !counts {
		return nil
	}
	return &mesh.Error{Code: mesh.Precondition, Op: op, Field: "updates_sent", Detail: fmt.Sprintf(
		"only %d of the %d updates said to be sent have arrived; send updates_sent as the number of artifact updates before the handoff", have, updates)}
}
