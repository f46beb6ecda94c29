// Package a2a is the mesh's A2A surface: it turns the calls of A2A v1.0 into
// calls of one small [Service], which the edge and the agent runtime implement.
//
// It guarantees that a Service sees valid requests only, and that a client
// sees what A2A v1.0 promises: a stream begins with the task, goes on with
// updates in order, and ends with the terminal one, or where the task waits
// for its user; every refusal is a typed error with its A2A reason.
//
// A server is stateless and safe for concurrent use; it starts no goroutine.
// It relies on the interceptors of package rpc for the caller's identity and
// for turning errors into statuses. It is not a task store, and it knows
// nothing of threads or agents.
package a2a

import (
	"context"
	"iter"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// Accepted is a message that was taken: the task that it opened or continues,
// and the cursor after which its updates begin. Or it is answered with a Message: then
// there is no task.
type Accepted struct {
	Task    *a2apb.Task
	Cursor  mesh.Seq
	Message *a2apb.Message
}

// An Update is one status or artifact update of a task. Response is shared and
// read-only.
type Update struct {
	Seq      mesh.Seq
	Response *a2apb.StreamResponse
	// Wire, if it is not nil, returns the wire bytes, shared and read-only too, or nil
	// if they are not at hand. It is called before the next update is asked for.
	Wire func() []byte
}

// A Service is what an A2A task server must be able to do. Its methods may be
// called concurrently; the caller's identity, cursor and extensions are in
// [mesh.CallFrom] of ctx. A task that does not exist and one that the caller
// may not see are both [mesh.TaskNotFound].
type Service interface {
	// Capabilities returns those of the agent card, shared and read-only. They
	// are read with every call, so that they must cost nothing.
	Capabilities() *a2apb.AgentCapabilities

	// Send takes a validated message. When it returns, the message is as
	// durable as the Service makes it and the task lives on without the caller.
	Send(ctx context.Context, req *a2apb.SendMessageRequest) (*Accepted, error)

	// Task returns the task with its artifacts and history, and the cursor
	// after the last update that it includes. The server may give the caller
	// a shallow copy with less history, but changes nothing.
	Task(ctx context.Context, id string) (*a2apb.Task, mesh.Seq, error)

	// Bare is Task without artifacts, which may cost much less.
	Bare(ctx context.Context, id string) (*a2apb.Task, mesh.Seq, error)

	// Updates yields the updates after the cursor, in order, in the shape that
	// the caller may see: with the sequence number (see [SetSeq]) only when the
	// caller activated our extension or wants that alone ([mesh.Call.WantSeq]). It ends after the terminal
	// update, and after the last one of a task that is over.
	Updates(ctx context.Context, id string, after mesh.Seq) iter.Seq2[Update, error]

	// Cancel ends the task and returns it, canceled. A task that is over is a
	// [NotCancelable] error.
	Cancel(ctx context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error)
}
