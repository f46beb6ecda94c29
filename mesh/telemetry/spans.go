package telemetry

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// maxContent bounds what is told of one text, in bytes.
const maxContent = 8 << 10

type idKey struct{}

// ids makes ids of spans: the one that is wanted in the context, or a random one.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	if want, ok := ctx.Value(idKey{}).(trace.SpanContext); ok {
		return want.TraceID(), want.SpanID()
	}
	_, _ = rand.Read(t[:]) // it never fails
	_, _ = rand.Read(s[:])
	t[0], s[0] = t[0]|1, s[0]|1 // zeros are no ids
	return t, s
}

// NewSpanID implements sdktrace.IDGenerator.
func (g ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, s := g.NewIDs(ctx)
	return s
}

// chosen samples the roots whose ids are chosen: whoever chose them has decided. All others
// it leaves to the sampler.
type chosen struct{ sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler.
func (c chosen) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.ParentContext.Value(idKey{}) != nil {
		return sdktrace.AlwaysSample().ShouldSample(p)
	}
	return c.Sampler.ShouldSample(p)
}

// parse reads a traceparent that is valid, or "".
func parse(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	flags, _ := hex.DecodeString(traceparent[53:55])
	t, _ := trace.TraceIDFromHex(traceparent[3:35])
	s, _ := trace.SpanIDFromHex(traceparent[36:52])
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s, TraceFlags: trace.TraceFlags(flags[0]), Remote: true})
}

// A span is one that has ended.
type span struct {
	name       string
	kind       trace.SpanKind
	parent     string           // traceparent; "" for none
	own        mesh.ExecutionID // whose span it is; "" for a random id
	begun, end time.Time
	failed     string // why, or ""
	attrs      []attribute.KeyValue
}

func (t *Telemetry) tell(s span) {
	if t.tracer == nil {
		return
	}
	ctx := context.Background()
	parent := parse(s.parent)
	if s.own != "" {
		own := parse(mesh.Under(s.parent, s.own))
		ctx = context.WithValue(ctx, idKey{}, own)
		if own.SpanID() == parent.SpanID() && !parent.IsSampled() { // the root, for which that was decided
			return
		}
		if own.SpanID() == parent.SpanID() {
			parent = trace.SpanContext{}
		}
	}
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	_, told := t.tracer.Start(ctx, s.name, trace.WithTimestamp(s.begun), trace.WithSpanKind(s.kind), trace.WithAttributes(known(s.attrs)...))
	if s.failed != "" {
		told.SetStatus(codes.Error, "")
		told.SetAttributes(keyErrorType.String(s.failed))
	}
	told.End(trace.WithTimestamp(s.end))
}

// known leaves out what nothing is known of.
func known(attrs []attribute.KeyValue) []attribute.KeyValue {
	return slices.DeleteFunc(attrs, func(a attribute.KeyValue) bool {
		return a.Value.Type() == attribute.STRING && a.Value.AsString() == ""
	})
}

// RPC tells of a call that was served in the context, and ended now with the status code, as
// "OK" or "NotFound". The method is one that there is, as "mesh.v1.AuditService/ListAudit", or
// "" for others, whose names whoever calls makes up.
func (t *Telemetry) RPC(ctx context.Context, method string, begun time.Time, code string) {
	if t == nil {
		return
	}
	end := time.Now()
	attrs := []attribute.KeyValue{keyRPCSystem.String(system), keyRPCMethod.String(orElse(method, other)), keyRPCStatus.String(screaming(code))}
	t.rpc.Record(ctx, end.Sub(begun).Seconds(), metric.WithAttributes(attrs...))
	call, _ := mesh.CallFrom(ctx)
	parent := call.Traceparent
	if s, _ := ctx.Value(callKey{}).(*served); s != nil && parent == "" {
		if turn := s.turn.Load(); turn != nil {
			parent = *turn
		}
	}
	s := span{name: attrs[1].Value.AsString(), kind: trace.SpanKindServer, parent: parent, begun: begun, end: end}
	s.attrs = append(attrs, keyTenant.String(string(call.Principal.Tenant)), keyConversation.String(call.Thread))
	if code != "OK" {
		s.failed = screaming(code)
	}
	t.tell(s)
}

// screaming is a name such as NotFound as NOT_FOUND.
func screaming(name string) string {
	var out []byte
	for i := range len(name) {
		upper := name[i] >= 'A' && name[i] <= 'Z'
		if upper && i > 0 && (name[i-1] < 'A' || name[i-1] > 'Z') {
			out = append(out, '_')
		}
		if c := name[i]; upper || c < 'a' || c > 'z' {
			out = append(out, c)
		} else {
			out = append(out, c-'a'+'A')
		}
	}
	return string(out)
}

// A ModelCall is one call of a language model that has ended now. Tokens are as far as its
// provider told.
type ModelCall struct {
	Model                             string
	Agent                             string
	Step                              int // of its run, from 1
	Input, Output, Cached, CacheWrite int64
	Took                              time.Duration
	Err                               error
}

// Model tells of a call of a model by the execution that the context is of.
func (t *Telemetry) Model(ctx context.Context, c ModelCall) {
	if t == nil {
		return
	}
	call, _ := mesh.CallFrom(ctx)
	end := time.Now()
	attrs := []attribute.KeyValue{keyOperation.String(opChat), keyModel.String(c.Model)}
	s := span{name: opChat + " " + c.Model, kind: trace.SpanKindClient, parent: call.Traceparent, begun: end.Add(-c.Took), end: end}
	if c.Err != nil {
		s.failed = mesh.CodeOf(c.Err).String()
	}
	t.model.Record(ctx, c.Took.Seconds(), metric.WithAttributes(keyOperation.String(opChat), keyModel.String(t.models.keep(c.Model)), keyErrorType.String(s.failed)))
	s.attrs = append(attrs, keyAgentName.String(c.Agent), keyTenant.String(string(call.Principal.Tenant)), keyConversation.String(call.Thread), keyExecution.String(string(call.Execution)),
		keyStep.Int(c.Step), keyInputTokens.Int64(c.Input), keyOutputTokens.Int64(c.Output), keyCacheRead.Int64(c.Cached), keyCacheCreation.Int64(c.CacheWrite))
	t.tell(s)
}

// An Execution is a turn, or an agent's work on one, that has ended.
type Execution struct {
	Thread mesh.ThreadKey
	mesh.Execution
	// Turn is that which it serves, or is.
	Turn *mesh.Execution
	// State and Reason are those of its end.
	State        mesh.TaskState
	Reason       string
	Begun, Ended time.Time
	Usage        mesh.Usage // its own
	Result       string
}

// Execution tells of the span of an execution.
func (t *Telemetry) Execution(x Execution) {
	if t == nil || x.Turn.Traceparent == "" {
		return
	}
	s := span{name: opAgent + " " + x.Agent, kind: trace.SpanKindClient, own: x.ID, begun: x.Begun, end: x.Ended, parent: mesh.Under(x.Turn.Traceparent, x.Parent)}
	s.attrs = []attribute.KeyValue{keyTenant.String(string(x.Thread.Tenant)), keyConversation.String(x.Thread.ID), keyExecution.String(string(x.ID)), keyKind.String(string(x.Kind)),
		keyState.String(stateName(x.State)), keyReason.String(x.Reason)}
	if x.Kind == mesh.KindTurn {
		s.name, s.kind, s.parent = string(mesh.KindTurn), trace.SpanKindInternal, x.Traceparent
		s.attrs = append(s.attrs, keyAgentName.String(x.Agent))
	} else {
		s.attrs = append(s.attrs, keyOperation.String(opAgent), keyAgentID.String(x.Agent), keyAgentName.String(x.Agent), keyLabel.String(x.Label),
			keyInputTokens.Int64(x.Usage.Prompt), keyOutputTokens.Int64(x.Usage.Completion), keyCost.Float64(x.Usage.Cost))
	}
	if t.content {
		s.attrs = append(s.attrs, keyInput.String(messages("user", x.Text)), keyOutput.String(messages("assistant", x.Result)))
	}
	if x.State == a2apb.TaskState_TASK_STATE_FAILED || x.State == a2apb.TaskState_TASK_STATE_REJECTED {
		s.failed = orElse(x.Reason, stateName(x.State))
	}
	t.tell(s)
}

// stateName is a state in short, as "completed".
func stateName(s mesh.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "TASK_STATE_"))
}

// messages is a text as the conventions want it.
func messages(role, text string) string {
	type part struct {
		Type    string `json:"type"`
		Content string `json:"content"`
	}
	type message struct {
		Role  string `json:"role"`
		Parts []part `json:"parts"`
	}
	b, err := json.Marshal([]message{{role, []part{{"text", mesh.Clip(text, maxContent)}}}})
	if err != nil {
		panic(err) // of texts
	}
	return string(b)
}

// A SkillCall is one call of a skill that has returned.
type SkillCall struct {
	Thread    mesh.ThreadKey
	Execution mesh.ExecutionID
	Agent     string
	// Traceparent is that of the turn.
	Traceparent   string
	Key           string // its idempotency key, from which its span follows
	Call          string
	Skill, Source string
	Failed        bool
	Begun         time.Time
	Took          time.Duration
	Args, Result  string
}

// SkillCalled tells of the span of a call of a skill.
func (t *Telemetry) SkillCalled(c SkillCall) {
	if t == nil || c.Traceparent == "" {
		return
	}
	s := span{name: opTool + " " + c.Skill, parent: mesh.Under(c.Traceparent, c.Execution), own: mesh.ExecutionID(orElse(c.Key, string(c.Execution)+c.Call)), begun: c.Begun, end: c.Begun.Add(c.Took)}
	s.kind = trace.SpanKindInternal
	s.attrs = []attribute.KeyValue{keyOperation.String(opTool), keyTool.String(c.Skill), keyToolType.String(toolType), keyToolCall.String(c.Call), keySource.String(c.Source), keyAgentName.String(c.Agent),
		keyTenant.String(string(c.Thread.Tenant)), keyConversation.String(c.Thread.ID), keyExecution.String(string(c.Execution))}
	if t.content {
		s.attrs = append(s.attrs, keyToolArgs.String(mesh.Clip(c.Args, maxContent)), keyToolResult.String(mesh.Clip(c.Result, maxContent)))
	}
	if c.Failed {
		s.failed = "skill"
	}
	t.tell(s)
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
