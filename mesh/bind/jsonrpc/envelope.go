package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh/bind/rest"
)

const (
	version = "2.0"
	// maxID bounds a request's id in bytes of JSON: it is repeated in every
	// event of a stream.
	maxID = 1024
	// after is what follows a result.
	after = "}"
)

// id is a request's id as JSON: a string, a number or null.
type id string

// noID is the id of a response to what has none, or none that could be read.
const noID id = "null"

// before is what precedes a result.
func (i id) before() string {
	return `{"jsonrpc":"` + version + `","id":` + string(i) + `,"result":`
}

// request is a JSON-RPC request object.
type request struct {
	id     id
	method string
	params json.RawMessage // as it came; empty if there are none
}

// parse reads a request. With a fault it returns what could be read
// nevertheless: the id for the answer and the name of the method.
func parse(raw []byte) (request, *fault) {
	req := request{id: noID}
	var members map[string]json.RawMessage
	var syntax *json.SyntaxError
	switch err := json.Unmarshal(raw, &members); {
	case len(bytes.TrimSpace(raw)) == 0:
		return req, parseFault("is empty; send a JSON-RPC request")
	case errors.As(err, &syntax):
		return req, parseFault("is not JSON: %v (byte %d)", syntax, syntax.Offset)
	case !utf8.Valid(raw):
		return req, parseFault("is not JSON: it has bytes that are not UTF-8")
	case bytes.TrimSpace(raw)[0] == '[':
		return req, envelopeFault("batch", "is not possible; send one request at a time")
	case err != nil || members == nil:
		return req, envelopeFault("request", `must be a JSON object with "jsonrpc", "id", "method" and "params"`)
	}
	var unusable *fault
	req.id, unusable = idOf(members["id"])
	var spoken string
	if err := json.Unmarshal(orNull(members["method"]), &req.method); err != nil || req.method == "" {
		return req, envelopeFault("method", `must be the name of a method such as "SendMessage"`)
	}
	if err := json.Unmarshal(orNull(members["jsonrpc"]), &spoken); err != nil || spoken != version {
		return req, envelopeFault("jsonrpc", "must be %q", version)
	}
	req.params = members["params"]
	return req, unusable
}

// orNull makes an absent member null, which json.Unmarshal accepts.
func orNull(member json.RawMessage) json.RawMessage {
	if len(member) == 0 {
		return json.RawMessage(noID)
	}
	return member
}

// idOf returns the member "id", which may be absent.
func idOf(member json.RawMessage) (id, *fault) {
	member = orNull(member)
	if len(member) > maxID {
		return noID, envelopeFault("id", "is %d bytes long; the limit is %d", len(member), maxID)
	}
	switch member[0] {
	case '{', '[', 't', 'f':
		return noID, envelopeFault("id", "must be a string, a number or null")
	}
	return id(member), nil
}

// decode reads the params into the method's request message.
func (r request) decode(m proto.Message) *status.Status {
	params := bytes.TrimSpace(r.params)
	switch {
	case len(params) == 0 || string(params) == "null":
		return nil
	case params[0] != '{':
		return invalidParams("must be an object with the fields of %s", m.ProtoReflect().Descriptor().Name())
	}
	bad := rest.Decode(params, m)
	if bad == nil {
		return nil
	}
	said := bad.Proto() // its line and column count within the params
	said.Message = "params: " + said.GetMessage()
	return status.FromProto(said)
}
