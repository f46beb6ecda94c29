package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

// What is read leniently is compared here with what A2A says, for those who test agents:
// see Options.Deviation.

func (c webClient) deviates(op operation, format string, args ...any) {
	c.deviation(fmt.Sprintf("an answer to "+c.named(op)+" "+format, args...))
}

// named is what the version calls the operation.
func (c webClient) named(op operation) string {
	if c.old && op.old != "" {
		return op.old
	}
	return op.method
}

// compare tells what of the answer to the request with the id, which could be read, is not
// as the version has it. Of v0.3 it looks at the envelope alone.
func (c webClient) compare(resp *http.Response, raw []byte, op operation, id string) {
	kind := kindOf(resp.Header.Get("Content-Type"))
	switch {
	case op.stream && kind != eventStream:
		c.deviates(op, "has the Content-Type %q, where %s belongs", clip([]byte(kind)), eventStream)
	case !op.stream && kind != "application/json" && kind != "application/a2a+json":
		c.deviates(op, "has the Content-Type %q, where application/json belongs", clip([]byte(kind)))
	}
	if c.jsonRPC {
		var envelope struct {
			Version any             `json:"jsonrpc"`
			ID      any             `json:"id"`
			Result  json.RawMessage `json:"result"`
		}
		switch err := json.Unmarshal(raw, &envelope); {
		case err != nil:
			c.deviates(op, "is not an answer of JSON-RPC")
		case envelope.Version != "2.0":
			c.deviates(op, "does not say \"jsonrpc\": \"2.0\"")
		case envelope.ID != id:
			c.deviates(op, "does not have the id of its request")
		case envelope.Result == nil:
			c.deviates(op, "has no result")
		}
		if raw = envelope.Result; raw == nil {
			return
		}
	}
	if c.old {
		return
	}
	var into proto.Message
	switch op {
	case opSend:
		into = &a2apb.SendMessageResponse{}
	case opStream, opSubscribe:
		into = &a2apb.StreamResponse{}
	default:
		into = &a2apb.Task{}
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, into); err != nil {
		// The library varies the space after its prefix on purpose.
		c.deviates(op, "is not the JSON of A2A 1.0: %s", line(strings.TrimPrefix(err.Error(), "proto:")))
		return
	}
	if unset(into) {
		c.deviates(op, "has none of the members that A2A 1.0 has there, such as \"task\", around its content")
	}
}

// unset reports whether an answer of one of several kinds is of none.
func unset(answer any) bool {
	switch m := answer.(type) {
	case *a2apb.SendMessageResponse:
		return m.GetPayload() == nil
	case *a2apb.StreamResponse:
		return m.GetPayload() == nil
	}
	return false
}

// CallUnknownMethod calls a method over JSON-RPC that A2A does not have, and returns how
// the agent refuses it, or nil. It returns Precondition for an agent that is called in
// another way: only JSON-RPC has an error for that.
func CallUnknownMethod(ctx context.Context, agent Client) error {
	const op = "call.CallUnknownMethod"
	c, ok := agent.(webClient)
	if !ok || !c.jsonRPC {
		return mesh.Errorf(mesh.Precondition, op, "only JSON-RPC has methods by name")
	}
	resp, err := c.do(ctx, operation{method: "NoSuchMethod", old: "no/such/method"}, "1", "", nil)
	if err != nil {
		return mesh.Wrap(op, fromWeb(err))
	}
	defer func() { _ = resp.Body.Close() }()
	for raw, err := range values(resp) {
		if err == nil {
			_, err = c.read(raw, opCancel)
		}
		if err != nil && !errors.As(err, new(*unreadable)) { // it may say anything but an error
			return mesh.Wrap(op, fromWeb(err))
		}
		break
	}
	return nil
}
