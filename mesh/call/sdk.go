package call

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1/pbconv"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// sdkClient speaks through a transport of the official SDK: every binding and
// version but v1.0 over gRPC.
type sdkClient struct {
	agent  a2aclient.Transport
	tenant string // the agent's own
	old    bool   // v0.3
}

// params are the headers of a call, under the names that gRPC metadata has.
func (c sdkClient) params(ctx context.Context) (a2aclient.ServiceParams, error) {
	call, _ := mesh.CallFrom(ctx)
	ticket, err := call.MakeTicket(ctx)
	if err != nil {
		return nil, mesh.Wrap("call.params", err)
	}
	p := a2aclient.ServiceParams{}
	set := func(key, value string) {
		if value != "" {
			p[key] = []string{value}
		}
	}
	set(rpc.KeyTenant, string(call.Principal.Tenant))
	set(rpc.KeyUser, call.Principal.User)
	set(rpc.KeyThread, call.Thread)
	set(rpc.KeyParentTask, call.ParentTask)
	set(rpc.KeyExecution, string(call.Execution))
	set(rpc.KeyTicket, ticket)
	set(rpc.KeyTraceparent, call.Traceparent)
	set(a2a.SvcParamExtensions, strings.Join(call.Extensions, ","))
	if !c.old { // v0.3 has no such header
		set(a2a.SvcParamVersion, rpc.Version)
	}
	return p, nil
}

// request is the SDK's form of the request, with the agent's tenant, and its headers.
func (c sdkClient) request(ctx context.Context, req *a2apb.SendMessageRequest) (a2aclient.ServiceParams, *a2a.SendMessageRequest, error) {
	params, err := c.params(ctx)
	if err != nil {
		return nil, nil, err
	}
	out, err := pbconv.FromProtoSendMessageRequest(req)
	if err != nil {
		return nil, nil, &mesh.Error{Code: mesh.Invalid, Op: "call.request", Detail: "The message cannot be sent to this agent", Err: err}
	}
	out.Tenant = c.tenant
	return params, out, nil
}

func (c sdkClient) SendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	params, send, err := c.request(ctx, req)
	if err != nil {
		return nil, err
	}
	result, err := c.agent.SendMessage(ctx, params, send)
	if err != nil {
		return nil, fromSDK(err)
	}
	resp, err := pbconv.ToProtoSendMessageResponse(result)
	return resp, fromSDK(err)
}

func (c sdkClient) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[Response, error] {
	params, send, err := c.request(ctx, req)
	if err != nil {
		return only(err)
	}
	return events(c.agent.SendStreamingMessage(ctx, params, send))
}

func (c sdkClient) GetTask(ctx context.Context, task string) (*a2apb.Task, error) {
	params, err := c.params(ctx)
	if err != nil {
		return nil, err
	}
	got, err := c.agent.GetTask(ctx, params, &a2a.GetTaskRequest{Tenant: c.tenant, ID: a2a.TaskID(task)})
	if err != nil {
		return nil, fromSDK(err)
	}
	t, err := pbconv.ToProtoTask(got)
	return t, fromSDK(err)
}

func (c sdkClient) CancelTask(ctx context.Context, task string) error {
	params, err := c.params(ctx)
	if err != nil {
		return err
	}
	_, err = c.agent.CancelTask(ctx, params, &a2a.CancelTaskRequest{Tenant: c.tenant, ID: a2a.TaskID(task)})
	return fromSDK(err)
}

// SubscribeToTask is not asked of v0.3 agents: their streams begin with what
// happens next, so that nobody could tell what was missed.
func (c sdkClient) SubscribeToTask(ctx context.Context, task string) iter.Seq2[Response, error] {
	if c.old {
		return only(mesh.Errorf(mesh.Unsupported, "call.SubscribeToTask", "A2A v0.3 cannot resume a stream"))
	}
	params, err := c.params(ctx)
	if err != nil {
		return only(err)
	}
	return events(c.agent.SubscribeToTask(ctx, params, &a2a.SubscribeToTaskRequest{Tenant: c.tenant, ID: a2a.TaskID(task)}))
}

func only(err error) iter.Seq2[Response, error] {
	return func(yield func(Response, error) bool) { yield(Response{}, err) }
}

// events is a stream of the SDK in the types of the mesh.
func events(stream iter.Seq2[a2a.Event, error]) iter.Seq2[Response, error] {
	return func(yield func(Response, error) bool) {
		for ev, err := range stream {
			var resp *a2apb.StreamResponse
			if err == nil {
				resp, err = pbconv.ToProtoStreamResponse(ev)
			}
			if err != nil {
				yield(Response{}, fromSDK(err))
				return
			}
			if !yield(Response{StreamResponse: resp}, nil) {
				return
			}
		}
	}
}

// refusals are what agents say, in the SDK's words and in ours.
var refusals = []struct {
	err  error
	code mesh.Code
}{
	{a2a.ErrTaskNotFound, mesh.NotFound},
	{a2a.ErrTaskNotCancelable, mesh.Precondition},
	{a2a.ErrUnsupportedOperation, mesh.Unsupported},
	{a2a.ErrMethodNotFound, mesh.Unsupported},
	{a2a.ErrVersionNotSupported, mesh.Unsupported},
	{a2a.ErrInvalidParams, mesh.Invalid},
	{a2a.ErrInvalidRequest, mesh.Invalid},
	{a2a.ErrUnsupportedContentType, mesh.Invalid},
	{a2a.ErrExtensionSupportRequired, mesh.Invalid},
	{a2a.ErrUnauthenticated, mesh.Unauthenticated},
	{a2a.ErrUnauthorized, mesh.Denied},
}

// fromSDK returns an error of the SDK as a *mesh.Error. Only what the agent
// itself said is for users: the SDK's own words name addresses.
func fromSDK(err error) error {
	if err == nil {
		return nil
	}
	if e := (*mesh.Error)(nil); errors.As(err, &e) {
		return e
	}
	e := &mesh.Error{Code: mesh.CodeOf(err), Op: "call", Err: err}
	for _, r := range refusals {
		if said := (*a2a.Error)(nil); errors.Is(err, r.err) {
			if e.Code = r.code; errors.As(err, &said) {
				e.Detail = said.Message
			}
			return e
		}
	}
	if broke := net.Error(nil); e.Code == mesh.Unknown && (errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &broke)) {
		e.Code = mesh.Unavailable
	}
	return e
}
