//go:build unix

package node_test

import (
	"context"
	"io"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/agent"
)

// syncTime returns how many nanoseconds it takes to append to a file and have
// that on disk: the unit of all that is durable.
func syncTime(b *testing.B) float64 {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "sync"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var took []time.Duration
	for range 100 {
		begin := time.Now()
		if _, err := f.Write(make([]byte, 512)); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	return float64(median(took, itself))
}

// onCue is an agent that says one thing for each cue.
func onCue(cues <-chan struct{}) run {
	return func(context.Context, *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			for range cues {
				if !yield(agent.Artifact{Artifact: whole("now")}, nil) {
					return
				}
			}
		}
	}
}

// bareOnCue is onCue without a runtime.
type bareOnCue struct {
	bareAgent
	cues <-chan struct{}
}

func (a bareOnCue) SendStreamingMessage(_ *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	for range a.cues {
		u := &a2apb.TaskArtifactUpdateEvent{Artifact: whole("now")}
		if err := stream.Send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: u}}); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkEventLatency measures how long one event takes from an agent to the
// user when nothing else happens, durable on its way, and through two bare
// hops. added-fdatasyncs is the difference in units of what one costs.
func BenchmarkEventLatency(b *testing.B) {
	ours, bare := make(chan struct{}), make(chan struct{})
	m := start(b, config(b.TempDir()), map[string]run{"main": onCue(ours)})
	_, hop := serveAgent(b, bareOnCue{cues: bare})
	took := map[chan struct{}][]time.Duration{}
	cues := []chan struct{}{ours, bare}
	var open []grpc.ServerStreamingClient[a2apb.StreamResponse]
	for _, c := range []a2apb.A2AServiceClient{m.edge(), hop} {
		stream, err := c.SendStreamingMessage(b.Context(), say("begin"))
		if err != nil {
			b.Fatal(err)
		}
		open = append(open, stream)
	}
	for b.Loop() {
		for range 20 {
			for i, cue := range cues {
				begin := time.Now()
				cue <- struct{}{}
				nextArtifact(b, open[i])
				took[cue] = append(took[cue], time.Since(begin))
			}
		}
	}
	for i, cue := range cues {
		close(cue)
		for err := error(nil); err != io.EOF; {
			if _, err = open[i].Recv(); err != nil && err != io.EOF {
				b.Fatal(err)
			}
		}
	}
	p50, bareP50 := float64(median(took[ours], itself)), float64(median(took[bare], itself))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(p50/1e3, "us-p50")
	b.ReportMetric(p50/bareP50, "x-bare-p50")
	b.ReportMetric((p50-bareP50)/syncTime(b), "added-fdatasyncs")
}

// nextArtifact reads up to the next artifact update and returns its text.
func nextArtifact(b *testing.B, stream grpc.ServerStreamingClient[a2apb.StreamResponse]) string {
	b.Helper()
	for {
		r, err := stream.Recv()
		if err != nil {
			b.Fatal(err)
		}
		if u := r.GetArtifactUpdate(); u != nil {
			return textOf(u.GetArtifact().GetParts())
		}
	}
}

// BenchmarkHandoff measures the gap that a user sees when the stream goes to
// another agent: from the last byte of the first to the first byte of the
// second. It stands beside the time from a call to an agent's first byte
// through the edge (x-roundtrip: the gap as a multiple of it), which has about
// the same work to do, and through two bare hops (x-bare).
func BenchmarkHandoff(b *testing.B) {
	m := start(b, config(b.TempDir()), map[string]run{"main": giver, "builder": echo})
	_, hop := serveAgent(b, bareAgent{})
	var gaps, opens, bares []time.Duration
	for b.Loop() {
		for range 20 {
			gaps = append(gaps, gap(b, m))
			opens = append(opens, firstByte(b, m.edge(), "hello"))
			bares = append(bares, firstByte(b, hop, shape{chunks: 1, size: numberSize}.String()))
		}
	}
	us := float64(median(gaps, itself)) / 1e3
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(us, "us-gap")
	b.ReportMetric(us*1e3/float64(median(opens, itself)), "x-roundtrip")
	b.ReportMetric(us*1e3/float64(median(bares, itself)), "x-bare")
	b.ReportMetric(us*1e3/syncTime(b), "fdatasyncs")
}

// giver hands the stream over when it is told to.
func giver(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		if !yield(agent.Text{Text: "main"}, nil) || inv.Text() != "give" {
			return
		}
		if _, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "builder"}); err != nil {
			yield(nil, err)
		}
	}
}

// gap runs one handoff. The agents' words show that nothing was lost.
func gap(b *testing.B, m *testMesh) time.Duration {
	b.Helper()
	stream, err := m.edge().SendStreamingMessage(b.Context(), say("give"))
	if err != nil {
		b.Fatal(err)
	}
	if said := nextArtifact(b, stream); said != "main" {
		b.Fatalf("the first agent said %q", said)
	}
	last := time.Now()
	said := nextArtifact(b, stream)
	took := time.Since(last)
	for err == nil {
		var r *a2apb.StreamResponse
		if r, err = stream.Recv(); err == nil {
			said += textOf(r.GetArtifactUpdate().GetArtifact().GetParts())
		}
	}
	if err != io.EOF || said != "You said: give" {
		b.Fatalf("the second agent said %q: %v", said, err)
	}
	return took
}

// firstByte returns the time from a call to the first output of an agent.
func firstByte(b *testing.B, c a2apb.A2AServiceClient, text string) time.Duration {
	b.Helper()
	begin := time.Now()
	stream, err := c.SendStreamingMessage(b.Context(), say(text))
	if err != nil {
		b.Fatal(err)
	}
	nextArtifact(b, stream)
	took := time.Since(begin)
	for err == nil {
		_, err = stream.Recv()
	}
	if err != io.EOF {
		b.Fatal(err)
	}
	return took
}
