package call

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// An Instance is one of the processes of an agent that has several.
type Instance struct {
	// ID names it in logs.
	ID string
	// Endpoint is where it was registered, as that of a Target is.
	Endpoint string
	// Interfaces are those of its card, in place of the ones of the agent's.
	Interfaces []*a2apb.AgentInterface
	// Live says that it may be called for new work. One that is not may still have a task.
	Live bool
}

// at is the target with the instance alone.
func (t Target) at(in Instance) Target {
	t.Card = proto.CloneOf(t.Card)
	t.Card.SupportedInterfaces, t.Endpoint, t.Instances = in.Interfaces, in.Endpoint, nil
	return t
}

// Holder returns the target for an execution that the instance has, as the log says; "" for
// one of which it does not.
func (t Target) Holder(instance string) Target {
	t.At = instance
	return t
}

// Missing reports whether the agent has instances of which the one that has the execution is
// none.
func (t Target) Missing() bool {
	return t.At != "" && len(t.Instances) > 0 && !slices.ContainsFunc(t.Instances, func(in Instance) bool { return in.ID == t.At })
}

// loads counts the open calls of messages by where they went, for one Dialer.
type loads struct {
	mu   sync.Mutex
	open map[string]int
}

func (l *loads) add(endpoint string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[string]int{}
	}
	if l.open[endpoint] += n; l.open[endpoint] == 0 {
		delete(l.open, endpoint)
	}
}

// least takes the place with the fewest open calls, of several with as many any one: others
// choose too, and know nothing of this count. The call is added to it.
func (l *loads) least(all []*place) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[string]int{}
	}
	var best []*place
	for _, p := range all {
		switch {
		case len(best) == 0 || l.open[p.endpoint] < l.open[best[0].endpoint]:
			best = []*place{p}
		case l.open[p.endpoint] == l.open[best[0].endpoint]:
			best = append(best, p)
		}
	}
	p := best[rand.N(len(best))] //nolint:gosec // not a secret
	l.open[p.endpoint]++
	return p
}

// A place is one instance as a spread calls it.
type place struct {
	target   Target
	id       string
	endpoint string
	client   Client
	live     bool
	tried    bool // it could not be reached; guarded by the spread
}

// A spread calls an agent that has several processes, for one execution. The message goes to
// the live one with the fewest open calls and, if that cannot be reached before it has said
// anything, to another one. Who has said something keeps the execution: all that follows goes
// there. A message for a task, and what is asked about one, goes to the process that knows it:
// the one that the log names, or else one that is found by asking; where nobody does, to any
// if the agent speaks our extension and so reads in the log what was done.
type spread struct {
	dialer *Dialer
	places []*place // those that are not live come last, but for who has the execution
	was    string   // the id of who has it, by the log, or ""
	mesh   bool     // the agent speaks our extension

	mu sync.Mutex
	at *place // who has the execution; nil while that is not known
}

// spread makes a client of all the agent's instances that can be called from here.
func (d *Dialer) spread(t Target) (Client, error) {
	s := &spread{dialer: d, mesh: Speaks(t.Card), was: t.At}
	var why error
	for _, live := range []bool{true, false} {
		for _, in := range t.Instances {
			if in.Live != live {
				continue
			}
			one := t.at(in)
			client, err := d.Dial(one)
			if err != nil {
				why = err
				continue
			}
			s.places = append(s.places, &place{target: one, id: in.ID, endpoint: in.Endpoint, client: client, live: live})
		}
	}
	if len(s.places) == 0 {
		return nil, why
	}
	if i := slices.IndexFunc(s.places, s.named); i > 0 { // who is asked first
		p := s.places[i]
		s.places = slices.Insert(slices.Delete(s.places, i, i+1), 0, p)
	}
	return s, nil
}

// named reports whether the log says that the place has the execution.
func (s *spread) named(p *place) bool { return s.was != "" && p.id == s.was }

// lost reports whether a call failed on its way, so that it says nothing of the agent. Of one
// that speaks our extension an answer that it is not available is as much: it is about to stop,
// and who gets the message then reads in the log what was done.
func (s *spread) lost(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && mesh.IsCode(rpc.FromStatus(err), mesh.Unavailable) && (s.mesh || !errors.Is(err, errAnswered))
}

// failed notes that the place could not be reached.
func (s *spread) failed(p *place, err error) {
	s.mu.Lock()
	p.tried = true
	s.mu.Unlock()
	s.down(p, err)
}

// down tells that the place could not be reached, unless it has answered.
func (s *spread) down(p *place, err error) {
	if s.dialer.opts.Down != nil && !errors.Is(err, errAnswered) {
		s.dialer.opts.Down(p.target, err)
	}
}

func (s *spread) stick(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = p
}

func (s *spread) holder() *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// free returns where the message may go that was not tried, with the call counted: to who is
// live, or else to anybody; nil for nowhere.
func (s *spread) free() *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, live := range []bool{true, false} {
		var left []*place
		for _, p := range s.places {
			if p.live == live && !p.tried {
				left = append(left, p)
			}
		}
		if len(left) > 0 {
			return s.dialer.loads.least(left)
		}
	}
	return nil
}

// elsewhere gives up who has the execution, if a live process is left that was not tried.
func (s *spread) elsewhere() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places {
		if p != s.at && p.live && !p.tried {
			if s.at != nil {
				s.at.tried = true
			}
			s.at = nil
			return true
		}
	}
	return false
}

// find asks who knows the task, unless that is known. It returns NotFound if nobody does;
// where not all could be reached, Unavailable, unless the agent speaks our extension: any
// process may then take what one that is gone had. Of a live one that the log names nobody
// is asked in its place: it may be at work.
func (s *spread) find(ctx context.Context, task string) (*place, error) {
	if p := s.holder(); p != nil {
		return p, nil
	}
	unknown := error(mesh.Errorf(mesh.NotFound, "call.find", "no process of the agent knows the task"))
	answered, err := false, error(nil)
	for _, p := range s.places {
		_, failure := s.look(ctx, p, task)
		if failure == nil || !mesh.IsCode(failure, mesh.NotFound) && !s.lost(ctx, failure) {
			s.stick(p) // who answers something else has it, or will say the same to what follows
			return p, nil
		}
		if s.lost(ctx, failure) {
			s.failed(p, failure)
			if err = failure; p.live && s.named(p) {
				return nil, err
			}
		}
		answered = answered || mesh.IsCode(failure, mesh.NotFound)
	}
	if err == nil || s.mesh && answered {
		return nil, unknown
	}
	return nil, err
}

// look asks one process for the task, within the time of a look.
func (s *spread) look(ctx context.Context, p *place, task string) (*a2apb.Task, error) {
	within, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return p.client.GetTask(within, task)
}

// deliver makes a call with a message until it has begun somewhere, or cannot. do reports
// whether the agent said anything.
func (s *spread) deliver(ctx context.Context, msg *a2apb.Message, do func(*place) (begun bool, err error)) error {
	var err error
	holder := s.holder()
	if task := msg.GetTaskId(); holder == nil && task != "" {
		if holder, err = s.find(ctx, task); err != nil && !s.mesh {
			return err
		}
	}
	for {
		p := holder
		if p != nil {
			s.dialer.loads.add(p.endpoint, 1)
		} else if p = s.free(); p == nil {
			return err
		}
		begun, failure := do(p)
		s.dialer.loads.add(p.endpoint, -1)
		if begun || !s.lost(ctx, failure) {
			s.stick(p) // it has heard the message
			return failure
		}
		s.failed(p, failure)
		if err = failure; holder != nil && !s.mesh {
			return err
		}
		s.stick(nil)
		holder = nil
	}
}

func (s *spread) SendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (resp *a2apb.SendMessageResponse, err error) {
	err = s.deliver(ctx, req.GetMessage(), func(p *place) (bool, error) {
		resp, err = p.client.SendMessage(ctx, req)
		return err == nil, err
	})
	return resp, err
}

func (s *spread) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[Response, error] {
	return func(yield func(Response, error) bool) {
		left := false
		err := s.deliver(ctx, req.GetMessage(), func(p *place) (begun bool, err error) {
			for resp, err := range p.client.SendStreamingMessage(ctx, req) {
				if err != nil {
					return begun, err
				}
				if !begun {
					begun = true
					s.stick(p) // before anybody asks about the task
				}
				if left = !yield(resp, nil); left {
					return true, nil
				}
			}
			return true, nil
		})
		if err != nil && !left {
			yield(Response{}, err)
		}
	}
}

// about makes a call about a task where that is.
func (s *spread) about(ctx context.Context, task string, do func(Client) error) error {
	p, err := s.find(ctx, task)
	if err != nil {
		return err
	}
	if err = do(p.client); s.lost(ctx, err) {
		s.down(p, err)
	}
	return err
}

func (s *spread) GetTask(ctx context.Context, task string) (t *a2apb.Task, err error) {
	err = s.about(ctx, task, func(c Client) error { t, err = c.GetTask(ctx, task); return err })
	return t, err
}

func (s *spread) CancelTask(ctx context.Context, task string) error {
	return s.about(ctx, task, func(c Client) error { return c.CancelTask(ctx, task) })
}

func (s *spread) SubscribeToTask(ctx context.Context, task string) iter.Seq2[Response, error] {
	return func(yield func(Response, error) bool) {
		left := false
		err := s.about(ctx, task, func(c Client) error {
			for resp, err := range c.SubscribeToTask(ctx, task) {
				if err != nil {
					return err
				}
				if left = !yield(resp, nil); left {
					return nil
				}
			}
			return nil
		})
		if err != nil && !left {
			yield(Response{}, err)
		}
	}
}

// moves reports whether the message may be sent again elsewhere, after the agent began to
// answer and was lost: to an agent that has the effects of a message once, however often and
// wherever it gets it, and that has another process.
func (c *call) moves(err error) bool {
	s, several := c.agent.(*spread)
	return several && c.reader.req.Idempotent && (errors.Is(err, errForgotten) || transient(err)) && s.elsewhere()
}

// leaves reports whether a call that could not take up the agent's task may have the message
// sent again, as if the task was lost: to an agent of several processes that reads in the
// log what was done.
func (c *call) leaves(err error) bool {
	s, several := c.agent.(*spread)
	return several && s.mesh && transient(err) && s.elsewhere()
}

// placed adds to what the agent says which of its processes says so, once for each.
func (c *call) placed(bodies []mesh.Body) []mesh.Body {
	s, several := c.agent.(*spread)
	if !several || len(bodies) == 0 {
		return bodies
	}
	p := s.holder()
	if p == nil || p.id == c.at {
		return bodies
	}
	c.at = p.id
	if m, ok := bodies[0].(mesh.TaskMoved); ok && m.State == a2apb.TaskState_TASK_STATE_WORKING {
		m.Instance = p.id
		bodies[0] = m
		return bodies
	}
	return append([]mesh.Body{mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Instance: p.id}}, bodies...)
}

// sendAgain sends the message to another process of the agent, as it was: the execution and
// the message's id are the key by which it knows what was done. What comes replaces what the
// process before it had said of the same artifacts.
func (c *call) sendAgain(ctx context.Context, req Request) error {
	r := c.reader
	r.task, r.known, r.taken, r.bare = req.RemoteTask, map[string]bool{}, map[string]*tally{}, 0
	r.begun, r.auth, r.rests = false, false, nil
	return c.send(ctx, req)
}
