package api

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/retention"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
	"agentmesh/mesh/transfer"
)

// Threads serves ThreadService. Use NewThreads.
type Threads struct {
	meshv1.UnimplementedThreadServiceServer
	log     *threadlog.Log
	states  *cache.States
	tickets Tickets
	main    string
	admits  *admission.Controller
	deleter *retention.Deleter
	imports *transfer.Threads
	permits func(p mesh.Principal, a mesh.Action, name string) error
	access  func(ctx context.Context, key mesh.ThreadKey) (thread.Access, error)
	// retention is how long what agents note in sessions is kept.
	retention time.Duration

	readByRole ReadByRole
	blobBytes  func(mesh.ThreadKey) int64
	sums       func(context.Context, tasks.Sums) (map[string]tasks.Sum, error)
}

// NewThreads returns the server of the threads in log. What agents append is
// what admits takes, and those that are dispatched get tickets; main is
// the agent of threads without handoff.
func NewThreads(log *threadlog.Log, states *cache.States, admits *admission.Controller, tickets Tickets, main string) *Threads {
	s := &Threads{log: log, states: states, admits: admits, tickets: tickets, main: main, readByRole: nobodyTold, blobBytes: func(mesh.ThreadKey) int64 { return 0 }}
	s.access = s.folded
	s.sums = func(context.Context, tasks.Sums) (map[string]tasks.Sum, error) { return nil, nil }
	return s
}

// WithRetention says how long what agents note in sessions is kept; it is nothing before. It
// returns s, and is called before s serves.
func (s *Threads) WithRetention(d time.Duration) *Threads {
	s.retention = d
	return s
}

// WithBlobBytes has f say how many bytes the large files of a thread have. It returns s, and is
// called before s serves.
func (s *Threads) WithBlobBytes(f func(mesh.ThreadKey) int64) *Threads {
	s.blobBytes = f
	return s
}

// keyFor checks that the caller may read the thread that it names in the
// request and, if it does, in the metadata.
func keyFor(ctx context.Context, op, id string) (mesh.ThreadKey, mesh.Call, error) {
	call, err := callOf(ctx, op)
	if err != nil {
		return mesh.ThreadKey{}, call, err
	}
	canon, err := mesh.ParseThreadID(id)
	if err != nil {
		return mesh.ThreadKey{}, call, mesh.InvalidField(op, "thread_id", "must be a UUID v4 in the request")
	}
	if g := call.Principal.Grant; g != nil && g.Thread != canon {
		e := mesh.ThreadNotFound(op)
		e.Forbidden = true
		return mesh.ThreadKey{}, call, e
	}
	if call.Thread != "" && call.Thread != canon {
		return mesh.ThreadKey{}, call, mesh.InvalidField(op, "thread_id", "is not the thread-id of the call; send the same in both")
	}
	return mesh.ThreadKey{Tenant: call.Principal.Tenant, ID: canon}, call, nil
}

// AppendEvents implements meshv1.ThreadServiceServer: see package admission.
func (s *Threads) AppendEvents(ctx context.Context, req *meshv1.AppendEventsRequest) (*meshv1.AppendEventsResponse, error) {
	const op = "api.AppendEvents"
	g, err := grantOf(ctx, op)
	if err != nil {
		return nil, err
	}
	if _, _, err := keyFor(ctx, op, req.GetThreadId()); err != nil {
		return nil, err
	}
	add := s.admits.Append
	if req.GetDeferred() {
		add = s.admits.Accept
	}
	var added admission.Admitted
	err = s.log.Hold(ctx, g.Key(), func() error { // the agent is at work on what was accepted
		events, err := eventsOf(op, req)
		if err != nil {
			return err
		}
		added, err = add(ctx, g, events)
		return err
	})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	resp := &meshv1.AppendEventsResponse{Seq: int64(added.Seq), Tickets: map[string]string{}, Remaining: remaining(added.Left)}
	for id, g := range added.Grants {
		resp.Tickets[string(id)] = s.tickets.Make(g)
	}
	if resp.Contexts, err = s.contexts(ctx, g.Key(), added.Grants); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if resp.Instructions, err = instructions(ctx, s.states, g); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	for _, c := range added.Calls {
		if c.NotMade {
			resp.NotMade = append(resp.NotMade, c.Call)
			continue
		}
		if resp.Permits == nil {
			resp.Permits = map[string]string{}
		}
		resp.Permits[c.Call] = s.tickets.Permit(ctx, g, c)
	}
	return resp, nil
}

// eventsOf are the events of the request.
func eventsOf(op string, req *meshv1.AppendEventsRequest) ([]*mesh.Event, error) {
	events := make([]*mesh.Event, 0, len(req.GetEvents()))
	for i, p := range req.GetEvents() {
		e, err := eventpb.EventFromProto(p)
		if err != nil {
			return nil, mesh.InvalidField(op, fmt.Sprintf("events[%d]", i), "cannot be read: %s", mesh.DetailOf(err))
		}
		events = append(events, e)
	}
	return events, nil
}

// remaining is what is left as a message: what has no limit is not set.
// instructions is how many the grant's execution was given and has not read. Nobody tells
// one something that the user talks to.
func instructions(ctx context.Context, states *cache.States, g *mesh.Grant) (n int32, err error) {
	if g.Direct() {
		return 0, nil
	}
	err = states.With(ctx, g.Key(), func(st *thread.State) error {
		if x := st.Execution(g.Execution); x != nil {
			n = count(len(x.Instructions))
		}
		return nil
	})
	return n, err
}

func remaining(left *limit.Left) *meshv1.Remaining {
	if left == nil {
		return nil
	}
	some := func(n int64) *int64 {
		if n == limit.Unlimited {
			return nil
		}
		return &n
	}
	return &meshv1.Remaining{Calls: some(left.Calls), Agents: some(left.Agents), Tokens: some(left.Tokens), CostMicrodollars: some(left.Cost)}
}

// contexts are those in which the agents of the executions have the conversation.
func (s *Threads) contexts(ctx context.Context, key mesh.ThreadKey, of map[mesh.ExecutionID]mesh.Grant) (map[string]string, error) {
	if len(of) == 0 {
		return nil, nil
	}
	in := map[string]string{}
	return in, s.states.With(ctx, key, func(st *thread.State) error {
		for id := range of {
			if x := st.Execution(id); x != nil && x.RemoteContext != "" {
				in[string(id)] = x.RemoteContext
			}
		}
		return nil
	})
}

// GetThread implements meshv1.ThreadServiceServer.
func (s *Threads) GetThread(ctx context.Context, req *meshv1.GetThreadRequest) (*meshv1.GetThreadResponse, error) {
	const op = "api.GetThread"
	key, call, err := keyFor(ctx, op, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	resp := &meshv1.GetThreadResponse{}
	err = s.states.With(ctx, key, func(st *thread.State) error {
		if st.Seq == 0 || !st.MayRead(call.Principal) {
			return mesh.ThreadNotFound(op)
		}
		s.noteRead(ctx, key, &st.Access, call.Principal)
		if err := atWork(op, st, call.Principal.Grant); err != nil {
			return err
		}
		part := st.Part(call.Principal.Grant)
		resp.Thread = s.describePart(key, st, part, call.Principal.Grant)
		resp.Thread.BlobBytes = s.blobBytes(key)
		for _, x := range st.Executions() {
			if part.Has(x.ID) {
				resp.Thread.Executions = append(resp.Thread.Executions, describeExecution(x))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// ListThreads implements meshv1.ThreadServiceServer.
func (s *Threads) ListThreads(ctx context.Context, req *meshv1.ListThreadsRequest) (*meshv1.ListThreadsResponse, error) {
	const op, most, usual = "api.ListThreads", 100, 50
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	switch {
	case size == 0:
		size = usual
	case size < 1 || size > most:
		return nil, mesh.InvalidField(op, "page_size", "is %d; it must be 1 to %d", size, most)
	}
	var before int64
	if t := req.GetPageToken(); t != "" {
		if before, err = strconv.ParseInt(t, 36, 64); err != nil || before < 1 {
			return nil, mesh.InvalidField(op, "page_token", "is not one of ours; leave it out to begin anew")
		}
	}
	resp, byRole := &meshv1.ListThreadsResponse{}, false
	defer func() {
		if byRole {
			s.readByRole(ctx, "threads")
		}
	}()
	for {
		infos, err := s.log.Threads(ctx, call.Principal.Tenant, mesh.Pos(before), size)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		for _, info := range infos {
			if len(resp.Threads) == size {
				break
			}
			before = int64(info.LastPos)
			others, err := s.list(ctx, info, call.Principal, resp)
			if err != nil {
				return nil, mesh.Wrap(op, err)
			}
			byRole = byRole || others
		}
		if len(resp.Threads) == size && len(infos) == size {
			resp.NextPageToken = strconv.FormatInt(before, 36)
		}
		if len(resp.Threads) == size || len(infos) < size {
			return resp, nil
		}
	}
}

// list adds the thread to the list, if the caller may read it and it was not deleted
// meanwhile. byRole says that it is there because a role allows it.
func (s *Threads) list(ctx context.Context, info threadlog.Info, p mesh.Principal, to *meshv1.ListThreadsResponse) (byRole bool, err error) {
	a, err := s.access(ctx, info.Key)
	if err != nil || !a.MayRead(p) {
		return false, err
	}
	st, err := s.states.Summary(ctx, info.Key)
	is := &meshv1.Thread{ThreadId: info.Key.ID, Seq: int64(info.Last), Owner: a.Owner, Damaged: true}
	switch {
	case mesh.IsCode(err, mesh.DataLoss): // it is there, and nobody can say more of it
	case err != nil || st.Seq == 0:
		return false, err
	default:
		is = s.describe(info.Key, &st)
		is.Damaged = info.Damaged
	}
	to.Threads = append(to.Threads, is)
	return !a.Involves(p), nil
}

// existing returns the key of a thread that has events, what was known of it, and who may
// read it: under a grant, that of an execution that was not over then.
func (s *Threads) existing(ctx context.Context, op, id string, after int64) (key mesh.ThreadKey, info threadlog.Info, p mesh.Principal, err error) {
	key, call, err := keyFor(ctx, op, id)
	if p = call.Principal; err != nil {
		return key, info, p, err
	}
	if after < 0 {
		return key, info, p, mesh.InvalidField(op, "after_seq", "is %d; it must be the seq of an event, or 0", after)
	}
	if p.Grant != nil { // what an agent reads has what agents were answered for
		if err := s.states.Land(ctx, key); err != nil {
			return key, info, p, mesh.Wrap(op, err)
		}
	}
	info, there, err := s.log.Info(ctx, key)
	if err != nil {
		return key, info, p, mesh.Wrap(op, err)
	}
	if !there {
		return key, info, p, mesh.ThreadNotFound(op)
	}
	return key, info, p, s.mayRead(ctx, op, key, p)
}

// atWork refuses a grant whose execution is over, or is none of the thread's.
func atWork(op string, st *thread.State, g *mesh.Grant) error {
	if g == nil {
		return nil
	}
	switch x := st.Execution(g.Execution); {
	case x == nil:
		return mesh.ThreadNotFound(op)
	case mesh.Terminal(x.State):
		return admission.Over(op)
	}
	return nil
}

// FollowThread implements meshv1.ThreadServiceServer. A follower under a grant
// is cut off when the grant expires or its execution is over; for it sees the end
// of its execution among the events, it cannot begin after the last one.
func (s *Threads) FollowThread(req *meshv1.FollowThreadRequest, stream grpc.ServerStreamingServer[meshv1.FollowThreadResponse]) error {
	const op = "api.FollowThread"
	ctx := stream.Context()
	key, info, p, err := s.existing(ctx, op, req.GetThreadId(), req.GetAfterSeq())
	if err != nil {
		return err
	}
	g := p.Grant
	if after := req.GetAfterSeq(); g != nil && after > int64(info.Last) {
		return mesh.InvalidField(op, "after_seq", "is %d, and the thread has %d events; under a grant it must be the seq of one of them, or 0", after, info.Last)
	}
	if err := accept(stream); err != nil {
		return err
	}
	if g != nil {
		expires, cancel := context.WithDeadline(ctx, time.Unix(g.Expires, 0))
		defer cancel()
		ctx = expires
	}
	for e, err := range s.log.Follow(ctx, key, info.FirstPos, mesh.Seq(req.GetAfterSeq())) {
		if err != nil {
			return mesh.Wrap(op, err)
		}
		if e.Seq > info.Last {
			if err := s.widens(ctx, op, key, g, e); err != nil {
				return err
			}
		}
		shown, err := s.show(ctx, key, g, e)
		if err != nil {
			return mesh.Wrap(op, err)
		}
		for _, e := range shown {
			if err := stream.Send(&meshv1.FollowThreadResponse{Event: eventpb.EventToProto(e)}); err != nil {
				return mesh.Errorf(mesh.Canceled, op, "The caller is gone: %w", err)
			}
		}
		if err := s.mayGoOn(ctx, op, key, p, e); err != nil {
			return err
		}
	}
	return nil
}
