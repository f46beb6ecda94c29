// Package telemetry tells operators what a mesh does, by OpenTelemetry: in traces, one for
// each turn, and in metrics.
//
// # Spans
//
// A span is told of when it has ended, with the times that it had. Nothing is kept for it
// until then, and nothing has to be passed on but the traceparent in [mesh.Call] and in
// the log: the span of an execution follows from its id ([mesh.SpanOf]). So a turn that a
// crash cut off is one span, told of by whoever sees its end, and all that happened in it
// hangs together, whichever processes were killed.
//
// # What it costs
//
// A nil *Telemetry is off: its methods return at once and allocate nothing. What is on is
// bounded: spans wait in a queue of fixed size, and labels of metrics have few values.
//
// # What is not told
//
// Users are not named, and neither tokens nor headers are told. What was said, arguments and
// results are told only where the operator asked for it ([Config.Content]).
//
// All methods may be called concurrently, and none waits for a receiver but Close.
package telemetry

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"agentmesh/mesh"
)

// A Telemetry tells of what happens in a process. Use New, and Close it when everything
// has ended. A nil one is off.
type Telemetry struct {
	content bool
	sampler sdktrace.Sampler
	spans   *sdktrace.TracerProvider
	metrics *sdkmetric.MeterProvider
	tracer  trace.Tracer // nil if nobody takes spans
	meters
	sender sdktrace.SpanExporter // nil if there is none
	served *prometheus.Registry  // nil if metrics are not served
}

// A Service is the process that tells.
type Service struct {
	// Name is the service's, unless OTEL_SERVICE_NAME has another one; Instance tells apart
	// those of the same name.
	Name, Version, Instance string
	// Logger is told when nobody takes what is told. The default discards.
	Logger *slog.Logger
}

// New returns what tells as c says; nil if that is nothing. It does not wait for the
// receiver, which may come and go.
func New(ctx context.Context, c Config, of Service) (*Telemetry, error) {
	if !c.On() {
		return nil, nil
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if of.Logger != nil {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { of.Logger.Warn("telemetry was not sent", "err", err) }))
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(keyService.String(of.Name), keyVersion.String(of.Version), keyInstance.String(of.Instance)), resource.WithFromEnv())
	if err != nil {
		return nil, mesh.Errorf(mesh.Invalid, "telemetry.New", "OTEL_RESOURCE_ATTRIBUTES is not as it should be, name=value,name=value: %w", err)
	}
	part := 1.0
	if c.Sample != nil {
		part = *c.Sample
	}
	t := &Telemetry{content: c.Content, sampler: sdktrace.TraceIDRatioBased(part)}
	spans := []sdktrace.TracerProviderOption{sdktrace.WithResource(about), sdktrace.WithSampler(sdktrace.ParentBased(chosen{t.sampler})), sdktrace.WithIDGenerator(ids{})}
	metrics := []sdkmetric.Option{sdkmetric.WithResource(about)}
	if c.sends() {
		exporter, err := otlptracegrpc.New(ctx, c.traceOptions()...)
		if err != nil {
			return nil, mesh.Wrap("telemetry.New", err)
		}
		sender, err := otlpmetricgrpc.New(ctx, c.metricOptions()...)
		if err != nil {
			return nil, mesh.Wrap("telemetry.New", errors.Join(err, exporter.Shutdown(ctx)))
		}
		t.sender = exporter
		spans = append(spans, sdktrace.WithBatcher(exporter))
		metrics = append(metrics, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(sender)))
	}
	if c.Metrics {
		t.served = prometheus.NewRegistry()
		reader, err := promexporter.New(promexporter.WithRegisterer(t.served), promexporter.WithoutScopeInfo())
		if err != nil {
			return nil, mesh.Wrap("telemetry.New", err)
		}
		metrics = append(metrics, sdkmetric.WithReader(reader))
	}
	t.spans, t.metrics = sdktrace.NewTracerProvider(spans...), sdkmetric.NewMeterProvider(metrics...)
	if c.sends() {
		t.tracer = t.spans.Tracer(scope)
	}
	t.meters, err = newMeters(t.metrics.Meter(scope))
	return t, mesh.Wrap("telemetry.New", err)
}

// What is left out here, the exporters take from the environment.
func (c *Config) traceOptions() (o []otlptracegrpc.Option) {
	address, plain, _ := c.target()
	if o = append(o, otlptracegrpc.WithEndpoint(address)); plain {
		o = append(o, otlptracegrpc.WithInsecure())
	}
	if len(c.Headers) > 0 {
		o = append(o, otlptracegrpc.WithHeaders(c.Headers))
	}
	return o
}

func (c *Config) metricOptions() (o []otlpmetricgrpc.Option) {
	address, plain, _ := c.target()
	if o = append(o, otlpmetricgrpc.WithEndpoint(address)); plain {
		o = append(o, otlpmetricgrpc.WithInsecure())
	}
	if len(c.Headers) > 0 {
		o = append(o, otlpmetricgrpc.WithHeaders(c.Headers))
	}
	return o
}

// closeTime bounds how long the last spans and metrics may take to be sent.
const closeTime = 2 * time.Second

// Close sends what is left to be told, for a few seconds at most. Nothing is told after it.
func (t *Telemetry) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	err := errors.Join(t.spans.Shutdown(last), t.metrics.Shutdown(last))
	if last.Err() != nil && t.sender != nil { // its processor would go on trying
		err = errors.Join(err, t.sender.Shutdown(last))
	}
	return err
}

// Flush sends what is left to be told.
func (t *Telemetry) Flush(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return errors.Join(t.spans.ForceFlush(ctx), t.metrics.ForceFlush(ctx))
}

// Handler serves the metrics in the format of Prometheus; nil if they are not served.
func (t *Telemetry) Handler() http.Handler {
	if t == nil || t.served == nil {
		return nil
	}
	return promhttp.HandlerFor(t.served, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Traces reports whether spans are told of.
func (t *Telemetry) Traces() bool { return t != nil && t.tracer != nil }

type callKey struct{}

// A served call is one that came to a server of this process.
type served struct {
	by *Telemetry
	// turn is the turn's of which the call is a part, if it came with no traceparent.
	turn atomic.Pointer[string]
}

// In returns ctx, from which [From] returns t; ctx itself if t is off. It is given a
// context of its own for each call that is served.
func (t *Telemetry) In(ctx context.Context) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, callKey{}, &served{by: t})
}

// From returns what tells of the work of which this is the context; nil if nothing does.
func From(ctx context.Context) *Telemetry {
	if s, _ := ctx.Value(callKey{}).(*served); s != nil {
		return s.by
	}
	return nil
}

// Opens returns the traceparent of the turn that the call which is served opens, and that
// came with the given one, or "". With none the turn is the root of a trace, of which the
// call is then a part.
func (t *Telemetry) Opens(ctx context.Context, came string, turn mesh.ExecutionID) string {
	if !t.Traces() || came != "" {
		return mesh.LoggedTraceparent(came)
	}
	id, _ := ids{}.NewIDs(context.Background())
	flags := "-00"
	if t.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: ctx, TraceID: id}).Decision == sdktrace.RecordAndSample {
		flags = "-01"
	}
	own := "00-" + hex.EncodeToString(id[:]) + "-" + mesh.SpanOf(turn) + flags
	t.Joins(ctx, "", turn, own)
	return own
}

// Joins has the call which is served, and that came with the given traceparent, or "", be a
// part of the trace of the turn, which has the other one. A call that came with one stays
// where it is.
func (t *Telemetry) Joins(ctx context.Context, came string, turn mesh.ExecutionID, traceparent string) {
	if s, _ := ctx.Value(callKey{}).(*served); s != nil && came == "" {
		under := mesh.Under(traceparent, turn)
		s.turn.Store(&under)
	}
}
