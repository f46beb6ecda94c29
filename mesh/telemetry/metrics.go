package telemetry

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"agentmesh/mesh"
)

// maxLabels is how many values a label may have whose values others make up.
const maxLabels = 200

// labels keeps the values of a label few.
type labels struct {
	mu   sync.Mutex
	seen map[string]bool
}

// keep returns the value, or one that stands for all that there is no room for.
func (l *labels) keep(v string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.seen[v]:
	case len(l.seen) == maxLabels || len(v) > 128:
		return other
	default:
		if l.seen == nil {
			l.seen = map[string]bool{}
		}
		l.seen[v] = true
	}
	return v
}

// meters are the instruments, and the labels that they have.
type meters struct {
	meter                                                 metric.Meter
	rpc, model, tokens, turn, first, agent, skill, commit metric.Float64Histogram
	cost                                                  metric.Float64Counter
	calls, limits, events, dropped, deleted               metric.Int64Counter
	models, agents, skills, reasons, trips                *labels
}

// Buckets, in seconds and in tokens.
var (
	quick = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	long  = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
	sizes = []float64{1, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576}
)

func newMeters(m metric.Meter) (out meters, err error) {
	out = meters{meter: m, models: new(labels), agents: new(labels), skills: new(labels), reasons: new(labels), trips: new(labels)}
	for _, h := range []struct {
		to      *metric.Float64Histogram
		name    string
		unit    string
		buckets []float64
		about   string
	}{
		{&out.rpc, metricRPC, "s", quick, "How long calls took that were served."},
		{&out.model, metricModel, "s", long, "How long calls of models took, in this process."},
		{&out.tokens, metricTokens, "{token}", sizes, "Tokens of each reply of a model."},
		{&out.turn, metricTurn, "s", long, "From the message that opened a turn to its end."},
		{&out.first, metricFirstChunk, "s", long, "From the message that opened a turn to the first output."},
		{&out.agent, metricAgent, "s", long, "How long agents worked on a turn, or for another agent."},
		{&out.skill, metricSkill, "s", long, "How long calls of skills took."},
		{&out.commit, metricCommit, "s", quick, "How long appends to the log took until they were durable."},
	} {
		if *h.to, err = m.Float64Histogram(h.name, metric.WithUnit(h.unit), metric.WithDescription(h.about), metric.WithExplicitBucketBoundaries(h.buckets...)); err != nil {
			return out, err
		}
	}
	if out.cost, err = m.Float64Counter(metricCost, metric.WithUnit("USD"), metric.WithDescription("What replies of models cost, as far as prices are known.")); err != nil {
		return out, err
	}
	for _, c := range []struct {
		to    *metric.Int64Counter
		name  string
		about string
	}{
		{&out.calls, metricCalls, "Replies of models that are in the log."},
		{&out.limits, metricLimit, "Limits that stopped something."},
		{&out.events, metricEvents, "Events added to the log."},
		{&out.dropped, metricDropped, "Events that nothing was told of, for too many waited."},
		{&out.deleted, metricDeleted, "Conversations that were deleted by a rule."},
	} {
		if *c.to, err = m.Int64Counter(c.name, metric.WithDescription(c.about)); err != nil {
			return out, err
		}
	}
	return out, nil
}

// Turns has metrics tell in how many conversations turns are worked on and in how many they
// wait for that, as these say, which must not block.
func (t *Telemetry) Turns(running, waiting func() int) error {
	if t == nil {
		return nil
	}
	return errors.Join(t.gauge(metricRunning, "Conversations that this node works on.", running),
		t.gauge(metricWaiting, "Conversations that wait until this node works on them.", waiting))
}

// Unchecked has metrics tell how many records of the log were not checked yet since the node
// started, as count says, which must not block.
func (t *Telemetry) Unchecked(count func() int) error {
	if t == nil || count == nil {
		return nil
	}
	return t.gauge(metricUnchecked, "Records of the log that were not checked since the node started.", count)
}

// Kept has metrics tell how many bytes are kept of the conversations of each tenant, as count
// says, which must not block.
func (t *Telemetry) Kept(count func() map[mesh.TenantID]int64) error {
	if t == nil {
		return nil
	}
	_, err := t.meter.Int64ObservableGauge(metricKept, metric.WithDescription("Bytes that are kept of the conversations of a tenant."), metric.WithUnit("By"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for tenant, n := range count() {
				o.Observe(n, metric.WithAttributes(keyTenant.String(string(tenant))))
			}
			return nil
		}))
	return err
}

func (t *Telemetry) gauge(name, about string, count func() int) error {
	_, err := t.meter.Int64ObservableGauge(name, metric.WithDescription(about),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(count()))
			return nil
		}))
	return err
}

// Committed counts an append of n events to the log, that took so long.
func (t *Telemetry) Committed(n int, took time.Duration) {
	if t == nil {
		return
	}
	t.commit.Record(context.Background(), took.Seconds())
	t.events.Add(context.Background(), int64(n))
}

// Dropped counts an event that nothing is told of.
func (t *Telemetry) Dropped() {
	if t != nil {
		t.dropped.Add(context.Background(), 1)
	}
}

// Deleted counts n conversations that were deleted by the rule, of which there are few.
func (t *Telemetry) Deleted(rule string, n int) {
	if t != nil {
		t.deleted.Add(context.Background(), int64(n), metric.WithAttributes(keyRule.String(rule)))
	}
}

// FirstChunk counts the first output of a turn, so long after it was opened.
func (t *Telemetry) FirstChunk(after time.Duration) {
	if t != nil {
		t.first.Record(context.Background(), after.Seconds())
	}
}

// Replied counts a reply of a model.
func (t *Telemetry) Replied(model string, u mesh.Usage) {
	if t == nil {
		return
	}
	of := keyModel.String(t.models.keep(model))
	ctx := context.Background()
	t.calls.Add(ctx, 1, metric.WithAttributes(of))
	t.tokens.Record(ctx, float64(u.Prompt), metric.WithAttributes(of, keyTokenType.String(input)))
	t.tokens.Record(ctx, float64(u.Completion), metric.WithAttributes(of, keyTokenType.String(output)))
	if u.Cost > 0 {
		t.cost.Add(ctx, u.Cost, metric.WithAttributes(of))
	}
}

// Ended counts an execution that has ended.
func (t *Telemetry) Ended(x Execution) {
	if t == nil {
		return
	}
	took := x.Ended.Sub(x.Begun).Seconds()
	how := []attribute.KeyValue{keyState.String(stateName(x.State)), keyReason.String(t.reasons.keep(x.Reason))}
	if x.Kind == mesh.KindTurn {
		t.turn.Record(context.Background(), took, metric.WithAttributes(how...))
		return
	}
	t.agent.Record(context.Background(), took, metric.WithAttributes(append(how, keyAgent.String(t.agents.keep(x.Agent)), keyKind.String(string(x.Kind)))...))
}

// SkillEnded counts a call of a skill.
func (t *Telemetry) SkillEnded(skill string, failed bool, took time.Duration) {
	if t == nil {
		return
	}
	outcome := "completed"
	if failed {
		outcome = "failed"
	}
	t.skill.Record(context.Background(), took.Seconds(), metric.WithAttributes(keySkill.String(t.skills.keep(skill)), keyOutcome.String(outcome)))
}

// Tripped counts a limit that stopped something.
func (t *Telemetry) Tripped(limit string) {
	if t != nil {
		t.limits.Add(context.Background(), 1, metric.WithAttributes(keyLimit.String(t.trips.keep(limit))))
	}
}
