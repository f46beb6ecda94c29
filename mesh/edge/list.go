package edge

import (
	"context"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/thread/tasks"
)

var (
	_ a2a.Lister   = (*Edge)(nil)
	_ a2a.Extender = (*Edge)(nil)
)

// maxPage bounds a page of tasks, in bytes, so that clients with the usual
// limit of 4 MiB can read it. A page has one task at least, whatever its size.
const maxPage = mesh.MaxMessage

// List implements a2a.Lister. The tasks are those that GetTask would find, for
// who addresses an agent those of that agent, wherever it is now. Each
// is as it was when the page was made up, and as the filters want it, although
// it may have moved on meanwhile. A page may be short because of its size.
func (e *Edge) List(ctx context.Context, req *a2apb.ListTasksRequest) (*a2apb.ListTasksResponse, error) {
	const op = "edge.List"
	call, err := e.caller(ctx, op)
	if err != nil {
		return nil, err
	}
	if err := sameTenant(call, req.GetTenant()); err != nil {
		return nil, err
	}
	if e.Tasks == nil {
		return nil, a2a.UnsupportedOperation(op, "Tasks are not listed here; read one with GetTask")
	}
	q, err := e.query(call, req)
	if err != nil {
		return nil, err
	}
	page, err := e.Tasks.List(ctx, q)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if page.Total == 0 {
		if err := e.known(ctx, op, call); err != nil {
			return nil, err
		}
	}
	res := &a2apb.ListTasksResponse{PageSize: req.GetPageSize(), TotalSize: int32(page.Total)}
	size := 0
	for i, t := range page.Tasks {
		task, err := e.listed(ctx, call, req, t)
		if mesh.IsCode(err, mesh.NotFound) { // deleted just now
			continue
		}
		if mesh.IsCode(err, mesh.DataLoss) { // it is there, and nobody can say more of it
			task, err = unreadable(t), nil
		}
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		if size += proto.Size(task); size > maxPage && len(res.Tasks) > 0 {
			res.NextPageToken = e.Tasks.Token(q, page.Tasks[i-1])
			return res, nil
		}
		res.Tasks = append(res.Tasks, task)
	}
	if page.More {
		res.NextPageToken = e.Tasks.Token(q, page.Tasks[len(page.Tasks)-1])
	}
	return res, nil
}

// query returns what the request asks the index for. A call within a thread
// asks for that thread's tasks.
func (e *Edge) query(call mesh.Call, req *a2apb.ListTasksRequest) (tasks.Query, error) {
	q := tasks.Query{
		Tenant: call.Principal.Tenant, Caller: call.Principal, Agent: call.Agent,
		Thread: req.GetContextId(), State: req.GetStatus(), Limit: int(req.GetPageSize()), Token: req.GetPageToken(),
	}
	if q.Thread != "" && e.Contexts != nil && !call.Extended() && call.Thread == "" {
		q.Thread = e.Contexts.Thread(q.Tenant, q.Caller.User, q.Thread)
	}
	switch {
	case q.Thread == "":
		q.Thread = call.Thread
	case call.Thread != "" && call.Thread != q.Thread:
		return q, mesh.InvalidField("edge.List", "context_id", "is not the thread-id of the call; send one of them, or both the same")
	}
	if ts := req.GetStatusTimestampAfter(); ts != nil {
		q.Since = ts.AsTime()
	}
	return q, nil
}

// listed returns the task as it stood where the index has it, with as much of
// it as the request wants.
func (e *Edge) listed(ctx context.Context, call mesh.Call, req *a2apb.ListTasksRequest, t tasks.Task) (*a2apb.Task, error) {
	key := mesh.ThreadKey{Tenant: call.Principal.Tenant, ID: t.Thread}
	task, err := e.snapshot(ctx, call, key, t.ID, t.Seq, !req.GetIncludeArtifacts())
	if err != nil {
		return nil, err
	}
	access, err := e.Tasks.Access(ctx, key)
	if err != nil {
		return nil, err
	}
	e.noteRead(ctx, t.Thread, &access, call.Principal)
	if n := req.HistoryLength; n != nil {
		task.History = task.History[max(0, len(task.History)-int(*n)):]
	}
	if call.Extended() || call.WantSeq {
		task.Metadata = a2a.SetSeq(task.Metadata, t.Seq)
	}
	return task, nil
}

// unreadable is a task of a conversation that cannot be read, as far as the index has it.
func unreadable(t tasks.Task) *a2apb.Task {
	return &a2apb.Task{Id: string(t.ID), ContextId: t.Thread, Status: &a2apb.TaskStatus{State: t.State, Timestamp: timestamppb.New(t.Since)}}
}

// ExtendedCard implements a2a.Extender: the card with the agents that the
// caller's tenant may use.
func (e *Edge) ExtendedCard(ctx context.Context) (*a2apb.AgentCard, error) {
	call, err := e.caller(ctx, "edge.ExtendedCard")
	if err != nil {
		return nil, err
	}
	return e.Card(ctx, call.Principal.Tenant)
}
