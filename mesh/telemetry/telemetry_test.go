package telemetry

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"agentmesh/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	came   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	unseen = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

// record returns what tells, and what it told.
func record(t *testing.T, part float64, content bool) (*Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	r := tracetest.NewSpanRecorder()
	tl := &Telemetry{content: content, sampler: sdktrace.TraceIDRatioBased(part)}
	tl.spans = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r), sdktrace.WithSampler(sdktrace.ParentBased(chosen{tl.sampler})), sdktrace.WithIDGenerator(ids{}))
	tl.metrics = metric.NewMeterProvider()
	tl.tracer = tl.spans.Tracer(scope)
	var err error
	if tl.meters, err = newMeters(tl.metrics.Meter(scope)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tl.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tl, r
}

// What is off allocates nothing, whatever happens.
func TestWhatIsOffAllocatesNothing(t *testing.T) {
	ctx := mesh.WithCall(t.Context(), mesh.Call{Traceparent: came})
	begun := time.Now()
	var off *Telemetry
	turn := mesh.Execution{ID: "turn", Kind: mesh.KindTurn, Traceparent: came}
	for name, f := range map[string]func(){
		"a call's context": func() { _ = off.In(ctx) },
		"a call":           func() { off.RPC(ctx, "/a.B/C", begun, "OK") },
		"a turn's trace":   func() { _ = From(ctx).Opens(ctx, came, turn.ID) },
		"a further message": func() {
			From(ctx).Joins(ctx, "", turn.ID, came)
		},
		"a model's call": func() { From(ctx).Model(ctx, ModelCall{Model: "m", Took: time.Second}) },
		"an execution":   func() { off.Execution(Execution{Execution: turn, Turn: &turn}) },
		"its end":        func() { off.Ended(Execution{Execution: turn}) },
		"a skill's call": func() { off.SkillCalled(SkillCall{Traceparent: came}); off.SkillEnded("s", false, 1) },
		"a commit":       func() { off.Committed(1, 1) },
		"what is counted": func() {
			off.Replied("m", mesh.Usage{Prompt: 1})
			off.Tripped("l")
			off.FirstChunk(1)
			off.Dropped()
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// A root has the span of its turn, and what happens in it hangs below that, whoever tells it.
func TestSpansHangTogetherByIDsAlone(t *testing.T) {
	thread := mesh.NewThreadID()
	for name, client := range map[string]string{"a client without a trace": "", "a client with one": came} {
		t.Run(name, func(t *testing.T) {
			tl, told := record(t, 1, false)
			turn := mesh.Execution{ID: mesh.NewExecutionID(thread), Kind: mesh.KindTurn, Agent: "main"}
			ctx := tl.In(mesh.WithCall(t.Context(), mesh.Call{Traceparent: client, Principal: mesh.Principal{Tenant: "acme", User: "ann"}}))
			turn.Traceparent = From(ctx).Opens(ctx, client, turn.ID)
			leg := mesh.Execution{ID: mesh.NewExecutionID(thread), Kind: mesh.KindAgent, Parent: turn.ID, Agent: "main", Traceparent: mesh.Under(turn.Traceparent, "x")}
			key := mesh.ThreadKey{Tenant: "acme", ID: thread}
			at := time.Unix(1000, 0)
			in := mesh.WithCall(t.Context(), mesh.Call{Traceparent: mesh.Under(turn.Traceparent, leg.ID)})
			tl.Model(in, ModelCall{Model: "m", Took: time.Second})
			tl.SkillCalled(SkillCall{Thread: key, Execution: leg.ID, Traceparent: turn.Traceparent, Key: "k", Skill: "mail.send", Begun: at})
			tl.Execution(Execution{Thread: key, Execution: leg, Turn: &turn, Begun: at, Ended: at.Add(time.Second)})
			other, again := record(t, 1, false) // another process, which knows nothing but the log
			for _, by := range []*Telemetry{tl, other} {
				by.Execution(Execution{Thread: key, Execution: turn, Turn: &turn, State: a2apb.TaskState_TASK_STATE_FAILED, Reason: "TIMEOUT", Begun: at, Ended: at.Add(time.Minute)})
			}
			tl.RPC(ctx, "lf.a2a.v1.A2AService/SendMessage", at, "OK")
			spans := map[string]sdktrace.ReadOnlySpan{}
			for _, s := range told.Ended() {
				spans[s.Name()] = s
			}
			root := spans["turn"]
			parents := map[string]string{}
			for n, s := range spans {
				parents[n] = s.Parent().SpanID().String()
				if s.SpanContext().TraceID() != root.SpanContext().TraceID() {
					t.Errorf("%s is in another trace", n)
				}
			}
			legSpan, above, send := mesh.SpanOf(leg.ID), "0000000000000000", mesh.SpanOf(turn.ID)
			if client != "" {
				above, send = "00f067aa0ba902b7", "00f067aa0ba902b7"
			}
			if d := cmp.Diff(map[string]string{"turn": above, "invoke_agent main": mesh.SpanOf(turn.ID), "chat m": legSpan, "execute_tool mail.send": legSpan,
				"lf.a2a.v1.A2AService/SendMessage": send}, parents); d != "" {
				t.Errorf("parents: -want +got\n%s", d)
			}
			if second := again.Ended()[0]; second.SpanContext().SpanID() != root.SpanContext().SpanID() || second.StartTime() != at || second.EndTime() != at.Add(time.Minute) ||
				root.SpanContext().SpanID().String() != mesh.SpanOf(turn.ID) || root.SpanKind() != trace.SpanKindInternal || root.Status().Code.String() != "Error" {
				t.Errorf("the turn is %v, and elsewhere %v", root, second)
			}
		})
	}
}

// Who came with a trace has decided whether it is sampled; of others the ratio decides, once
// for all spans.
func TestWhatIsSampledIsDecidedOnce(t *testing.T) {
	turn := mesh.Execution{ID: mesh.NewExecutionID(mesh.NewThreadID()), Kind: mesh.KindTurn}
	for name, tt := range map[string]struct {
		part float64
		came string
		want bool
	}{
		"all":                     {1, "", true},
		"none":                    {0, "", false},
		"none, but of the caller": {0, came, true},
		"all, but of the caller":  {1, unseen, false},
	} {
		t.Run(name, func(t *testing.T) {
			tl, told := record(t, tt.part, false)
			turn.Traceparent = tl.Opens(tl.In(t.Context()), tt.came, turn.ID)
			if sampled := strings.HasSuffix(turn.Traceparent, "-01"); sampled != tt.want {
				t.Errorf("the traceparent is %s", turn.Traceparent)
			}
			tl.Execution(Execution{Execution: turn, Turn: &turn})
			tl.SkillCalled(SkillCall{Execution: turn.ID, Traceparent: turn.Traceparent, Key: "k"})
			if n := len(told.Ended()); (n == 2) != tt.want || n == 1 {
				t.Errorf("%d spans were told", n)
			}
			// One that goes on elsewhere, where fewer traces are told of, is told of there, too.
			other, also := record(t, 0, false)
			other.Execution(Execution{Execution: turn, Turn: &turn})
			if n := len(also.Ended()); (n == 1) != tt.want {
				t.Errorf("elsewhere %d spans were told", n)
			}
		})
	}
}

// Messages, arguments and results are told only where that is asked for, and users never.
func TestContentIsToldOnlyWhereAskedFor(t *testing.T) {
	for _, content := range []bool{false, true} {
		tl, told := record(t, 1, content)
		turn := mesh.Execution{ID: "turn", Kind: mesh.KindTurn, User: "ann-the-user", Text: "the secret question", Traceparent: came}
		tl.Execution(Execution{Execution: turn, Turn: &turn, Result: "the secret answer"})
		tl.SkillCalled(SkillCall{Traceparent: came, Key: "k", Args: "the secret argument", Result: strings.Repeat("the secret result ", 10000)})
		tl.Model(mesh.WithCall(t.Context(), mesh.Call{Traceparent: came, GrantToken: "the secret grant", Principal: mesh.Principal{User: "ann-the-user"}}), ModelCall{Model: "m", Err: fmt.Errorf("the secret error")})
		all := ""
		for _, s := range told.Ended() {
			for _, a := range s.Attributes() {
				if a.Value.Type() == attribute.STRING {
					all += a.Value.AsString() + "\n"
				}
			}
			all += s.Status().Description + fmt.Sprint(s.Events())
		}
		for _, word := range []string{"question", "answer", "argument", "result"} {
			if strings.Contains(all, "the secret "+word) != content {
				t.Errorf("content %v: the %s is told %v", content, word, !content)
			}
		}
		if strings.Contains(all, "ann") || strings.Contains(all, "grant") || strings.Contains(all, "error") || len(all) > 16<<10 {
			t.Errorf("content %v: told is %.300q… (%d bytes)", content, all, len(all))
		}
	}
}

// Labels that others choose have few values.
func TestMetricsHaveFewLabels(t *testing.T) {
	tl, err := New(t.Context(), Config{Metrics: true}, Service{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tl.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if err := tl.Turns(func() int { return 7 }, func() int { return 9 }); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxLabels {
		n := fmt.Sprint("n", i)
		tl.SkillEnded(n, i%2 == 0, time.Second)
		tl.Tripped(n)
		tl.Replied(n, mesh.Usage{Prompt: 1, Completion: 2, Cost: 3})
		tl.RPC(t.Context(), "", time.Now(), "NotFound")
		tl.Ended(Execution{Execution: mesh.Execution{Kind: mesh.KindAgent, Agent: n}, Reason: n})
		tl.Model(t.Context(), ModelCall{Model: n})
	}
	tl.Tripped(strings.Repeat("x", 129))
	w := httptest.NewRecorder()
	tl.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	lines := strings.Split(w.Body.String(), "\n")
	counts := map[string]int{}
	for _, l := range lines {
		name, _, labeled := strings.Cut(l, "{")
		if labeled && !strings.Contains(name, "_bucket") {
			counts[name]++
		}
	}
	for name, n := range counts {
		if n > 2*(maxLabels+1) {
			t.Errorf("%s has %d rows", name, n)
		}
	}
	for _, want := range []string{"agentmesh_turns_running 7", "agentmesh_turns_waiting 9", `agentmesh_limit_trips_total{agentmesh_limit="_OTHER"} 401`, `rpc_method="_OTHER",rpc_response_status_code="NOT_FOUND"`, `agentmesh_model_cost_USD_total{gen_ai_request_model="n1"} 3`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s is missing in\n%.3000s", want, w.Body)
		}
	}
	if tl.Traces() {
		t.Error("spans are told that nobody takes")
	}
}

func TestSettings(t *testing.T) {
	half, two := 0.5, 2.0
	for name, tt := range map[string]struct {
		c     Config
		field string // that is refused
	}{
		"nothing":             {Config{}, ""},
		"an address":          {Config{OTLP: "127.0.0.1:4317", Headers: map[string]string{"x-key": "k"}, Sample: &half}, ""},
		"a URL":               {Config{OTLP: "https://otel.example.com"}, ""},
		"no port":             {Config{OTLP: "localhost"}, "telemetry.otlp"},
		"another scheme":      {Config{OTLP: "ftp://x:1"}, "telemetry.otlp"},
		"a path":              {Config{OTLP: "http://x:4318/v1/traces"}, "telemetry.otlp"},
		"a password":          {Config{OTLP: "http://a:b@x:4317"}, "telemetry.otlp"},
		"a part above 1":      {Config{OTLP: "x:1", Sample: &two}, "telemetry.sample"},
		"a header's name":     {Config{OTLP: "x:1", Headers: map[string]string{"X-Key": "k"}}, "telemetry.headers"},
		"a header of nothing": {Config{Headers: map[string]string{"x": "k"}}, "telemetry.otlp"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.c.Validate()
			if (err != nil) != (tt.field != "") || err != nil && !strings.Contains(mesh.DetailOf(err)+err.Error(), tt.field) {
				t.Errorf("%v, want a refusal of %q", err, tt.field)
			}
		})
	}
	for name, tt := range map[string]struct {
		otlp, address string
		insecure      bool
		plain         bool
	}{
		"this machine":          {"127.0.0.1:4317", "127.0.0.1:4317", false, true},
		"another":               {"otel:4317", "otel:4317", false, false},
		"another, in plaintext": {"otel:4317", "otel:4317", true, true},
		"http":                  {"http://otel:4317/", "otel:4317", false, true},
		"https":                 {"https://otel", "otel:443", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			address, plain, err := (&Config{OTLP: tt.otlp, Insecure: tt.insecure}).target()
			if address != tt.address || plain != tt.plain || err != nil {
				t.Errorf("%s %v %v", address, plain, err)
			}
		})
	}
}

func TestTheEnvironmentOfOpenTelemetryCounts(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		env  map[string]string
		on   bool
		part float64
		bad  string
	}{
		"nothing":             {},
		"an endpoint":         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4317"}, on: true, part: 1},
		"no traces":           {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4317", "OTEL_TRACES_SAMPLER": "parentbased_always_off"}, on: true},
		"a bad endpoint":      {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318/v1/traces"}, bad: "OTEL_EXPORTER_OTLP_ENDPOINT"},
		"a ratio":             {file: "x:1", env: map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, on: true, part: .25},
		"a bad ratio":         {file: "x:1", env: map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "many"}, bad: "OTEL_TRACES_SAMPLER_ARG"},
		"an unknown sampler":  {file: "x:1", env: map[string]string{"OTEL_TRACES_SAMPLER": "xray"}, bad: "OTEL_TRACES_SAMPLER"},
		"another protocol":    {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, bad: "OTEL_EXPORTER_OTLP_PROTOCOL"},
		"that it is disabled": {file: "x:1", env: map[string]string{"OTEL_SDK_DISABLED": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{OTLP: tt.file}
			err := c.FromEnv(func(n string) string { return tt.env[n] })
			if tt.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tt.bad) {
					t.Errorf("%v, want a refusal of %s", err, tt.bad)
				}
				return
			}
			if err != nil || c.On() != tt.on || tt.on && *c.Sample != tt.part {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}

// A receiver that is away costs those who tell nothing, and Close little.
func TestAReceiverThatIsAwayHoldsNobodyUp(t *testing.T) {
	tl, err := New(t.Context(), Config{OTLP: "127.0.0.1:1"}, Service{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	turn := mesh.Execution{ID: "turn", Kind: mesh.KindTurn, Traceparent: came}
	for range 10000 { // more than wait
		tl.Execution(Execution{Execution: turn, Turn: &turn})
	}
	_ = tl.Close(t.Context()) // it says that nothing was sent
}
