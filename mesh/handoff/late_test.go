package handoff_test

import (
	"context"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// A slow log has something happen before what was decided is appended.
type slow struct {
	*threadlog.Log
	before func()
}

func (l *slow) Append(ctx context.Context, k mesh.ThreadKey, events []*mesh.Event, opts threadlog.AppendOptions) ([]mesh.Seq, error) {
	if f := l.before; f != nil {
		l.before = nil
		f()
	}
	return l.Log.Append(ctx, k, events, opts)
}

// finding C12: an agent neither gives the stream away nor back once its turn has
// ended, or another agent has it, also when that happens while it is decided.
func TestNothingChangesHandsAfterItsTurn(t *testing.T) {
	for name, event := range map[string]*mesh.Event{
		"the turn ended":            moved("t1", a2apb.TaskState_TASK_STATE_COMPLETED),
		"the turn waits":            moved("t1", a2apb.TaskState_TASK_STATE_INPUT_REQUIRED),
		"another has the stream":    run("t1", "a2", "main"),
		"nothing of the turn's own": moved("a1", a2apb.TaskState_TASK_STATE_WORKING),
	} {
		t.Run(name, func(t *testing.T) {
			refused := event.Execution == "t1"
			s := newScene(t)
			log := &slow{Log: s.any().log, before: func() { s.add(event) }}
			states := cache.New(log, 0)
			h := handoff.New(log.Log, states, people{}, elsewhere{states}, nil)
			if _, err := h.Start(t.Context(), by("main", "a1"), start("builder")); mesh.IsCode(err, mesh.Precondition) != refused || !refused && err != nil {
				t.Errorf("start: %v", err)
			}
			if s.state().Handoff.Active() == refused {
				t.Errorf("the handoff is %+v", s.state().Handoff)
			}
		})
	}
	t.Run("another has the stream when it is given back", func(t *testing.T) {
		s, _ := taken(t)
		log := &slow{Log: s.any().log, before: func() { s.add(run("t1", "b2", "builder")) }}
		states := cache.New(log, 0)
		h := handoff.New(log.Log, states, people{}, elsewhere{states}, nil)
		if _, err := h.End(t.Context(), key, mesh.Principal{Grant: by("builder", "b1")}, handoff.End{}); !mesh.IsCode(err, mesh.Precondition) {
			t.Errorf("end: %v", err)
		}
		if !s.state().Handoff.Active() {
			t.Error("the handoff was ended by who did not have the stream any more")
		}
	})
}
