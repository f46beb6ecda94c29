// Package observer has telemetry tell what the log of threads says: of turns, of agents at
// work on them, of skills, replies of models and limits, whatever language the agents are
// written in.
//
// An [Observer] hears of the events that its own node appends, so that each is told of
// once, by one node. An execution's span is told of when it ends, with what is in the log;
// whoever ends a turn that another process began, which may have died before it could
// tell, tells of all of it again, under the same ids.
//
// Appending waits for nothing here: events wait in a queue of fixed size, and what finds it
// full is counted and not told of.
package observer

import (
	"context"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"agentmesh/mesh"
	"agentmesh/mesh/telemetry"
	"agentmesh/mesh/thread"
)

// Bounds of what is remembered and waits, in entries.
const (
	maxWaiting    = 8192
	maxRemembered = 8192
	page          = 256 // events
)

// States are folded threads: a *cache.States.
type States interface {
	With(ctx context.Context, key mesh.ThreadKey, f func(*thread.State) error) error
}

// A Log reads threads: a *threadlog.Log.
type Log interface {
	Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]*mesh.Event, error)
}

// An Observer is told of what is appended. Use New, Watch and Run.
type Observer struct {
	t      *telemetry.Telemetry
	log    Log
	states States
	logger *slog.Logger

	queue  chan placed
	begun  *lru.Cache[mesh.ExecutionID, bool]             // turns that were opened here
	silent *lru.Cache[mesh.ExecutionID, time.Time]        // those without output, and since when
	legs   *lru.Cache[mesh.ExecutionID, mesh.ExecutionID] // their agents' executions
	calls  *lru.Cache[call, *mesh.Event]                  // of skills, that were announced here
}

type placed struct {
	thread mesh.ThreadKey
	*mesh.Event
}

type call struct {
	execution mesh.ExecutionID
	id        string
}

// New returns an Observer for t, which is not nil.
func New(t *telemetry.Telemetry, logger *slog.Logger) *Observer {
	return &Observer{t: t, logger: logger, queue: make(chan placed, maxWaiting),
		begun: remembered[mesh.ExecutionID, bool](), silent: remembered[mesh.ExecutionID, time.Time](),
		legs: remembered[mesh.ExecutionID, mesh.ExecutionID](), calls: remembered[call, *mesh.Event]()}
}

func remembered[K comparable, V any]() *lru.Cache[K, V] {
	c, err := lru.New[K, V](maxRemembered)
	if err != nil { // of sizes below 1 alone
		panic(err)
	}
	return c
}

// Watch says where the log is read. It is called before Run.
func (o *Observer) Watch(log Log, states States) { o.log, o.states = log, states }

// Added takes in what was appended: see threadlog.WithAdded.
func (o *Observer) Added(key mesh.ThreadKey, events []*mesh.Event, took time.Duration) {
	o.t.Committed(len(events), took)
	for _, e := range events {
		switch b := e.Body.(type) {
		case mesh.ArtifactAppended:
			o.output(e)
			continue
		case mesh.TaskOpened:
			o.begun.Add(e.Execution, true)
			o.silent.Add(e.Execution, e.Time)
			continue
		case mesh.DispatchIssued:
			if o.silent.Contains(b.Child.Parent) {
				o.legs.Add(b.Child.ID, b.Child.Parent)
			}
			continue
		case mesh.SkillCalled:
			if !b.NotMade {
				o.calls.Add(call{e.Execution, b.Call}, e)
			}
			continue
		case mesh.ModelReplied:
			o.t.Replied(b.Model, b.Usage)
			continue
		case mesh.LimitTripped:
			o.t.Tripped(b.Limit)
			continue
		case mesh.TaskMoved:
			if !mesh.Terminal(b.State) {
				continue
			}
		case mesh.SkillReturned, mesh.DispatchSettled:
		default:
			continue
		}
		select {
		case o.queue <- placed{key, e}:
		default:
			o.t.Dropped()
		}
	}
}

// output counts the first output of a turn.
func (o *Observer) output(e *mesh.Event) {
	turn, ok := o.legs.Get(e.Execution)
	if !ok {
		return
	}
	o.legs.Remove(e.Execution)
	if opened, ok := o.silent.Get(turn); ok && o.silent.Remove(turn) {
		o.t.FirstChunk(e.Time.Sub(opened))
	}
}

// Run tells of what was appended until ctx is done, and then of what waits still.
func (o *Observer) Run(ctx context.Context) {
	for {
		select {
		case e := <-o.queue:
			o.tell(ctx, e)
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			for ctx.Err() == nil {
				select {
				case e := <-o.queue:
					o.tell(ctx, e)
				default:
					return
				}
			}
			return
		}
	}
}

func (o *Observer) tell(ctx context.Context, e placed) {
	ctx = context.WithoutCancel(ctx)
	var err error
	switch b := e.Body.(type) {
	case mesh.SkillReturned:
		err = o.returned(ctx, e, b)
	case mesh.TaskMoved:
		err = o.ended(ctx, e, e.Execution)
	case mesh.DispatchSettled:
		err = o.ended(ctx, e, b.Child)
	}
	if err != nil && !mesh.IsCode(err, mesh.NotFound) {
		o.logger.WarnContext(ctx, "an event was not told of", "thread", e.thread.ID, "seq", e.Seq, "err", err)
	}
}

// returned tells of the call that the event settles, if it was announced here; else the end
// of its turn does.
func (o *Observer) returned(ctx context.Context, e placed, b mesh.SkillReturned) error {
	id := call{e.Execution, b.Call}
	announced, ok := o.calls.Get(id)
	if !ok {
		return nil
	}
	o.calls.Remove(id)
	c, _ := announced.Body.(mesh.SkillCalled)
	took := b.Duration
	if took == 0 {
		took = max(e.Time.Sub(announced.Time), 0)
	}
	o.t.SkillEnded(c.Skill, b.Failed, took)
	return o.states.With(ctx, e.thread, func(s *thread.State) error {
		if x, turn := s.Execution(e.Execution), s.TurnOf(e.Execution); x != nil && turn != nil {
			o.t.SkillCalled(telemetry.SkillCall{Thread: e.thread, Execution: x.ID, Agent: x.Agent, Traceparent: turn.Traceparent, Key: announced.ID, Call: b.Call,
				Skill: c.Skill, Source: c.Source, Failed: b.Failed, Begun: announced.Time, Took: took, Args: c.Args, Result: b.Content})
		}
		return nil
	})
}

// ended tells of the execution that the event ended. One that was over before it did not.
func (o *Observer) ended(ctx context.Context, e placed, id mesh.ExecutionID) error {
	again := false
	var turn mesh.Execution
	err := o.states.With(ctx, e.thread, func(s *thread.State) error {
		x, t := s.Execution(id), s.TurnOf(id)
		if x == nil || t == nil || x.Ended != e.Seq {
			return nil
		}
		turn = t.Execution
		told := execution(e.thread, x, &turn)
		o.t.Ended(told)
		o.t.Execution(told)
		again = x == t && !o.begun.Contains(id)
		return nil
	})
	if err != nil || !again {
		return err
	}
	return o.tellAgain(ctx, e.thread, turn)
}

// execution is an execution that has ended, as telemetry has it.
func execution(key mesh.ThreadKey, x *thread.Execution, turn *mesh.Execution) telemetry.Execution {
	result := x.Result
	if x.Kind == mesh.KindTurn {
		result = mesh.TextOf(x.Message)
	}
	return telemetry.Execution{Thread: key, Execution: x.Execution, Turn: turn, State: x.State, Reason: x.Reason, Begun: x.Started, Ended: x.Updated, Usage: x.Usage, Result: result}
}

// tellAgain tells of what happened in a turn that another process began: its agents' spans and
// its calls of skills. What is told twice has the same ids.
func (o *Observer) tellAgain(ctx context.Context, key mesh.ThreadKey, turn mesh.Execution) error {
	err := o.states.With(ctx, key, func(s *thread.State) error {
		for _, x := range s.Executions() {
			if t := s.TurnOf(x.ID); t != nil && t.ID == turn.ID && x != t && mesh.Terminal(x.State) {
				o.t.Execution(execution(key, x, &turn))
			}
		}
		return nil
	})
	if err != nil || turn.Traceparent == "" {
		return err
	}
	var events []*mesh.Event
	for after := mesh.Seq(0); ; {
		more, err := o.log.Read(ctx, key, after, page)
		if err != nil {
			return err
		}
		if len(more) == 0 {
			break
		}
		after = more[len(more)-1].Seq
		for _, e := range more {
			if _, output := e.Body.(mesh.ArtifactAppended); !output { // which is most of it
				events = append(events, e)
			}
		}
	}
	for _, c := range thread.SkillCalls(events) {
		if c.Turn == turn.ID && !c.Unsettled() && c.Status != thread.CallNotMade {
			o.t.SkillCalled(telemetry.SkillCall{Thread: key, Execution: c.Execution, Agent: c.Agent, Traceparent: turn.Traceparent, Key: c.Key, Call: c.Call, Skill: c.Skill, Source: c.Source,
				Failed: c.Status == thread.CallFailed, Begun: c.Started, Took: c.Duration, Args: c.Args, Result: c.Content + c.Error})
		}
	}
	return nil
}
