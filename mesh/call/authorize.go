package call

import (
	"context"
	"iter"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	"agentmesh/mesh"
	"agentmesh/mesh/security/credentials"
)

// authorized has the client's calls carry what the sender adds; it is the client itself if
// that is nil.
func authorized(c Client, s *credentials.Sender) Client {
	if s == nil {
		return c
	}
	return authorizing{c, s}
}

// authorizing makes each call with the agent's credentials. One that the agent refuses for
// its token, before it said anything, is made once more with another token.
type authorizing struct {
	agent  Client
	sender *credentials.Sender
}

type attachmentKey struct{}

// attached is what a call carries; nil for nothing.
func attached(ctx context.Context) *credentials.Attachment {
	a, _ := ctx.Value(attachmentKey{}).(*credentials.Attachment)
	return a
}

// with makes a call, and again if it was refused for a token and there is another one. The
// call reports whether it began.
func (c authorizing) with(ctx context.Context, do func(context.Context) (begun bool, err error)) error {
	for again := true; ; again = false {
		a, err := c.sender.Attach(ctx)
		if err != nil {
			return err
		}
		begun, err := do(context.WithValue(ctx, attachmentKey{}, a))
		if begun || !again || !mesh.IsCode(err, mesh.Unauthenticated) || !c.sender.Renew(a) {
			return a.Conceal(err)
		}
	}
}

func (c authorizing) SendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (resp *a2apb.SendMessageResponse, err error) {
	err = c.with(ctx, func(ctx context.Context) (bool, error) {
		resp, err = c.agent.SendMessage(ctx, req)
		return false, err
	})
	return resp, err
}

func (c authorizing) GetTask(ctx context.Context, task string) (t *a2apb.Task, err error) {
	err = c.with(ctx, func(ctx context.Context) (bool, error) {
		t, err = c.agent.GetTask(ctx, task)
		return false, err
	})
	return t, err
}

func (c authorizing) CancelTask(ctx context.Context, task string) error {
	return c.with(ctx, func(ctx context.Context) (bool, error) { return false, c.agent.CancelTask(ctx, task) })
}

func (c authorizing) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[Response, error] {
	return c.stream(ctx, func(ctx context.Context) iter.Seq2[Response, error] { return c.agent.SendStreamingMessage(ctx, req) })
}

func (c authorizing) SubscribeToTask(ctx context.Context, task string) iter.Seq2[Response, error] {
	return c.stream(ctx, func(ctx context.Context) iter.Seq2[Response, error] { return c.agent.SubscribeToTask(ctx, task) })
}

func (c authorizing) stream(ctx context.Context, open func(context.Context) iter.Seq2[Response, error]) iter.Seq2[Response, error] {
	return func(yield func(Response, error) bool) {
		left := false
		err := c.with(ctx, func(ctx context.Context) (begun bool, err error) {
			for resp, err := range open(ctx) {
				if err != nil {
					return begun, err
				}
				if begun = true; !yield(resp, nil) {
					left = true
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

// carrying is a connection whose calls carry what is attached to their context. It is put
// on below the metadata of the mesh, which keeps authorization for itself.
type carrying struct{ *grpc.ClientConn }

// Invoke implements [grpc.ClientConnInterface].
func (c carrying) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.ClientConn.Invoke(ctx, method, args, reply, withAttached(ctx, opts)...)
}

// NewStream implements [grpc.ClientConnInterface].
func (c carrying) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConn.NewStream(ctx, desc, method, withAttached(ctx, opts)...)
}

func withAttached(ctx context.Context, opts []grpc.CallOption) []grpc.CallOption {
	a := attached(ctx)
	if a == nil {
		return opts
	}
	return append(opts[:len(opts):len(opts)], grpc.PerRPCCredentials(fixed(a.Metadata())))
}

// fixed are the credentials of one call. Whether they may travel was decided before.
type fixed map[string]string

// GetRequestMetadata is of gRPC's PerRPCCredentials.
func (f fixed) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return f, nil
}

// RequireTransportSecurity is of gRPC's PerRPCCredentials.
func (fixed) RequireTransportSecurity() bool { return false }
