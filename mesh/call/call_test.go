package call_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/rpc/rpctest"
)

func TestMain(m *testing.M) {
	call.LessAnswer()
	goleak.VerifyTestMain(m)
}

func collect(ctx context.Context, c call.Client, req call.Request) []mesh.Body {
	var out []mesh.Body
	for b := range call.Stream(ctx, c, req) {
		out = append(out, b)
	}
	return out
}

func request() call.Request {
	return call.Request{Message: &a2apb.Message{MessageId: "m", ContextId: "c", Role: a2apb.Role_ROLE_USER, Parts: text("go")}, Execution: "t"}
}

func resumed(r *call.Request) { r.RemoteTask = "t" }
func unary(r *call.Request)   { r.Unary = true }

// tooMuch is how a call ends with so many bytes at once.
func tooMuch(bytes, limit int) string {
	return fmt.Sprintf("failed INVALID_AGENT_RESPONSE The agent sent %d bytes at once, and the limit is %d; have it send less, in pieces or in a part with a url.", bytes, limit)
}

// However an agent behaves, what it did becomes a legal sequence (S0-047,
// S0-088, A2A v1.0 §3.1.2).
func TestWhatAgentsSayIsMendedIntoALegalSequence(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", mesh.MaxEvent)
	tests := map[string]struct {
		change func(*call.Request)
		says   []*a2apb.StreamResponse
		ends   error
		want   []string
		near   []string // if it is another, of an agent in this process
	}{
		"a task in pieces": {says: []*a2apb.StreamResponse{task("t", working), piece("t", "a", "one", false), piece("t", "a", "two", true), status1("t", completed, "")},
			want: []string{"working", `new a "one"`, `append a "two"`, "completed"}},
		"a message alone":      {says: []*a2apb.StreamResponse{says("", "m1", "hi")}, want: []string{`new message-m1 "hi"`, "completed"}},
		"a whole task at once": {says: []*a2apb.StreamResponse{task("t", completed, "a", "b")}, want: []string{`new a "whole a"`, `new b "whole b"`, "completed"}},
		"ids of its own": {says: []*a2apb.StreamResponse{task("own", working), piece("own", "a", "x", false), status1("own", completed, "")},
			want: []string{"working own", `new a "x"`, "completed"}},
		"ids of its own, at once": {says: []*a2apb.StreamResponse{task("own", completed, "a")}, want: []string{"working own", `new a "whole a"`, "completed"}},
		"updates without a task": {says: []*a2apb.StreamResponse{piece("own", "a", "x", false), status1("own", completed, "")},
			want: []string{"working own", `new a "x"`, "completed"}},
		"events after the end": {says: []*a2apb.StreamResponse{task("t", working), status1("t", completed, ""), piece("t", "a", "late", false), status1("t", failedAt, "")},
			want: []string{"working", "completed"}},
		"a message within a task": {says: []*a2apb.StreamResponse{task("t", working), says("t", "m1", "by the way"), status1("t", completed, "")},
			want: []string{"working", `new message-m1 "by the way"`, "completed"}},
		"a message of another task": {says: []*a2apb.StreamResponse{task("t", working), says("other", "m1", "psst"), status1("t", completed, "")},
			want: []string{"working", "completed"}},
		"events of another task": {says: []*a2apb.StreamResponse{task("t", working), piece("other", "a", "psst", false), status1("other", failedAt, ""), task("third", failedAt), status1("t", completed, "")},
			want: []string{"working", "completed"}},
		// As agents on the SDK for JavaScript fail that throw.
		"the failure of another task, and no more": {says: []*a2apb.StreamResponse{task("t", working), piece("t", "a", "x", false), status1("other", failedAt, "It broke.")},
			want: []string{"working", `new a "x"`, "failed It broke."}},
		"the failure of another task, then away": {says: []*a2apb.StreamResponse{task("t", working), status1("other", failedAt, "It broke.")},
			ends: status.Error(codes.Unavailable, "gone"), want: []string{"working", "failed AGENT_UNAVAILABLE The agent could not be reached."}},
		"an append to nothing": {says: []*a2apb.StreamResponse{task("t", working), piece("t", "a", "x", true), piece("t", "a", "y", true), status1("t", completed, "")},
			want: []string{"working", `new a "x"`, `append a "y"`, "completed"}},
		"artifacts in the last task only": {says: []*a2apb.StreamResponse{task("t", working), piece("t", "a", "x", false), task("t", completed, "a", "b")},
			want: []string{"working", `new a "x"`, `new b "whole b"`, "completed"}},
		"states that are none": {says: []*a2apb.StreamResponse{task("t", 0), status1("t", 99, ""), status1("t", completed, "")},
			want: []string{"working", "working", "completed"}},
		"a question":                {says: []*a2apb.StreamResponse{task("t", working), status1("t", asks, "Which?")}, want: []string{"working", "input_required Which?"}},
		"credentials, then on":      {says: []*a2apb.StreamResponse{task("t", auth), status1("t", working, ""), status1("t", completed, "")}, want: []string{"auth_required", "working", "completed"}},
		"credentials, then away":    {says: []*a2apb.StreamResponse{task("t", working), task("t", auth)}, want: []string{"working", "auth_required"}},
		"credentials, output, away": {says: []*a2apb.StreamResponse{task("t", auth), piece("t", "a", "x", false)}, want: []string{"auth_required", `new a "x"`, "auth_required"}},
		"nothing":                   {want: []string{"failed NO_TERMINAL_EVENT The agent stopped without finishing its task."}},
		"a task and no end":         {says: []*a2apb.StreamResponse{task("t", working)}, want: []string{"working", "failed NO_TERMINAL_EVENT The agent stopped without finishing its task."}},
		"an empty answer":           {says: []*a2apb.StreamResponse{{}}, want: []string{"failed INVALID_AGENT_RESPONSE The agent sent an empty answer."}},
		"a refusal": {ends: status.Error(codes.InvalidArgument, "I take images only"),
			want: []string{"failed AGENT_REFUSED The agent refused the request: I take images only"}},
		"a crash": {says: []*a2apb.StreamResponse{task("t", working)}, ends: status.Error(codes.Unavailable, "10.0.0.7 went away"),
			want: []string{"working", "failed AGENT_UNAVAILABLE The agent could not be reached."}},
		"its own deadline": {ends: status.Error(codes.DeadlineExceeded, "x"), want: []string{"failed TIMEOUT The agent took too long and was stopped."}},
		"a piece too large to log": {says: []*a2apb.StreamResponse{task("t", working), piece("t", "a", big, false), status1("t", completed, "")},
			want: []string{"working", tooMuch(1048587, 1044480)}},
		"a piece too large to receive": {says: []*a2apb.StreamResponse{task("t", working), piece("t", "a", strings.Repeat(big, 5), false)},
			want: []string{"working", tooMuch(5242909, rpc.DefaultMaxMessage)},
			near: []string{"working", tooMuch(5242893, 1044480)}},
		"an empty piece": {says: []*a2apb.StreamResponse{task("t", working),
			{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{TaskId: "t"}}}, status1("t", completed, "")},
			want: []string{"working", "completed"}},

		"resumed: what was streamed before": {change: resumed, says: []*a2apb.StreamResponse{task("t", asks, "a"), status1("t", working, ""), piece("t", "a", "more", true), status1("t", completed, "")},
			want: []string{"working", `append a "more"`, "completed"}},
		"resumed: still the same question": {change: resumed, says: []*a2apb.StreamResponse{task("t", asks, "a")}, want: []string{"input_required"}},
		"resumed: on, asking again":        {change: resumed, says: []*a2apb.StreamResponse{task("t", asks, "a"), task("t", working, "a")}, want: []string{"failed NO_TERMINAL_EVENT The agent stopped without finishing its task."}},
		"resumed: a word, then away":       {change: resumed, says: []*a2apb.StreamResponse{task("t", asks), says("t", "m1", "wait")}, want: []string{`new message-m1 "wait"`, "failed NO_TERMINAL_EVENT The agent stopped without finishing its task."}},
		"resumed: output, then away":       {change: resumed, says: []*a2apb.StreamResponse{task("t", asks, "a"), piece("t", "a", "x", true)}, want: []string{`append a "x"`, "failed NO_TERMINAL_EVENT The agent stopped without finishing its task."}},
		"resumed: progress, then away":     {change: resumed, says: []*a2apb.StreamResponse{task("t", asks), status1("t", working, "so far")}, want: []string{"working so far", "failed NO_TERMINAL_EVENT The agent stopped without finishing its task."}},
		"resumed: over at once":            {change: resumed, says: []*a2apb.StreamResponse{task("t", completed, "a")}, want: []string{`new a "whole a"`, "completed"}},
		"resumed: a message":               {change: resumed, says: []*a2apb.StreamResponse{says("", "m1", "done")}, want: []string{`new message-m1 "done"`, "completed"}},
		"resumed: another task":            {change: resumed, says: []*a2apb.StreamResponse{task("new", completed, "a")}, want: []string{"failed NO_TERMINAL_EVENT The agent stopped without finishing its task."}},

		"unary: a task":           {change: unary, says: []*a2apb.StreamResponse{task("own", completed, "a")}, want: []string{"working own", `new a "whole a"`, "completed"}},
		"unary: a message":        {change: unary, says: []*a2apb.StreamResponse{says("", "m1", "hi")}, want: []string{`new message-m1 "hi"`, "completed"}},
		"unary: nothing":          {change: unary, want: []string{"failed INVALID_AGENT_RESPONSE The agent sent an empty answer."}},
		"unary: a question":       {change: unary, says: []*a2apb.StreamResponse{task("t", asks)}, want: []string{"input_required"}},
		"unary: credentials":      {change: unary, says: []*a2apb.StreamResponse{task("t", auth)}, want: []string{"auth_required"}},
		"unary: a task that runs": {change: unary, says: []*a2apb.StreamResponse{task("t", working)}, want: []string{"working", "failed NO_TERMINAL_EVENT The agent stopped without finishing its task."}},
		"unary: an error":         {change: unary, ends: status.Error(codes.Unavailable, "gone"), want: []string{"failed AGENT_UNAVAILABLE The agent could not be reached."}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request()
			if tt.change != nil {
				tt.change(&req)
			}
			for where, c := range places(t, &actor{says: script(tt.says...), ends: tt.ends}) {
				want := tt.want
				if where == "near" && tt.near != nil {
					want = tt.near
				}
				if diff := cmp.Diff(want, lines(collect(t.Context(), c, req))); diff != "" {
					t.Errorf("%s (-want +got)\n%s", where, diff)
				}
			}
		})
	}
}

// Metadata of the agent passes as it is.
func TestMetadataOfTheAgentPasses(t *testing.T) {
	md := &structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewStringValue("v")}}
	st, p := status1("t", completed, ""), piece("t", "a", "x", false)
	st.GetStatusUpdate().Metadata, p.GetArtifactUpdate().Metadata = md, md
	got := collect(t.Context(), serve(t, &actor{says: script(task("t", working), p, st)}), request())
	for _, b := range got[1:] {
		var have *structpb.Struct
		switch b := b.(type) {
		case mesh.ArtifactAppended:
			have = b.Metadata
		case mesh.TaskMoved:
			have = b.Metadata
		}
		if have.GetFields()["k"].GetStringValue() != "v" {
			t.Errorf("%T has metadata %v", b, have)
		}
	}
}

// A caller that gives up hears no more; one whose time is over hears that; and
// one that breaks the loop cancels the call.
func TestTheCallersContextEndsTheStream(t *testing.T) {
	for where, reach := range map[string]func(testing.TB, *actor) call.Client{"far": serve, "near": nearby} {
		t.Run(where, func(t *testing.T) { endsWithItsCaller(t, reach) })
	}
}

func endsWithItsCaller(t *testing.T, reach func(testing.TB, *actor) call.Client) {
	hanging := func(t *testing.T) (call.Client, *actor) {
		a := &actor{says: script(task("t", working)), hangs: true, left: make(chan struct{})}
		return reach(t, a), a
	}
	t.Run("given up", func(t *testing.T) {
		c, a := hanging(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []mesh.Body
		for b := range call.Stream(ctx, c, request()) {
			got = append(got, b)
			cancel()
		}
		if diff := cmp.Diff([]string{"working"}, lines(got)); diff != "" {
			t.Error(diff)
		}
		<-a.left
	})
	t.Run("out of time", func(t *testing.T) {
		// A busy machine may need longer to reach the agent.
		for timeout := 50 * time.Millisecond; ; timeout *= 4 {
			c, a := hanging(t)
			ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, mesh.Errorf(mesh.Timeout, "test", "over"))
			got := lines(collect(ctx, c, request()))
			cancel()
			if last := got[len(got)-1]; last != "failed TIMEOUT The agent took too long and was stopped." {
				t.Errorf("ended with %q", last)
			}
			if len(got) == 1 && timeout < time.Minute {
				continue
			}
			<-a.left
			return
		}
	})
	t.Run("broken off", func(t *testing.T) {
		c, a := hanging(t)
		for range call.Stream(t.Context(), c, request()) {
			break
		}
		<-a.left
	})
}

func TestAnAgentThatIsNotThereIsUnavailable(t *testing.T) {
	addr := rpctest.Free(t)
	conn, err := rpc.Dial(addr, rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	got := lines(collect(t.Context(), call.GRPC(conn), request()))
	if diff := cmp.Diff([]string{"failed AGENT_UNAVAILABLE The agent could not be reached."}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCancelTellsWhetherTheAgentAgreed(t *testing.T) {
	c := serve(t, &actor{})
	if err := call.Cancel(t.Context(), c, "t"); err != nil {
		t.Error(err)
	}
	if err := call.Cancel(t.Context(), c, "x"); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("got %v", err)
	}
}

func TestOnlyCardsWithOurExtensionSpeakIt(t *testing.T) {
	card := func(uris ...string) *a2apb.AgentCard {
		c := &a2apb.AgentCard{Capabilities: &a2apb.AgentCapabilities{}}
		for _, u := range uris {
			c.Capabilities.Extensions = append(c.Capabilities.Extensions, &a2apb.AgentExtension{Uri: u})
		}
		return c
	}
	if call.Speaks(nil) || call.Speaks(card("urn:other")) || !call.Speaks(card("urn:other", mesh.ExtensionURI)) {
		t.Error("the extension is not told by its URI")
	}
}

// Whatever a random agent says, in whatever order, the result is legal: known
// artifacts are appended to, new ones begin; nothing follows the end; and the
// last body, and none before it, is an end, but for waiting for credentials.
func TestAnyStreamBecomesLegal(t *testing.T) {
	a := &actor{}
	c := serve(t, a)
	rapid.Check(t, func(rt *rapid.T) {
		ids := rapid.SampledFrom([]string{"t", "t", "t", "own", "", "other"})
		states := rapid.SampledFrom([]mesh.TaskState{0, 1, working, working, working, completed, failedAt, asks, auth, 42})
		arts := rapid.SampledFrom([]string{"a", "b", ""})
		var rs []*a2apb.StreamResponse
		for range rapid.IntRange(0, 12).Draw(rt, "n") {
			id := ids.Draw(rt, "id")
			switch rapid.IntRange(0, 9).Draw(rt, "kind") {
			case 0, 1:
				rs = append(rs, task(id, states.Draw(rt, "state"), arts.Draw(rt, "artifact")))
			case 2, 3:
				rs = append(rs, status1(id, states.Draw(rt, "state"), "words"))
			case 4:
				rs = append(rs, says(id, "m", "hi"))
			case 5:
				if rapid.IntRange(0, 5).Draw(rt, "empty") == 0 {
					rs = append(rs, &a2apb.StreamResponse{})
				}
			default:
				rs = append(rs, piece(id, arts.Draw(rt, "artifact"), "x", rapid.Bool().Draw(rt, "append")))
			}
		}
		var ends error
		if rapid.IntRange(0, 3).Draw(rt, "error") == 0 {
			ends = status.Error(codes.Unavailable, "gone")
		}
		a.play(ends, rs...)
		req := request()
		if rapid.Bool().Draw(rt, "resumed") {
			resumed(&req)
		}
		req.Unary = rapid.IntRange(0, 4).Draw(rt, "unary") == 0
		legal(rt, req, collect(t.Context(), c, req))
	})
}

func legal(t rapid.TB, req call.Request, bodies []mesh.Body) {
	t.Helper()
	if len(bodies) == 0 {
		t.Fatal("nothing was said")
	}
	known := map[string]bool{}
	for i, b := range bodies {
		last := i == len(bodies)-1
		switch b := b.(type) {
		case mesh.ArtifactAppended:
			id := b.Artifact.ArtifactId
			if b.Append && !known[id] && req.RemoteTask == "" {
				t.Fatalf("append to unknown %q in %q", id, lines(bodies))
			}
			known[id] = true
			if last {
				t.Fatalf("no end in %q", lines(bodies))
			}
		case mesh.TaskMoved:
			end := mesh.Terminal(b.State) || b.State == asks
			if end != last && b.State != auth {
				t.Fatalf("body %d of %q", i, lines(bodies))
			}
		default:
			t.Fatalf("a %T", b)
		}
	}
}
