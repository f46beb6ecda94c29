package thread

import (
	"time"

	"agentmesh/mesh"
)

// CallStatus says how far a skill call is.
type CallStatus string

// The statuses.
const (
	CallRunning   CallStatus = "running" // it has not returned
	CallCompleted CallStatus = "completed"
	CallFailed    CallStatus = "failed"
	CallNotMade   CallStatus = "not_made" // its execution is dry; it has no effect, also before it returned
)

// A SkillCall is the record of one call of a skill.
type SkillCall struct {
	// Key is the id of the event that announced the call: its idempotency key.
	Key       string
	Execution mesh.ExecutionID
	Turn      mesh.ExecutionID // that the execution serves
	Agent     string           // the execution's
	User      string           // the execution's
	Call      string
	Skill     string
	Args      string // JSON object
	Source    string // one of the mesh.Source constants
	Version   string // of the skill
	Status    CallStatus
	// Lost is set on a running call whose execution is over, or one above it:
	// nobody waits for it any more, and whether it had an effect is not known.
	Lost     bool
	Called   mesh.Seq
	Returned mesh.Seq // 0 while it runs
	Started  time.Time
	Ended    time.Time // zero while it runs
	Duration time.Duration
	Content  string // what the skill returned, unless it failed
	Error    string // why it failed
	Files    []string
	Metadata string // JSON object, or ""
}

// Unsettled reports whether the log does not say what came of the call. After a
// crash, those may have happened or not; they are run again under their Key
// only.
func (c *SkillCall) Unsettled() bool { return c.Status == CallRunning }

// SkillCalls returns all calls of skills in a thread's events, which are given
// from Seq 1 on, in the order in which they were made. A return settles the
// last call of its execution with the same id; calls of executions that are not
// known are left out, and so are events that come twice.
func SkillCalls(events []*mesh.Event) []SkillCall {
	var s State
	var cs calls
	for _, e := range events {
		s.Apply(e)
		cs.apply(&s, e)
	}
	return cs.list(&s)
}

// OfCall reports whether the event is about a call of a skill.
func OfCall(e *mesh.Event) bool {
	switch e.Body.(type) {
	case mesh.SkillCalled, mesh.SkillReturned:
		return true
	}
	return false
}

// CallsOf returns the calls of skills that an execution made, or also all below it, of those
// that are in the events, which the state has.
func (s *State) CallsOf(id mesh.ExecutionID, below bool, events []*mesh.Event) []SkillCall {
	var cs calls
	for _, e := range events {
		if e.Execution == id || below && s.below(e.Execution, id) {
			cs.apply(s, e)
		}
	}
	return cs.list(s)
}

// list are the calls, after whose events the thread is in the state.
func (cs *calls) list(s *State) []SkillCall {
	var out []SkillCall
	for _, c := range cs.all {
		if cs.open[callID{c.Execution, c.Call}] == c {
			c.Lost = c.Unsettled() && s.over(c.Execution)
		}
		out = append(out, *c)
	}
	return out
}

// calls are the skill calls in a thread's events.
type calls struct {
	all   []*SkillCall
	open  map[callID]*SkillCall
	known map[string]bool // ids of the events that announced them
}

type callID struct {
	execution mesh.ExecutionID
	call      string
}

// apply adds the next event, after which the thread is in the state, and returns
// the call if it announces one.
func (cs *calls) apply(s *State, e *mesh.Event) *SkillCall {
	switch b := e.Body.(type) {
	case mesh.SkillCalled:
		x := s.execs[e.Execution]
		if x == nil || e.ID != "" && cs.known[e.ID] {
			return nil
		}
		if cs.known == nil {
			cs.known, cs.open = map[string]bool{}, map[callID]*SkillCall{}
		}
		c := s.skillCall(x, e, b)
		cs.known[e.ID] = true
		cs.open[callID{x.ID, b.Call}] = c
		cs.all = append(cs.all, c)
		return c
	case mesh.SkillReturned:
		id := callID{e.Execution, b.Call}
		if c := cs.open[id]; c != nil {
			delete(cs.open, id)
			c.settle(e, b)
		}
	}
	return nil
}

func (s *State) skillCall(x *Execution, e *mesh.Event, b mesh.SkillCalled) *SkillCall {
	c := &SkillCall{
		Key: e.ID, Execution: x.ID, Agent: x.Agent, User: x.User, Call: b.Call, Skill: b.Skill, Args: b.Args,
		Source: b.Source, Version: b.Version, Status: CallRunning, Called: e.Seq, Started: e.Time,
	}
	if b.NotMade {
		c.Status = CallNotMade
	}
	if t := s.TurnOf(x.ID); t != nil {
		c.Turn = t.ID
	}
	return c
}

func (c *SkillCall) settle(e *mesh.Event, b mesh.SkillReturned) {
	c.Content = b.Content
	switch {
	case b.Failed:
		c.Status, c.Content, c.Error = CallFailed, "", b.Content
	case c.Status != CallNotMade:
		c.Status = CallCompleted
	}
	c.Returned, c.Ended, c.Files, c.Metadata = e.Seq, e.Time, b.Files, b.Metadata
	if c.Duration = b.Duration; c.Duration == 0 {
		c.Duration = max(e.Time.Sub(c.Started), 0)
	}
}

// over reports whether the execution, or one above it, is terminal.
func (s *State) over(id mesh.ExecutionID) bool {
	for x := range s.Up(id) {
		if mesh.Terminal(x.State) {
			return true
		}
	}
	return false
}
