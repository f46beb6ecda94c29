package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/bind/jsonrpc"
)

// S4-023, S4-053: every event is a whole response, in order, each with its id.
func TestAStreamIsResponsesAsServerSentEvents(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	resp := s.call("SendStreamingMessage", say("hi"))
	if got := resp.Header.Get("Cache-Control"); got != "no-cache" {
		t.Errorf("Cache-Control %q, want no-cache", got)
	}
	got := s.stream(resp).rest()
	if ids(got) != "1 2 3 4" {
		t.Fatalf("ids %q, want 1 2 3 4", ids(got))
	}
	for i, want := range []string{
		`{"task":{"id":"task-1","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`,
		`{"artifactUpdate":{"taskId":"task-1","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"hi"}]}}}`,
		`{"artifactUpdate":{"taskId":"task-1","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"hi"}]},"append":true}}`,
		`{"statusUpdate":{"taskId":"task-1","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}`,
	} {
		if result := compact(t, got[i].reply.Result); result != want || string(got[i].reply.ID) != "7" {
			t.Errorf("event %d: id %s, result %s, want id 7 and %s", i+1, got[i].reply.ID, result, want)
		}
	}
}

// Our data is for those who activated our extension; the event's id is for
// everyone.
func TestTheSeqIsInTheMetadataOnlyOnRequest(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	resp := s.call("SendStreamingMessage", say("hi"), "A2A-Extensions", mesh.ExtensionURI)
	if got := resp.Header.Get("A2A-Extensions"); got != mesh.ExtensionURI {
		t.Errorf("A2A-Extensions of the answer %q", got)
	}
	for i, e := range s.stream(resp).rest() {
		want := fmt.Sprintf(`"metadata":{"%s":{"seq":%d}}`, mesh.ExtensionURI, i+1)
		if !strings.Contains(compact(t, e.reply.Result), want) {
			t.Errorf("event %s: %s, want %s", e.id, e.reply.Result, want)
		}
	}
}

func TestAClientGoesOnWhereItWas(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	for _, h := range []string{"Last-Event-ID", "after-seq"} {
		if got := s.stream(s.call("SubscribeToTask", `{"id":"task-1"}`, h, "2")).rest(); ids(got) != "3 4" {
			t.Errorf("after %s: 2: ids %q, want 3 4", h, ids(got))
		}
	}
}

// A client that asked for a stream gets the refusal as one, because some read
// nothing else; see refuse.
func TestARefusalIsWhatTheClientReads(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	plain := start(t, jsonrpc.Options{PlainRefusals: true})
	refused := map[string][2]string{
		"by the node": {`{"id":"none"}`, "TASK_NOT_FOUND"},
		"here":        {`{"id":5}`, "INVALID_ARGUMENT"},
	}
	for name, tt := range refused {
		t.Run(name, func(t *testing.T) {
			for _, accept := range []string{"text/event-stream", "application/json, Text/Event-Stream;q=0.9"} {
				got := s.stream(s.call("SubscribeToTask", tt[0], "Accept", accept)).rest()
				if len(got) != 1 || got[0].reply.Error == nil || got[0].reply.reason() != tt[1] || string(got[0].reply.ID) != "7" || got[0].id != "" {
					t.Errorf("Accept %s: events %+v, want one error %s", accept, got, tt[1])
				}
			}
			for _, accept := range []string{"*/*", "application/json"} {
				if got := s.read(s.call("SubscribeToTask", tt[0], "Accept", accept)); got.Error == nil || got.reason() != tt[1] {
					t.Errorf("Accept %s: error %+v, want %s", accept, got.Error, tt[1])
				}
			}
			if got := plain.read(plain.call("SubscribeToTask", tt[0], "Accept", "text/event-stream")); got.Error == nil || got.reason() != tt[1] {
				t.Errorf("with PlainRefusals: error %+v, want %s", got.Error, tt[1])
			}
		})
	}
}

func TestAnErrorWithinTheStreamIsItsLastEvent(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	got := s.stream(s.call("SendStreamingMessage", say("break"))).rest()
	if len(got) != 2 || got[0].reply.Error != nil {
		t.Fatalf("events %+v, want the task and an error", got)
	}
	if e := got[1]; e.reply.Error == nil || e.reply.Error.Code != -32603 || string(e.reply.ID) != "7" || e.id != "" {
		t.Errorf("last event %+v, want error -32603 with the request's id", e)
	}
}

// The answer begins when the call is accepted, and an idle one has comments:
// the reads below would wait forever otherwise.
func TestAnIdleStreamHasAHeartbeat(t *testing.T) {
	s := start(t, jsonrpc.Options{Heartbeat: time.Millisecond})
	in := s.stream(s.call("SendStreamingMessage", say("hold")))
	got, ok := in.next()
	for ok && got.comment == "keep-alive" { // the node is slower than that
		got, ok = in.next()
	}
	if !ok || got.id != "1" {
		t.Fatalf("first event %+v, want the task", got)
	}
	for range 2 {
		if got, ok := in.next(); !ok || got.comment != "keep-alive" {
			t.Fatalf("event %+v, want a comment", got)
		}
	}
	s.node.release <- struct{}{}
	if got := ids(in.rest()); got != "2 3 4" {
		t.Errorf("ids among heartbeats %q", got)
	}
}

// goleak in TestMain sees to the goroutines.
func TestAClientThatLeavesCancelsTheCall(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	if err := s.call("SendStreamingMessage", say("wait")).Body.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-s.node.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v, want canceled", err)
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	n, conn := startNode(t)
	ctx, shutdown := context.WithCancel(t.Context())
	s := serve(t, ctx, n, conn, jsonrpc.Options{})
	in := s.stream(s.call("SendStreamingMessage", say("wait")))
	shutdown()
	got := in.rest()
	if len(got) != 1 || got[0].reply.Error == nil || got[0].reply.reason() != "UNAVAILABLE" {
		t.Errorf("events %+v, want one error UNAVAILABLE", got)
	}
	if err := <-n.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v, want canceled", err)
	}
	if got := s.read(s.call("GetTask", `{"id":"task-1"}`)); got.Error != nil {
		t.Errorf("a unary call: %+v, want an answer", got.Error)
	}
}

// S4-053: more events than all buffers on the way hold.
func TestALongStreamArrivesWholeAndInOrder(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	const count = 5_000
	got := s.stream(s.call("SendStreamingMessage", say(fmt.Sprint("many ", count)))).rest()
	for i, e := range got {
		if e.id != fmt.Sprint(i+1) {
			t.Fatalf("event %d has id %s", i+1, e.id)
		}
	}
	if len(got) != count {
		t.Errorf("%d events, want %d", len(got), count)
	}
}
