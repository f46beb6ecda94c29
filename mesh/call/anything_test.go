package call_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
)

// shapes are events and errors of both versions and all bindings, and what is near them.
var shapes = []string{
	`{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING","timestamp":"2026-01-02T03:04:05Z"}}}`,
	`{"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":"whole"},{"data":{"k":[1,null]}}]}],"history":[{"messageId":"h","role":"ROLE_AGENT","parts":[{"text":"said"}]}]}}`,
	`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"m","parts":[{"text":"Which?"}]}}}}`,
	`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_AUTH_REQUIRED"}}}`,
	`{"artifactUpdate":{"taskId":"t","append":true,"artifact":{"artifactId":"a","parts":[{"text":"piece"}]}}}`,
	`{"artifactUpdate":{"taskId":"t","artifact":{"parts":[{"raw":"aGk=","mediaType":"a/b"},{"url":"https://x"}]}}}`,
	`{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}`,
	`{"kind":"task","id":"t","contextId":"c","status":{"state":"working"}}`,
	`{"kind":"status-update","taskId":"t","final":true,"status":{"state":"failed","message":{"kind":"message","messageId":"m","role":"agent","parts":[{"kind":"text","text":"no"}]}}}`,
	`{"kind":"artifact-update","taskId":"t","artifact":{"artifactId":"b","parts":[{"kind":"file","file":{"bytes":"aGk=","name":"f"}},{"kind":"data","data":{"a":1}}]}}`,
	`{"kind":"message","role":"agent","parts":[{"kind":"text","text":"\ud800"}]}`,
	`{"statusUpdate":{"task_id":"t","status":{"state":"TASK_STATE_CANCELLED","update":{"content":[{"text":"x"}]}}}}`,
}

// junk is errors in all forms, and what is nothing at all.
var junk = []string{
	`{"error":{"code":-32001,"message":"no task"}}`, `{"error":{"code":-32601}}`, `{"error":{"code":-32603,"message":"oh","data":[{"reason":"X"}]}}`,
	`{"error":{"code":404,"status":"NOT_FOUND","message":"no","details":[{"reason":"TASK_NOT_FOUND"}]}}`,
	`{"type":"about:blank","title":"Bad","status":400,"detail":"very"}`, `{"detail":[{"msg":"missing"}]}`,
	`null`, `[]`, `"text"`, `7`, `{}`, `{"result":null}`, `<html>no</html>`, ``,
}

// dice decide, by a seed.
type dice struct {
	mu  sync.Mutex
	rnd *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{rnd: rand.New(rand.NewPCG(seed, seed))} }

// below returns a number from 0 to n-1.
func (d *dice) below(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rnd.IntN(n)
}

func pick[T any](d *dice, from ...T) T { return from[d.below(len(from))] }

// A server answers with any of them.
type server struct {
	*dice
	binding string
}

// RoundTrip implements [http.RoundTripper].
func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	if s.below(30) == 0 {
		return nil, io.ErrClosedPipe
	}
	var events []string
	for range s.below(6) {
		from := shapes
		if s.below(20) == 0 {
			from = junk
		}
		events = append(events, mutated(s.dice, pick(s.dice, from...)))
	}
	body, kind := strings.Join(events, "\n"), "application/json"
	if s.below(4) > 0 {
		kind = "text/event-stream"
		body = sse(s.binding, events...)
		if s.below(3) == 0 {
			body = "\uFEFF: hello\r\nid: 1\nretry: 5\n" + strings.ReplaceAll(body, "\n\n", "\r\n\r\n: ping\n")
		}
	}
	status := 200
	if s.below(5) == 0 {
		status = pick(s.dice, 202, 204, 301, 400, 401, 403, 404, 429, 500, 503)
		body = pick(s.dice, append(junk, body)...)
	}
	if s.below(10) == 0 {
		kind = pick(s.dice, "text/event-stream; charset=utf-8", "application/problem+json", "text/html", "", ";")
	}
	end := pick(s.dice, io.EOF, io.EOF, io.EOF, io.ErrUnexpectedEOF, nil)
	cut := len(body)
	if s.below(4) == 0 {
		cut = s.below(len(body) + 1)
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Request: req,
		Body: &trickle{s.dice, req.Context(), []byte(body[:cut]), end}}, nil
}

// A trickle is a body that comes in pieces of any size, and then ends so, or hangs.
type trickle struct {
	*dice
	ctx  context.Context // of the request
	rest []byte
	end  error
}

func (b *trickle) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		if b.end == nil {
			<-b.ctx.Done()
			return 0, b.ctx.Err()
		}
		return 0, b.end
	}
	n := min(len(p), 1+b.below(len(b.rest)))
	copy(p, b.rest[:n])
	b.rest = b.rest[n:]
	return n, nil
}

func (*trickle) Close() error { return nil }

// mutated is the JSON as it is, or with something missing, of another type, or broken.
func mutated(d *dice, shape string) string {
	switch d.below(24) {
	case 0:
		b := []byte(shape)
		if len(b) > 0 {
			b[d.below(len(b))] = byte(d.below(256))
		}
		return strings.NewReplacer("\n", " ", "\r", " ").Replace(string(b))
	case 1, 2:
		var tree any
		if json.Unmarshal([]byte(shape), &tree) != nil {
			return shape
		}
		b, err := json.Marshal(bent(d, tree))
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	return shape
}

// bent is the value with one of its parts missing or of another type.
func bent(d *dice, v any) any {
	others := []any{nil, true, 7.5, "x", []any{"x"}, map[string]any{"x": 1.0}, []any{}, ""}
	if d.below(4) == 0 {
		return pick(d, others...)
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return v
		}
		k := pick(d, slices.Sorted(maps.Keys(v))...)
		if d.below(4) == 0 {
			delete(v, k)
		} else {
			v[k] = bent(d, v[k])
		}
	case []any:
		if len(v) > 0 {
			v[0] = bent(d, v[0])
		}
	}
	return v
}

// findings N6 to N8: whatever a server answers over HTTP, in whatever pieces, the user
// has a legal stream, within the limits; it can be logged; and the cause of a failure is
// in the operator's log.
func TestWhateverAServerSendsTheUsersStreamIsLegal(t *testing.T) {
	ends, long := map[string]int{}, 0
	for seed := range uint64(2000) {
		synctest.Test(t, func(t *testing.T) {
			s := &server{newDice(seed), ""}
			s.binding = pick(s.dice, web...)
			var log bytes.Buffer
			req := logged(&log)
			req.Silence = time.Minute
			req.Unary = s.below(4) == 0
			if s.below(4) == 0 {
				resumed(&req)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, mesh.Errorf(mesh.Timeout, "test", "over"))
			defer cancel()
			bodies := collect(ctx, over(t, s, s.binding), req)
			if sound(t, seed, req, bodies, &log); len(bodies) > 2 {
				long++
			}
			last, _ := bodies[len(bodies)-1].(mesh.TaskMoved)
			ends[last.State.String()+" "+last.Reason]++
		})
	}
	if len(ends) < 12 || long < 100 {
		t.Errorf("the servers are all alike: %d of them say more, and they end with %v", long, ends)
	}
}

// sound checks that the bodies are legal, can be logged, and that a failure has a cause.
func sound(t testing.TB, seed uint64, req call.Request, bodies []mesh.Body, log *bytes.Buffer) {
	t.Helper()
	legal(t, req, bodies)
	for _, b := range bodies {
		var m proto.Message
		switch b := b.(type) {
		case mesh.ArtifactAppended:
			m = b.Artifact
		case mesh.TaskMoved:
			m = b.Message
		}
		wire, err := proto.Marshal(m)
		if err == nil {
			err = proto.Unmarshal(wire, m.ProtoReflect().New().Interface())
		}
		if err != nil {
			t.Fatalf("%d: %v cannot be logged: %v", seed, m, err)
		}
	}
	last, ok := bodies[len(bodies)-1].(mesh.TaskMoved)
	if ok && last.Reason != "" && (words(last.Message) == "" || log.Len() == 0) {
		t.Fatalf("%d: %q, and the log has %q", seed, lines(bodies), log)
	}
}

// finding N6: so it is with any bytes over gRPC: fields cut off, lengths that are wrong,
// and text that is none.
func TestWhateverComesOverGRPCTheUsersStreamIsLegal(t *testing.T) {
	var now atomic.Pointer[dice]
	responses := []*a2apb.StreamResponse{task("t", working), task("t", completed, "a"), status1("t", working, "hm"), status1("t", asks, "Which?"),
		piece("t", "a", "x", true), piece("", "", "y", false), says("", "", "hi")}
	conn := raw(t, func(send func([]byte) error) {
		d := now.Load()
		for range d.below(5) {
			wire, err := proto.Marshal(responses[d.below(len(responses))])
			if err != nil {
				panic(err)
			}
			switch d.below(4) {
			case 0:
				wire = wire[:d.below(len(wire)+1)]
			case 1:
				wire[d.below(len(wire))] = byte(d.below(256))
			}
			if send(wire) != nil {
				return
			}
		}
	})
	for seed := range uint64(60) {
		now.Store(newDice(seed))
		var log bytes.Buffer
		req := logged(&log)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, mesh.Errorf(mesh.Timeout, "test", "over"))
		sound(t, seed, req, collect(ctx, call.GRPC(conn), req), &log)
		cancel()
	}
}
