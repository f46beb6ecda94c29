package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/rpc"
)

// a2aService is the service whose events carry their Seq in metadata.
const a2aService = "lf.a2a.v1.A2AService"

// method is a server-streaming RPC and one of its HTTP bindings.
type method struct {
	name    string // as gRPC wants it: "/lf.a2a.v1.A2AService/SubscribeToTask"
	input   protoreflect.MessageType
	output  protoreflect.MessageType
	a2a     bool
	hasBody bool // the request message is the HTTP body
}

// served are the methods that may have routes: those of A2A and of the mesh's own services.
func served() iter.Seq[protoreflect.MethodDescriptor] {
	return func(yield func(protoreflect.MethodDescriptor) bool) {
		all := func(file protoreflect.FileDescriptor) bool {
			for s := range file.Services().Len() {
				methods := file.Services().Get(s).Methods()
				for i := range methods.Len() {
					if !yield(methods.Get(i)) {
						return false
					}
				}
			}
			return true
		}
		if all(a2apb.File_a2av1_proto) {
			protoregistry.GlobalFiles.RangeFilesByPackage(meshv1.File_mesh_v1_thread_proto.Package(), all)
		}
	}
}

// registerStreams adds a handler for every binding of every server-streaming
// method, found in the descriptors, over the generated ones: the router asks
// the route that was added last first.
func (g *gateway) registerStreams(ctx context.Context) error {
	for d := range served() {
		if err := g.registerStream(ctx, d); err != nil {
			return fmt.Errorf("%s: %w", d.FullName(), err)
		}
	}
	return nil
}

func (g *gateway) registerStream(ctx context.Context, d protoreflect.MethodDescriptor) error {
	rule, ok := proto.GetExtension(d.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil || !d.IsStreamingServer() || d.IsStreamingClient() {
		return nil
	}
	input, err := protoregistry.GlobalTypes.FindMessageByName(d.Input().FullName())
	if err != nil {
		return err
	}
	output, err := protoregistry.GlobalTypes.FindMessageByName(d.Output().FullName())
	if err != nil {
		return err
	}
	service := d.Parent().FullName()
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		m := method{
			name:   fmt.Sprintf("/%s/%s", service, d.Name()),
			input:  input,
			output: output,
			a2a:    service == a2aService,
		}
		verb, path := http.MethodGet, r.GetGet()
		if path == "" {
			verb, path = http.MethodPost, r.GetPost()
			m.hasBody = r.GetBody() == "*"
		}
		if path == "" || r.GetBody() != "" && !m.hasBody {
			return errors.New("a stream needs the binding get, or post with body \"*\" or none")
		}
		if err := g.mux.HandlePath(verb, path, g.streamHandler(ctx, m)); err != nil {
			return err
		}
		// The A2A proto says GET for subscribing, its text says POST.
		if m.a2a && verb == http.MethodGet {
			if err := g.mux.HandlePath(http.MethodPost, path, g.streamHandler(ctx, m)); err != nil {
				return err
			}
		}
	}
	return nil
}

// request returns the request message that r is. A cursor in the headers also
// goes into the field after_seq, where there is one: a browser that reconnects
// sends the address it began with, and where it is in Last-Event-ID.
func (m method) request(r *http.Request, pathParams map[string]string) (proto.Message, *status.Status) {
	msg := m.input.New().Interface()
	if m.hasBody {
		err := codec{}.NewDecoder(r.Body).Decode(msg)
		if err != nil && !errors.Is(err, io.EOF) {
			if b, ok := r.Body.(*body); ok && b.fault != nil {
				return nil, b.fault
			}
			return nil, invalid("body", "is not valid")
		}
	} else if err := runtime.PopulateQueryParameters(msg, r.URL.Query(), utilities.NewDoubleArray(nil)); err != nil {
		return nil, queryFault(err.Error())
	}
	for name, value := range pathParams {
		if err := runtime.PopulateFieldFromPath(msg, name, value); err != nil {
			return nil, invalid(name, "%v", err)
		}
	}
	if cursor := admitted(r.Context())[rpc.KeyAfterSeq]; len(cursor) > 0 {
		if f := m.input.Descriptor().Fields().ByName("after_seq"); f != nil {
			if err := runtime.PopulateFieldFromPath(msg, string(f.Name()), cursor[0]); err != nil {
				return nil, invalid(rpc.KeyAfterSeq, "%v", err)
			}
		}
	}
	return msg, nil
}
