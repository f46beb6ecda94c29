package rest_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/bind/rest"
)

// S4-023, S4-053: a stream arrives whole, in order, each event with its id.
func TestAStreamIsServerSentEvents(t *testing.T) {
	s := start(t, rest.Options{})
	resp := s.do("POST", "/message:stream", say("hi"))
	if got := resp.Header.Get("Cache-Control"); got != "no-cache" {
		t.Errorf("Cache-Control %q, want no-cache", got)
	}
	got := s.stream(resp).rest()
	if want := []string{"1", "2", "3", "4", "5"}; !slices.Equal(ids(got), want) {
		t.Fatalf("ids %q, want %q", ids(got), want)
	}
	if at := get(got[1].data, "artifactUpdate.artifact.parts.0.text"); at != "hi" {
		t.Errorf("second event %v, want the text", got[1].data)
	}
	if at := get(got[4].data, "statusUpdate.status.state"); at != "TASK_STATE_COMPLETED" {
		t.Errorf("last event %v, want COMPLETED", got[4].data)
	}
}

// Our data is for those who activated our extension; the id is for everyone.
func TestTheSeqIsInTheMetadataOnlyOnRequest(t *testing.T) {
	s := start(t, rest.Options{})
	plain := s.stream(s.do("POST", "/message:stream", say("hi"), "A2A-Extensions", "urn:other")).rest()
	for i := range plain {
		for _, event := range plain[i].data {
			if md, ok := event.(map[string]any)["metadata"]; ok {
				t.Errorf("event %s has metadata %v, want none", plain[i].id, md)
			}
		}
	}
	for i, e := range s.stream(s.do("POST", "/message:stream", say("hi"), "A2A-Extensions", "urn:other, "+mesh.ExtensionURI)).rest() {
		for _, event := range e.data {
			md, _ := event.(map[string]any)["metadata"].(map[string]any)
			if got := get(md[mesh.ExtensionURI], "to"); i == 3 && got != "planner" {
				t.Errorf("the handoff goes to %v", got)
			}
			if got := get(md[mesh.ExtensionURI], "seq"); got != float64(i+1) || e.id != strconv.Itoa(i+1) {
				t.Errorf("event %d has seq %v and id %s", i+1, got, e.id)
			}
		}
	}
}

func TestAClientGoesOnWhereItWas(t *testing.T) {
	s := start(t, rest.Options{})
	for _, h := range []string{"Last-Event-ID", "after-seq"} {
		for _, method := range []string{"GET", "POST"} {
			got := ids(s.stream(s.do(method, "/tasks/task-1:subscribe", "", h, "3")).rest())
			if want := []string{"4", "5"}; !slices.Equal(got, want) {
				t.Errorf("%s after %s: 3: ids %q, want %q", method, h, got, want)
			}
		}
	}
	// A browser sends the address that it began with, and where it is.
	follow := s.stream(s.do("GET", thread+"/events:follow?after_seq=1", "", "Last-Event-ID", "2"))
	if got := follow.must(); got.id != "3" || get(got.data, "event.seq") != "3" {
		t.Errorf("first event %+v, want number 3", got)
	}
	if md, _ := s.node.call("FollowThread"); !slices.Equal(md.Get("after-seq"), []string{"2"}) {
		t.Errorf("after-seq %q in the metadata, want 2", md.Get("after-seq"))
	}
}

func TestAnErrorBeforeTheStreamIsAnHTTPError(t *testing.T) {
	s := start(t, rest.Options{})
	e := s.errorOf(s.do("GET", "/tasks/none:subscribe", ""), 404, "NOT_FOUND")
	if got := get(e, "details.0.reason"); got != "TASK_NOT_FOUND" {
		t.Errorf("reason %v, want TASK_NOT_FOUND", got)
	}
	s.errorOf(s.do("GET", "/mesh/v1/threads/6ba7b810-9dad-41d1-80b4-00c04fd430c8/events:follow", ""), 404, "NOT_FOUND")
}

func TestAnErrorWithinTheStreamIsItsLastEvent(t *testing.T) {
	s := start(t, rest.Options{})
	got := s.stream(s.do("POST", "/message:stream", say("break"))).rest()
	if len(got) != 2 || get(got[0].data, "task.id") != "task-1" {
		t.Fatalf("events %v, want the task and an error", got)
	}
	if e := got[1]; get(e.data, "error.code") != 500.0 || get(e.data, "error.status") != "INTERNAL" || e.id != "" {
		t.Errorf("last event %+v, want the error 500 INTERNAL", e)
	}
}

// JSON has no word for what is not a number.
func TestAnEventWithoutAFormEndsItsStream(t *testing.T) {
	s := start(t, rest.Options{})
	got := s.stream(s.do("POST", "/message:stream", say("shapeless"), "A2A-Extensions", mesh.ExtensionURI)).rest()
	if len(got) != 2 || get(got[0].data, "task.id") != "task-1" || get(got[1].data, "error.code") != 500.0 ||
		get(got[1].data, "error.message") != "the next event cannot be shown as JSON" {
		t.Errorf("events %v, want the task and an error", got)
	}
}

func TestAStreamMayBeEmpty(t *testing.T) {
	s := start(t, rest.Options{})
	if got := s.stream(s.do("POST", "/message:stream", say("nothing"))).rest(); len(got) != 0 {
		t.Errorf("events %v, want none", got)
	}
}

// The response begins when the call is accepted, and an event is sent when it
// is there: both reads below would wait forever otherwise.
func TestNothingWaitsForTheNextEvent(t *testing.T) {
	s := start(t, rest.Options{Heartbeat: time.Hour})
	idle := s.do("POST", "/message:stream", say("wait"))
	if idle.StatusCode != 200 {
		t.Errorf("an idle stream: %d, want 200 at once", idle.StatusCode)
	}
	in := s.stream(s.do("POST", "/message:stream", say("hold")))
	if got := in.must(); get(got.data, "task.id") != "task-1" {
		t.Errorf("first event %v, want the task", got)
	}
	s.node.release <- struct{}{}
	if got := ids(in.rest()); !slices.Equal(got, []string{"2", "3", "4", "5"}) {
		t.Errorf("ids after the pause %q", got)
	}
}

func TestAnIdleStreamHasAHeartbeat(t *testing.T) {
	s := start(t, rest.Options{Heartbeat: time.Millisecond})
	in := s.stream(s.do("POST", "/message:stream", say("hold")))
	in.must()
	for range 3 {
		if got, ok := in.next(); !ok || got.comment != "keep-alive" || got.data != nil {
			t.Fatalf("frame %+v, want a comment", got)
		}
	}
	s.node.release <- struct{}{}
	if got := ids(in.rest()); !slices.Equal(got, []string{"2", "3", "4", "5"}) {
		t.Errorf("ids among heartbeats %q", got)
	}
}

// goleak in TestMain sees to the goroutines.
func TestAClientThatLeavesCancelsTheCall(t *testing.T) {
	s := start(t, rest.Options{})
	for _, req := range [][3]string{{"POST", "/message:stream", say("wait")}, {"GET", thread + "/events:follow", ""}} {
		resp := s.do(req[0], req[1], req[2])
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-s.node.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s ended with %v, want canceled", req[1], err)
		}
	}
}

func TestStreamsEndWithTheGateway(t *testing.T) {
	n, conn := startNode(t)
	ctx, shutdown := context.WithCancel(t.Context())
	h, err := rest.New(ctx, conn, rest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, n, h)
	in := s.stream(s.do("GET", thread+"/events:follow", ""))
	for range 3 {
		in.must()
	}
	shutdown()
	got := in.rest()
	if len(got) != 1 || get(got[0].data, "error.code") != 503.0 {
		t.Errorf("last events %v, want one error 503", got)
	}
	if err := <-n.ended; err == nil {
		t.Error("the service's stream goes on")
	}
	s.errorOf(s.do("GET", thread+"/events:follow", ""), 503, "UNAVAILABLE")
	if resp := s.do("GET", "/tasks/task-1", ""); resp.StatusCode != 200 {
		t.Errorf("a unary call: %d, want 200", resp.StatusCode)
	}
}

// S4-053: more events than all buffers on the way hold.
func TestALongStreamArrivesWholeAndInOrder(t *testing.T) {
	s := start(t, rest.Options{})
	const count = 20_000
	in := s.stream(s.do("POST", "/message:stream", say("many "+strconv.Itoa(count))))
	for i := range count {
		if got := in.must(); got.id != strconv.Itoa(i+1) {
			t.Fatalf("event %d has id %s", i+1, got.id)
		}
	}
	if _, more := in.next(); more {
		t.Error("there is an event too many")
	}
}
