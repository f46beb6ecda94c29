package call

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// Limits are how long agents may take, and how long they may say nothing. Zero fields
// have defaults.
type Limits struct {
	// Time cuts off an agent that has the user's stream; default 30 min.
	Time time.Duration
	// Silence is how long nothing may come on an open stream until the agent is asked
	// for its task; default 2 min.
	Silence time.Duration
	// Return is how long an agent is waited for that is to go on, or was live a moment ago;
	// default 30 s. It is the same for all.
	Return time.Duration
	// Agents have other limits for some, by name.
	Agents map[string]Limits
}

// For returns the limits of an agent.
func (l Limits) For(agent string) Limits {
	own := l.Agents[agent]
	return Limits{Time: firstOf(own.Time, l.Time, 30*time.Minute), Silence: firstOf(own.Silence, l.Silence, 2*time.Minute), Return: firstOf(l.Return, 30*time.Second)}
}

func firstOf(all ...time.Duration) time.Duration {
	for _, d := range all {
		if d != 0 {
			return d
		}
	}
	return 0
}

// errStale ends a stream that does not say what became of its task.
var errStale = mesh.Errorf(mesh.Unavailable, "call.vigil", "the agent's stream does not say that its task has moved on")

// errMute ends a stream of an agent that has said nothing and answers no other call either.
var errMute = mesh.Errorf(mesh.Unavailable, "call.vigil", "the agent has said nothing, and answers nothing else either")

// A vigil asks for the task of a stream on which nothing comes. It ends the stream if the
// task is over, or not known any more, or the agent cannot be reached, and else waits on,
// as it does for agents that cannot be asked. An agent that has not said which task it has
// is asked all the same: whatever it answers, it is there. End waits for its timer.
type vigil struct {
	*call
	stream context.Context //nolint:containedctx // the one that it ends
	cancel context.CancelCauseFunc
	bells  sync.WaitGroup

	mu    sync.Mutex
	timer *time.Timer
	over  bool
	heard time.Time
	task  string // "" while it is not known
	rests bool   // it stands where it stood before our message
	mute  bool   // it did not answer when it was asked last, before its first word
}

// follow reads a stream, under a vigil, and returns how it ended: io.EOF does take, and
// the vigil's cause wins.
func (c *call) follow(ctx context.Context, open func(context.Context) iter.Seq2[Response, error], take func(Response) error) error {
	stream, cancel := context.WithCancelCause(ctx)
	v := &vigil{call: c, stream: stream, cancel: cancel}
	defer v.end()
	v.hear()
	if c.reader.req.Silence > 0 {
		v.arm(c.reader.req.Silence)
	}
	for resp, err := range open(stream) {
		if err == nil {
			err = take(resp)
			v.hear()
		}
		if err != nil {
			return v.cause(err)
		}
		if c.over(ctx) {
			return nil
		}
	}
	return v.cause(nil)
}

// cause is why the stream ended that ended with err.
func (v *vigil) cause(err error) error {
	if why := context.Cause(v.stream); v.stream.Err() != nil && mesh.CodeOf(why) != mesh.Canceled {
		return why
	}
	return err
}

// hear notes that something came.
func (v *vigil) hear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.heard, v.task, v.rests, v.mute = time.Now(), v.reader.task, v.reader.rests != nil, false
}

func (v *vigil) arm(after time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.over {
		v.bells.Add(1)
		v.timer = time.AfterFunc(after, v.ring)
	}
}

// end ends the stream.
func (v *vigil) end() {
	v.mu.Lock()
	v.over = true
	if v.timer != nil && v.timer.Stop() {
		v.bells.Done()
	}
	v.mu.Unlock()
	v.cancel(context.Canceled)
	v.bells.Wait()
}

// ring asks for the task if nothing came for as long as that is allowed.
func (v *vigil) ring() {
	defer v.bells.Done()
	v.mu.Lock()
	most := v.reader.req.Silence
	left, task, rests := most-time.Since(v.heard), v.task, v.rests
	v.mu.Unlock()
	if left > 0 {
		v.arm(left)
		return
	}
	var err error
	if task == "" {
		most, err = v.knock(most)
	} else {
		err = v.ask(task, rests)
	}
	if err != nil {
		v.cancel(err)
		return
	}
	v.arm(most)
}

// knock asks an agent that has said nothing whether it is there, and returns when it is to be
// asked again: one that does not answer is asked twice. What task it has nobody knows, so that
// its stream cannot be taken up again.
func (v *vigil) knock(most time.Duration) (time.Duration, error) {
	err := v.ask(string(v.reader.req.Execution), false)
	v.mu.Lock()
	defer v.mu.Unlock()
	gone := mesh.IsCode(err, mesh.Unavailable) && !errors.Is(err, errStale) || mesh.IsCode(err, mesh.Timeout)
	if gone && v.mute {
		return 0, errMute
	}
	if v.mute = gone; gone {
		return min(most, lookTime), nil
	}
	return most, nil
}

// ask returns why the stream needs to be waited for no longer.
func (v *vigil) ask(id string, rests bool) error {
	ctx, cancel := context.WithTimeout(v.stream, lookTime)
	defer cancel()
	task, err := v.agent.GetTask(ctx, id)
	state := task.GetStatus().GetState()
	v.reader.req.logger().InfoContext(ctx, "agent silent, asked for its task", "agent", v.reader.req.Agent, "task", id, "state", state, "err", err)
	switch {
	case mesh.IsCode(err, mesh.NotFound):
		return mesh.Errorf(mesh.NotFound, "call.vigil", "the agent lost the task: %w", errForgotten)
	case mesh.IsCode(err, mesh.Unavailable), mesh.IsCode(err, mesh.Timeout):
		return err
	case mesh.Terminal(state), state == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && !rests:
		return errStale
	}
	return nil
}
