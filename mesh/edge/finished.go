package edge

import (
	"context"
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// Bounds of the tasks that an edge keeps put together after they ended: how many,
// and of how many bytes each. They cannot change any more, and are what lists and
// those who ask again want.
const (
	maxFinished     = 2048
	maxFinishedSize = 8 << 10
)

// A finished task is kept by its thread and id, and beside it, where that is too large, what it
// is without artifacts.
type finishedKey struct {
	thread mesh.ThreadKey
	task   mesh.ExecutionID
	bare   bool
}

type finished struct {
	task  *a2apb.Task
	agent string        // that it began with
	named string        // the context id that it was opened with, or "" for the thread's id
	ended mesh.Seq      // the last event that it has
	first mesh.Pos      // of the thread that it is in
	owned thread.Access // what of it does not change: the owner
}

// finished returns the task, or also one that is bare, if it is kept, and its thread is still
// there.
func (e *Edge) finished(ctx context.Context, key mesh.ThreadKey, id mesh.ExecutionID, bare bool) (*finished, error) {
	at := finishedKey{thread: key, task: id}
	f, kept := e.kept.Get(at)
	if !kept && bare {
		at.bare = true
		f, kept = e.kept.Get(at)
	}
	if !kept {
		return nil, nil
	}
	info, ok, err := e.Log.Info(ctx, key)
	if err != nil {
		return nil, mesh.Wrap("edge.finished", err)
	}
	if !ok || info.FirstPos != f.first {
		e.kept.Remove(at)
		return nil, nil
	}
	return f, nil
}

// keep keeps the task, which ended at f.ended, unless it is large.
func (e *Edge) keep(key mesh.ThreadKey, f *finished, bare bool) {
	if proto.Size(f.task) <= maxFinishedSize {
		f.task = copied(f.task)
		e.kept.Add(finishedKey{key, mesh.ExecutionID(f.task.Id), bare}, f)
	}
}

// shown is the task as the caller sees it, who is one more owner of it.
func (e *Edge) shown(call mesh.Call, key mesh.ThreadKey, f *finished, bare bool) *a2apb.Task {
	t := copied(thread.InContext(f.task, e.Contexts.Shown(key, call, f.named)))
	if bare {
		t.Artifacts = nil
	}
	e.link(key).Task(t)
	return t
}

// link says where the thread's blobs are read.
func (e *Edge) link(key mesh.ThreadKey) thread.Link {
	if e.Blobs == nil {
		return nil
	}
	return func(b mesh.Blob, name string) string { return e.Blobs(key, b, name) }
}

// copied is the task for one more owner. What it points to is nobody's.
func copied(t *a2apb.Task) *a2apb.Task {
	return &a2apb.Task{Id: t.Id, ContextId: t.ContextId, Status: t.Status,
		Artifacts: slices.Clone(t.Artifacts), History: slices.Clone(t.History), Metadata: t.Metadata}
}
