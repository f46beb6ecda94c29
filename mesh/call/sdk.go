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

// sdkClient speaks v0.3 over gRPC, through the official SDK.
type sdkClient struct {
	agent  a2aclient.Transport
	tenant string // the agent's own
}

// params returns ctx for a call in v0.3, and its headers.
func (c sdkClient) params(ctx context.Context) (context.Context, a2aclient.ServiceParams, error) {
	p, err := params(ctx, true)
	if v := p[extensionsOld]; v != nil { // the SDK renames it itself
		delete(p, extensionsOld)
		p[a2a.SvcParamExtensions] = v
	}
	call, _ := mesh.CallFrom(ctx)
	call.Version = rpc.VersionOld
	return mesh.WithCall(ctx, call), p, err
}

// extensionsOld is the name of the header of extensions in v0.3.
const extensionsOld = "X-" + a2a.SvcParamExtensions

// params are the headers of a call, under the names that gRPC metadata has.
func params(ctx context.Context, old bool) (map[string][]string, error) {
	call, _ := mesh.CallFrom(ctx)
	ticket, err := call.MakeTicket(ctx)
	if err != nil {
		return nil, mesh.Wrap("call.params", err)
	}
	p := map[string][]string{}
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
	if extensions := strings.Join(call.Extensions, ","); old { // which has no header for the version
		set(extensionsOld, extensions)
	} else {
		set(a2a.SvcParamExtensions, extensions)
		set(a2a.SvcParamVersion, rpc.Version)
	}
	return p, nil
}

// request is the SDK's form of the request, with the agent's tenant, and its headers.
func (c sdkClient) request(ctx context.Context, req *a2apb.SendMessageRequest) (context.Context, a2aclient.ServiceParams, *a2a.SendMessageRequest, error) {
	ctx, params, err := c.params(ctx)
	if err != nil {
		return ctx, nil, nil, err
	}
	out, err := sdkRequest(req, c.tenant)
	return ctx, params, out, err
}

// sdkRequest is the SDK's form of the request.
func sdkRequest(req *a2apb.SendMessageRequest, tenant string) (*a2a.SendMessageRequest, error) {
	out, err := pbconv.FromProtoSendMessageRequest(req)
	if err != nil {
		return nil, unsendable(err)
	}
	out.Tenant = tenant
	return out, nil
}

func (c sdkClient) SendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	ctx, params, send, err := c.request(ctx, req)
	if err != nil {
		return nil, err
	}
	result, err := c.agent.SendMessage(ctx, params, send)
	if err != nil {
		return nil, fromSDK(err)
	}
	resp, err := pbconv.ToProtoSendMessageResponse(result)
	return resp, inconvertible(err)
}

func (c sdkClient) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[Response, error] {
	ctx, params, send, err := c.request(ctx, req)
	if err != nil {
		return only(err)
	}
	return converted(c.agent.SendStreamingMessage(ctx, params, send))
}

func (c sdkClient) GetTask(ctx context.Context, task string) (*a2apb.Task, error) {
	ctx, params, err := c.params(ctx)
	if err != nil {
		return nil, err
	}
	got, err := c.agent.GetTask(ctx, params, &a2a.GetTaskRequest{Tenant: c.tenant, ID: a2a.TaskID(task)})
	if err != nil {
		return nil, fromSDK(err)
	}
	t, err := pbconv.ToProtoTask(got)
	return t, inconvertible(err)
}

func (c sdkClient) CancelTask(ctx context.Context, task string) error {
	ctx, params, err := c.params(ctx)
	if err != nil {
		return err
	}
	_, err = c.agent.CancelTask(ctx, params, &a2a.CancelTaskRequest{Tenant: c.tenant, ID: a2a.TaskID(task)})
	return fromSDK(err)
}

// SubscribeToTask is not asked of v0.3 agents: their streams begin with what
// happens next, so that nobody could tell what was missed.
func (c sdkClient) SubscribeToTask(context.Context, string) iter.Seq2[Response, error] {
	return only(mesh.Errorf(mesh.Unsupported, "call.SubscribeToTask", "A2A v0.3 cannot resume a stream"))
}

func only(err error) iter.Seq2[Response, error] {
	return func(yield func(Response, error) bool) { yield(Response{}, err) }
}

// converted is a stream of the SDK in the types of the mesh.
func converted(stream iter.Seq2[a2a.Event, error]) iter.Seq2[Response, error] {
	return func(yield func(Response, error) bool) {
		for ev, err := range stream {
			var resp *a2apb.StreamResponse
			if err == nil {
				resp, err = pbconv.ToProtoStreamResponse(ev)
				err = inconvertible(err)
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

// inconvertible is the error of what the SDK has read and cannot say in v1.0.
func inconvertible(err error) error {
	if err == nil {
		return nil
	}
	return misreadError(&unreadable{offset: -1, want: "A2A", cause: err})
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
			if errors.Is(r.err, a2a.ErrVersionNotSupported) {
				e.Reason = ReasonVersion
			}
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
