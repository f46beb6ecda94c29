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

// compare tells what of the answer to the request with the id, which was read as read, is
// not as the version has it. Of v0.3 it looks at the envelope alone.
func (c webClient) compare(resp *http.Response, raw []byte, read *a2apb.StreamResponse, op operation, id string) {
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
	into := &a2apb.StreamResponse{} // which SendMessageResponse is a part of
	var target proto.Message = into
	if op == opGet || op == opCancel {
		task := &a2apb.Task{}
		into.Payload, target = &a2apb.StreamResponse_Task{Task: task}, task
	}
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(raw, target)
	switch {
	case err != nil: // the library varies the space after its prefix on purpose
		c.deviates(op, "is not the JSON of A2A 1.0: %s", line(strings.TrimPrefix(err.Error(), "proto:")))
	case into.GetPayload() == nil:
		c.deviates(op, "has none of the members that A2A 1.0 has there, such as \"task\", around its content")
	case !proto.Equal(into, read):
		c.deviates(op, "has values that A2A 1.0 writes otherwise, such as states or roles as v0.3 has them")
	}
}

// UnknownMethod calls a method over JSON-RPC that A2A does not have, and returns how
// the agent refuses it, or nil. It returns Precondition for an agent that is called in
// another way: only JSON-RPC has an error for that.
func UnknownMethod(ctx context.Context, agent Client) error {
	const op = "call.UnknownMethod"
	if d, ok := agent.(discreet); ok {
		agent = d.Client
	}
	if a, ok := agent.(authorizing); ok {
		agent = a.agent
		with, err := a.sender.Attach(ctx)
		if err != nil {
			return mesh.Wrap(op, err)
		}
		ctx = context.WithValue(ctx, attachmentKey{}, with)
	}
	c, ok := agent.(webClient)
	if !ok || !c.jsonRPC {
		return mesh.Errorf(mesh.Precondition, op, "only JSON-RPC has methods by name")
	}
	resp, err := c.do(ctx, operation{method: "NoSuchMethod", old: "no/such/method"}, "1", "", nil)
	if err != nil {
		return mesh.Wrap(op, withoutTokens(fromWeb(err)))
	}
	defer func() { _ = resp.Body.Close() }()
	for raw, err := range values(resp) {
		if err == nil {
			_, err = c.read(raw, opCancel)
		}
		if err != nil && !errors.As(err, new(*unreadable)) { // it may say anything but an error
			return mesh.Wrap(op, withoutTokens(fromWeb(err)))
		}
		break
	}
	return nil
}
