package rest

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"agentmesh/mesh/rpc"
)

// Binding is what the HTTP bindings of A2A have in common, for a package that
// serves another one: bodies, headers, the call to the node, and streams. It
// is safe for concurrent use.
type Binding struct{ g *gateway }

// NewBinding returns a binding over conn, which leads to the services.
// Of the options it uses MaxBody, Heartbeat and Logger. It refuses negative
// ones with [mesh.Invalid].
func NewBinding(conn rpc.Conn, opts Options) (*Binding, error) {
	opts, err := opts.complete("rest.NewBinding")
	if err != nil {
		return nil, err
	}
	return &Binding{&gateway{conn: hop{conn}, opts: opts}}, nil
}

// ReadBody reads the request's body, if its headers say who sends it. If that is not
// known, or the body is too long, cut off, or not said to be JSON, it returns the HTTP code and the error to answer with.
func (b *Binding) ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, int, *status.Status) {
	in, code, bad := b.g.readBody(w, claiming(r))
	if bad != nil {
		return nil, code, bad
	}
	return in.raw, 0, nil
}

// Known says why it is not known who sends the request, by its headers alone, or nil.
func (b *Binding) Known(r *http.Request) *status.Status {
	if _, err := b.g.conn.Known(claiming(r).Context()); err != nil {
		return status.Convert(err)
	}
	return nil
}

// claiming returns the request with what its headers claim. What else is wrong with them,
// whoever admits it says.
func claiming(r *http.Request) *http.Request {
	claims, bad := incoming(r, nil)
	if bad != nil {
		claims = metadata.MD{rpc.KeyAuth: r.Header.Values(rpc.KeyAuth), rpc.KeyGrant: r.Header.Values(rpc.KeyGrant)}
	}
	return r.WithContext(context.WithValue(r.Context(), metadataKey{}, claims))
}

// Admit returns the request with the metadata that its headers become, as
// Invoke and Stream need it, or what is wrong with its headers.
func (b *Binding) Admit(r *http.Request) (*http.Request, *status.Status) {
	md, bad := incoming(r, nil)
	if bad != nil {
		return nil, bad
	}
	return r.WithContext(context.WithValue(r.Context(), metadataKey{}, md)), nil
}

// Invoke calls a unary method, named as gRPC wants it, for an admitted
// request. It adds to w's header what the node says of extensions.
func (b *Binding) Invoke(w http.ResponseWriter, r *http.Request, method string, in, out proto.Message) error {
	var header metadata.MD
	if err := b.g.conn.Invoke(r.Context(), method, in, out, grpc.Header(&header)); err != nil {
		return err
	}
	for _, v := range header[rpc.KeyExtensions] {
		w.Header().Add(headerExtensions, v)
	}
	return nil
}

// Call is a call of a server-streaming method of A2A.
type Call struct {
	Method string // as gRPC wants it: "/lf.a2a.v1.A2AService/SubscribeToTask"
	In     proto.Message
	Out    protoreflect.MessageType
}

// Stream makes the call for an admitted request and writes its messages as
// server-sent events, just as New's handler does. It returns when the stream
// has ended, which the end of closing brings about.
func (b *Binding) Stream(closing context.Context, w http.ResponseWriter, r *http.Request, c Call, framing Framing) {
	b.g.stream(closing, w, r, method{name: c.Method, output: c.Out, a2a: true}, c.In, framing)
}

// Framing is how a binding writes what a stream carries. Everything is on one
// line. But for Refuse, the zero value is the framing of HTTP+JSON.
type Framing struct {
	// Before and After stand around the JSON of every message.
	Before, After string
	// Message appends the JSON of a message, when that is not its ProtoJSON.
	Message func([]byte, proto.Message) ([]byte, error)
	// Error returns the JSON of the error that ends a stream; by default it is
	// the body of an HTTP error.
	Error func(*status.Status) []byte
	// Refuse answers a call that was not accepted: nothing is written yet.
	Refuse func(*status.Status)
}

func (f Framing) message(b []byte, m proto.Message) ([]byte, error) {
	if f.Message != nil {
		return f.Message(b, m)
	}
	return appendJSON(b, m)
}

func (f Framing) failure(st *status.Status) []byte {
	if f.Error != nil {
		return f.Error(st)
	}
	return errorBody(runtime.HTTPStatusFromCode(st.Code()), st)
}

// Decode reads ProtoJSON into m: camelCase or snake_case, unknown fields are
// ignored but in messages of mesh.v1, unknown names of enums are not. Its error names the field and where it is in raw.
func Decode(raw []byte, m proto.Message) *status.Status {
	if err := (codec{}).Unmarshal(raw, m); err != nil {
		return parseFault(raw, err)
	}
	return unknownName(raw, m)
}

// AppendMessage appends m as ProtoJSON in the form that all bindings give to
// responses.
func AppendMessage(b []byte, m proto.Message) ([]byte, error) { return appendMessage(b, m) }

// Details returns the status's details as JSON, each with its type in "@type";
// never nil. A detail of a type that is not linked in cannot be shown.
func Details(st *status.Status) []json.RawMessage {
	all := []json.RawMessage{}
	for _, d := range st.Proto().GetDetails() {
		if raw, err := protojson.Marshal(d); err == nil {
			all = append(all, raw)
		}
	}
	return all
}
