package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
)

// A receiver takes spans and metrics by OTLP over gRPC, as a collector does.
type receiver struct {
	collectpb.UnimplementedTraceServiceServer
	t    *testing.T
	addr string

	mu      sync.Mutex
	spans   map[string]*told // by trace and span
	metrics map[string]bool
	more    chan struct{} // closed with the next one
}

// A told span is one that was received; one that comes again is the same.
type told struct {
	*tracepb.Span
	service string
	attrs   map[string]string
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	l := rpctest.Listen(t)
	r := &receiver{t: t, addr: l.Addr().String(), spans: map[string]*told{}, metrics: map[string]bool{}, more: make(chan struct{})}
	s := grpc.NewServer()
	collectpb.RegisterTraceServiceServer(s, r)
	metricspb.RegisterMetricsServiceServer(s, meterReceiver{of: r})
	done := make(chan struct{})
	go func() { _ = s.Serve(l); close(done) }() // the cleanup ends it and waits
	t.Cleanup(func() { s.Stop(); <-done })
	return r
}

func attributes(in []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range in {
		out[a.GetKey()] = a.GetValue().GetStringValue()
		if out[a.GetKey()] == "" {
			out[a.GetKey()] = strings.TrimSpace(a.GetValue().String())
		}
	}
	return out
}

func (r *receiver) Export(_ context.Context, req *collectpb.ExportTraceServiceRequest) (*collectpb.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range req.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				id := hex.EncodeToString(s.GetTraceId()) + hex.EncodeToString(s.GetSpanId())
				if had := r.spans[id]; had != nil && (had.Name != s.GetName() || had.StartTimeUnixNano != s.GetStartTimeUnixNano()) {
					r.t.Errorf("two spans have one id: %s and %s", had.Name, s.GetName())
				}
				r.spans[id] = &told{s, attributes(rs.GetResource().GetAttributes())["service.name"], attributes(s.GetAttributes())}
			}
		}
	}
	close(r.more)
	r.more = make(chan struct{})
	return &collectpb.ExportTraceServiceResponse{}, nil
}

// meterReceiver is the receiver of metrics, whose method has the same name.
type meterReceiver struct {
	metricspb.UnimplementedMetricsServiceServer
	of *receiver
}

func (m meterReceiver) Export(_ context.Context, req *metricspb.ExportMetricsServiceRequest) (*metricspb.ExportMetricsServiceResponse, error) {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	for _, rm := range req.GetResourceMetrics() {
		for _, sm := range rm.GetScopeMetrics() {
			for _, one := range sm.GetMetrics() {
				m.of.metrics[one.GetName()] = true
			}
		}
	}
	close(m.of.more)
	m.of.more = make(chan struct{})
	return &metricspb.ExportMetricsServiceResponse{}, nil
}

// await waits until what was received fulfils the condition.
func (r *receiver) await(what string, cond func() bool) {
	r.t.Helper()
	for ctx := timely(r.t); ; {
		r.mu.Lock()
		ok, more := cond(), r.more
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			r.t.Fatalf("%s was not received; there are\n%s", what, r)
		}
	}
}

func (r *receiver) String() string {
	var lines []string
	for id, s := range r.spans {
		lines = append(lines, fmt.Sprintf("%s %s < %x %s %v", id[:8], id[32:], s.GetParentSpanId(), s.GetName(), s.attrs["agentmesh.state"]))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// of are the spans of the conversation's turn; nil while it is not told of.
func (r *receiver) of(thread string) []*told {
	var turn *told
	for _, s := range r.spans {
		if s.GetName() == "turn" && s.attrs["gen_ai.conversation.id"] == thread {
			turn = s
		}
	}
	var all []*told
	for _, s := range r.spans {
		if turn != nil && string(s.GetTraceId()) == string(turn.GetTraceId()) {
			all = append(all, s)
		}
	}
	return all
}

// connected waits until the conversation's trace is whole, with at least those names: each span
// has its parent in it, but for the turn, and for others of the same parent. It returns the
// spans by name, and the root.
func (r *receiver) connected(thread string, names ...string) (root *told, byName map[string]*told) {
	r.t.Helper()
	r.await("a connected trace", func() bool {
		byName, root = map[string]*told{}, nil
		known := map[string]bool{}
		spans := r.of(thread)
		for _, s := range spans {
			known[string(s.GetSpanId())] = true
			byName[s.GetName()] = s
		}
		for _, s := range spans {
			if known[string(s.GetParentSpanId())] {
				continue
			}
			if root != nil && string(root.GetParentSpanId()) != string(s.GetParentSpanId()) {
				return false
			}
			if root == nil || s.GetName() == "turn" {
				root = s
			}
		}
		return root != nil && !slices.ContainsFunc(names, func(n string) bool { return byName[n] == nil })
	})
	return root, byName
}

// parent is the span's parent.
func (r *receiver) parent(s *told) *tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.spans[hex.EncodeToString(s.GetTraceId())+hex.EncodeToString(s.GetParentSpanId())]; p != nil {
		return p.Span
	}
	return nil
}

// telling are settings of processes of which what they tell arrives soon.
var telling = []string{"OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_METRIC_EXPORT_INTERVAL=200"}

// S1-093: a turn on which main, the orchestrator and its agents work is one trace, with the names
// of the conventions, and without content or users. Metrics arrive too, and are served.
func TestATurnIsOneTrace(t *testing.T) {
	t.Parallel()
	r := startReceiver(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "telemetry: {otlp: \""+r.addr+"\", metrics: true}\n")
	m := upWith(t, dir, telling)
	id := mesh.NewThreadID()
	speaker(speakGRPC).agreed(t, m, id, "Create a task called \"Send the invoice\" due 2020-01-01, then email the report to bob@example.com and create a follow-up meeting tomorrow at 2pm")
	root, spans := r.connected(id, "turn", "invoke_agent main", "invoke_agent orchestrator", "invoke_agent mail", "invoke_agent calendar", "execute_tool mail.send",
		"execute_tool calendar.create", "lf.a2a.v1.A2AService/SendStreamingMessage", "mesh.v1.ThreadService/AppendEvents")
	if root.GetName() != "turn" {
		t.Errorf("the root is %s", root.GetName())
	}
	for child, parent := range map[string]string{"invoke_agent main": "turn", "invoke_agent orchestrator": "invoke_agent main", "invoke_agent mail": "invoke_agent orchestrator",
		"execute_tool mail.send": "invoke_agent mail"} {
		if got := r.parent(spans[child]).GetName(); got != parent {
			t.Errorf("the parent of %s is %s, want %s", child, got, parent)
		}
	}
	chats := 0
	for name, s := range spans {
		if strings.HasPrefix(name, "chat ") {
			chats++
		}
		if s.attrs["agentmesh.tenant"] != "default" && s.service != "" || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() || s.service != "agentmesh" {
			t.Errorf("%s of %s: %v", name, s.service, s.attrs)
		}
		if text := s.String(); strings.Contains(text, "bob@example.com") || strings.Contains(text, "invoice") || strings.Contains(text, "local") {
			t.Errorf("%s tells what was said, or who said it: %s", name, text)
		}
	}
	r.await("both messages in the turn's trace", func() bool {
		return len(slices.DeleteFunc(r.of(id), func(s *told) bool {
			return s.GetName() != "lf.a2a.v1.A2AService/SendStreamingMessage" || string(s.GetParentSpanId()) != string(root.GetSpanId())
		})) == 2
	})
	if mail := spans["invoke_agent mail"].attrs; chats == 0 || mail["gen_ai.operation.name"] != "invoke_agent" || mail["gen_ai.agent.name"] != "mail" || mail["gen_ai.conversation.id"] != id || mail["agentmesh.state"] != "completed" {
		t.Errorf("%d calls of models; mail has %v", chats, mail)
	}
	want := []string{"rpc.server.call.duration", "agentmesh.turn.duration", "agentmesh.turns.running", "agentmesh.turn.time_to_first_chunk", "agentmesh.agent.duration", "agentmesh.skill.duration",
		"agentmesh.model.calls", "gen_ai.client.token.usage", "gen_ai.client.operation.duration", "agentmesh.log.commit.duration", "agentmesh.log.events"}
	r.await("all metrics", func() bool {
		return !slices.ContainsFunc(want, func(name string) bool { return !r.metrics[name] })
	})
	text := get(t, "http://"+m.http+"/metrics", http.StatusOK)
	for _, line := range []string{`agentmesh_turn_duration_seconds_count{agentmesh_reason="",agentmesh_state="completed"} 1`, `agentmesh_skill_duration_seconds_count{agentmesh_outcome="completed",gen_ai_tool_name="mail.send"} 1`, "agentmesh_turns_running 0"} {
		if !strings.Contains(text, line) {
			t.Errorf("%s is not in\n%s", line, text)
		}
	}
	if strings.Contains(text, id) || strings.Contains(text, "bob@") {
		t.Error("metrics have labels without bound")
	}
}

func get(t *testing.T, url string, want int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(timely(t), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Fatalf("%s: %d %s %v", url, resp.StatusCode, text, err)
	}
	return string(text)
}

// A real collector gets one connected trace of a turn with agents in Go and in Python, which
// tells of its part by itself; also where kill -9 cuts the turn off, with an agent in Python
// before that and after it.
func TestInteropACollectorGetsOneTrace(t *testing.T) {
	python := sdkNamed(t, "python")
	r := startReceiver(t)
	at := startCollector(t, r)
	protos, _ := writtenProtos(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+at) // of the mesh and of the agent
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	t.Setenv("OTEL_SERVICE_NAME", "")
	m := up(t, t.TempDir())
	python.member(t, m, protos, "herald", "scribe")
	id := mesh.NewThreadID()
	speaker(speakGRPC).complete(t, m, id, "Ask herald to greet everybody")
	root, spans := r.connected(id, "turn", "invoke_agent main", "invoke_agent herald", "chat offline", "herald in Python")
	if got := r.parent(spans["herald in Python"]).GetName(); got != "invoke_agent herald" || root.GetName() != "turn" {
		t.Errorf("the agent in Python tells of its part below %q, and the root is %s", got, root.GetName())
	}
	id = r.killed(t, at, func(m *realMesh) { python.member(t, m, protos, "herald", "scribe") })
	r.await("what the agent in Python tells of its part before the kill and after it", func() bool {
		below := map[string]bool{}
		for _, s := range r.of(id) {
			parent := r.spans[hex.EncodeToString(s.GetTraceId())+hex.EncodeToString(s.GetParentSpanId())]
			if s.GetName() == "herald in Python" && parent != nil && parent.GetName() == "invoke_agent herald" {
				below[string(parent.GetSpanId())] = true
			}
		}
		return len(below) == 2
	})
}

// startCollector starts an OpenTelemetry collector that passes on what it gets to r, and
// returns its address.
func startCollector(t *testing.T, r *receiver) string {
	t.Helper()
	program, err := filepath.Abs("../../.build/bin/otel-collector")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("the collector is not installed; .ci/interop does it")
	}
	at := rpctest.Free(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "collector.yaml"), `receivers: {otlp: {protocols: {grpc: {endpoint: "`+at+`"}}}}
exporters: {otlp_grpc: {endpoint: "`+r.addr+`", tls: {insecure: true}}}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [otlp_grpc]}
    metrics: {receivers: [otlp], exporters: [otlp_grpc]}
`)
	cmd := exec.Command(program, "--config", "file:"+filepath.Join(dir, "collector.yaml"))
	startProcess(t, cmd)
	for ctx := timely(t); ; {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
		if err == nil {
			_ = conn.Close()
			return at
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// An agent of another process, which tells by itself, is in the turn's trace.
func TestAnAgentOfAnotherProcessIsInTheTrace(t *testing.T) {
	t.Parallel()
	r := startReceiver(t)
	dir := t.TempDir()
	env := append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.addr}, telling...)
	m := upWith(t, dir, env)
	launch(t, dir, "mesh", append([]string{"MESH_ADDR=" + m.grpc}, env...), "agent", "run", "worker", "--name", "worker-2", "--data", "theirs").shows("is registered")
	id := mesh.NewThreadID()
	speaker(speakGRPC).agreed(t, m, id, "Ask worker-2 to email \"all is well\" to bob@example.com")
	_, spans := r.connected(id, "turn", "invoke_agent main", "invoke_agent worker-2", "execute_tool mail.send")
	r.await("what the agent tells itself", func() bool {
		for _, s := range r.of(id) {
			if s.service == "agentmesh-agent" && s.GetName() == "chat offline" && s.attrs["gen_ai.agent.name"] == "worker-2" {
				parent := r.spans[hex.EncodeToString(s.GetTraceId())+hex.EncodeToString(s.GetParentSpanId())]
				return parent != nil && parent.GetName() == "invoke_agent worker-2"
			}
		}
		return false
	})
	if got := r.parent(spans["execute_tool mail.send"]).GetName(); got != "invoke_agent worker-2" {
		t.Errorf("the skill's span is below %q", got)
	}
}
