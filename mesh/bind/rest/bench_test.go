package rest_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/rpc/rpctest"
)

// flushEach is the obvious handler that BenchmarkSSE compares with: the same
// call over a connection, each event marshaled into new memory, written and flushed.
func flushEach(conn *grpc.ClientConn) http.Handler {
	client := a2apb.NewA2AServiceClient(conn)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var req a2apb.SendMessageRequest
		if err == nil {
			err = protojson.Unmarshal(raw, &req)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		in, err := client.SendStreamingMessage(r.Context(), &req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		for {
			e, err := in.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			var b []byte
			if err == nil {
				b, err = protojson.Marshal(e)
			}
			if err == nil {
				_, err = w.Write(append(append([]byte("data: "), b...), "\n\n"...))
			}
			if err == nil {
				err = out.Flush()
			}
			if err != nil {
				return
			}
		}
	})
}

// BenchmarkSSE streams events through the gateway and, in turn, through
// flushEach. The ratio of their rates is the figure to watch: both share the
// machine, the service behind them and the client.
func BenchmarkSSE(b *testing.B) {
	const count = 2000
	n, services := startNode(b)
	h, err := rest.New(b.Context(), services, rest.Options{})
	if err != nil {
		b.Fatal(err)
	}
	l := rpctest.Listen(b)
	var serving sync.WaitGroup
	serving.Go(func() { serveNode(b, services, l) })
	b.Cleanup(serving.Wait)
	b.Cleanup(services.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	ours, theirs := serve(b, n, h), serve(b, n, flushEach(conn))
	run := func(s *site) time.Duration {
		begin := time.Now()
		resp := s.do("POST", "/message:stream", say("many 2000"))
		raw, err := io.ReadAll(resp.Body)
		took := time.Since(begin)
		if got := bytes.Count(raw, []byte("data: ")); err != nil || got != count {
			b.Fatalf("%d events, want %d: %v", got, count, err)
		}
		return took
	}
	run(ours)
	run(theirs)
	var sum, base time.Duration
	b.ReportAllocs()
	for b.Loop() {
		sum += run(ours)
		b.StopTimer()
		base += run(theirs)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)*count/sum.Seconds(), "events/s")
	b.ReportMetric(base.Seconds()/sum.Seconds(), "x-flush-each")
}
