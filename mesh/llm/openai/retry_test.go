package openai_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm/openai"
)

// wire is a network without time of its own: a listener whose connections are
// pipes, so that a real server and a real client can wait in virtual time.
type wire struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *wire) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *wire) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *wire) Addr() net.Addr { return &net.UnixAddr{Name: "wire"} }

// overWire calls test in a bubble of virtual time with a client of a server
// that answers the nth request, from 0, with reply. times tells when requests
// arrived.
func overWire(t *testing.T, c openai.Config, reply func(n int, s stream), test func(t *testing.T, c *openai.Client, times func() []time.Time)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &wire{conns: make(chan net.Conn), done: make(chan struct{})}
		var mu sync.Mutex
		var arrived []time.Time
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			mu.Lock()
			n := len(arrived)
			arrived = append(arrived, time.Now())
			mu.Unlock()
			reply(n, stream{w, r})
		})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = srv.Serve(l) })
		transport := &http.Transport{DialContext: l.dial}
		c.BaseURL, c.Model, c.Key, c.Transport = "http://wire/v1", "big", key, transport
		client, err := openai.New(c)
		if err != nil {
			t.Fatal(err)
		}
		test(t, client, func() []time.Time {
			mu.Lock()
			defer mu.Unlock()
			return arrived
		})
		client.Close()
		_ = srv.Close()
		serving.Wait()
	})
}

// fail answers with a status.
func fail(s stream, status int, body string) {
	s.w.WriteHeader(status)
	_, _ = io.WriteString(s.w, body)
}

func answer(s stream) {
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.event(`{"content":"hi"}`, "stop")
	s.raw("data: [DONE]\n\n")
}

// What may be gone at the next attempt is tried again before the first piece of
// a reply, and nothing else is.
func TestGenerate_triesAgainBeforeTheFirstPiece(t *testing.T) {
	tests := map[string]struct {
		reply func(s stream)
		tries int // of a server that fails twice and then answers
	}{
		"429":                 {func(s stream) { fail(s, 429, "") }, 3},
		"408":                 {func(s stream) { fail(s, 408, "") }, 3},
		"500":                 {func(s stream) { fail(s, 500, "{}") }, 3},
		"529":                 {func(s stream) { fail(s, 529, `{"error":{"type":"overloaded_error"}}`) }, 3},
		"connection cut":      {stream.cut, 3},
		"empty reply":         {func(stream) {}, 3},
		"only keep-alives":    {func(s stream) { s.raw(": PROCESSING\n\n") }, 3},
		"error as first":      {func(s stream) { s.raw(`data: {"error":{"code":503,"message":"no"}}` + "\n\n") }, 3},
		"error as body":       {func(s stream) { s.raw(`{"error":{"code":503,"message":"no"}}`) }, 3},
		"cut after the role":  {func(s stream) { s.event(`{"role":"assistant","content":""}`, ""); s.cut() }, 3},
		"400":                 {func(s stream) { fail(s, 400, "") }, 1},
		"401":                 {func(s stream) { fail(s, 401, "") }, 1},
		"402":                 {func(s stream) { fail(s, 402, "") }, 1},
		"404":                 {func(s stream) { fail(s, 404, "") }, 1},
		"501":                 {func(s stream) { fail(s, 501, "") }, 1},
		"no money":            {func(s stream) { fail(s, 429, `{"error":{"code":"insufficient_quota","message":"pay"}}`) }, 1},
		"not the protocol":    {func(s stream) { s.raw("<html>\n") }, 1},
		"cut after text":      {func(s stream) { s.text("half"); s.cut() }, 1},
		"error after text":    {func(s stream) { s.text("half"); s.raw(`data: {"error":{"code":503}}` + "\n\n") }, 1},
		"cut after a call":    {func(s stream) { s.event(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"a"}}]}`, ""); s.cut() }, 1},
		"redirect to nowhere": {func(s stream) { fail(s, 304, "") }, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			overWire(t, openai.Config{}, func(n int, s stream) {
				if n < 2 {
					tt.reply(s)
				} else {
					answer(s)
				}
			}, func(t *testing.T, c *openai.Client, times func() []time.Time) {
				texts, _, done, err := generate(t.Context(), c, hello())
				if got := len(times()); got != tt.tries {
					t.Errorf("tried %d times, want %d", got, tt.tries)
				}
				if ok := err == nil && done != nil && strings.Join(texts, "") == "hi"; ok != (tt.tries == 3) {
					t.Errorf("got %q, %v, %v", texts, done, err)
				}
				if strings.Contains(mesh.DetailOf(err), "tried") {
					t.Errorf("one attempt is counted: %v", err)
				}
			})
		})
	}
}

// The failure that remains says how often it was tried, and pauses double, and
// are not the same for all clients.
func TestGenerate_pausesGrowAndAreSpread(t *testing.T) {
	firsts := map[time.Duration]bool{}
	for range 5 {
		overWire(t, openai.Config{}, func(_ int, s stream) { fail(s, 503, "") }, func(t *testing.T, c *openai.Client, times func() []time.Time) {
			_, _, _, err := generate(t.Context(), c, hello())
			if !mesh.IsCode(err, mesh.Unavailable) || !strings.HasSuffix(mesh.DetailOf(err), "(tried 4 times)") {
				t.Errorf("error %v", err)
			}
			at := times()
			if len(at) != 1+openai.DefaultMaxRetries {
				t.Fatalf("tried %d times", len(at))
			}
			for i, least := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
				if gap := at[i+1].Sub(at[i]); gap < least || gap > least*5/4 {
					t.Errorf("pause %d is %v", i, gap)
				}
			}
			firsts[at[1].Sub(at[0])] = true
		})
	}
	if len(firsts) < 2 {
		t.Errorf("five clients all paused for %v", firsts)
	}
}

func TestGenerate_retriesAreBounded(t *testing.T) {
	for retries, want := range map[int]int{-1: 1, 1: 2, 6: 7} {
		overWire(t, openai.Config{MaxRetries: retries}, func(_ int, s stream) { fail(s, 500, "") }, func(t *testing.T, c *openai.Client, times func() []time.Time) {
			if _, _, _, err := generate(t.Context(), c, hello()); err == nil || len(times()) != want {
				t.Errorf("MaxRetries %d: tried %d times, %v", retries, len(times()), err)
			}
		})
	}
}

// The provider is given the time that it asks for, in seconds or as a date.
func TestGenerate_waitsAsLongAsAsked(t *testing.T) {
	tests := map[string]struct {
		header      func() string
		least, most time.Duration
	}{
		"seconds":          {func() string { return "20" }, 20 * time.Second, 22 * time.Second},
		"a date":           {func() string { return time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat) }, 20 * time.Second, 22 * time.Second},
		"a date gone by":   {func() string { return time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat) }, 500 * time.Millisecond, time.Second},
		"less than we do":  {func() string { return "0" }, 500 * time.Millisecond, time.Second},
		"a negative one":   {func() string { return "-5" }, 500 * time.Millisecond, time.Second},
		"nonsense":         {func() string { return "soon" }, 500 * time.Millisecond, time.Second},
		"not a number":     {func() string { return "NaN" }, 500 * time.Millisecond, time.Second},
		"a part of second": {func() string { return "1.5" }, 1500 * time.Millisecond, 2 * time.Second},
	}
	for name, tt := range tests {
		for _, status := range []int{429, 503} {
			t.Run(fmt.Sprint(name, " with ", status), func(t *testing.T) {
				overWire(t, openai.Config{}, func(n int, s stream) {
					if n > 0 {
						answer(s)
						return
					}
					s.w.Header().Set("Retry-After", tt.header())
					fail(s, status, "")
				}, func(t *testing.T, c *openai.Client, times func() []time.Time) {
					_, _, _, err := generate(t.Context(), c, hello())
					at := times()
					if err != nil || len(at) != 2 {
						t.Fatalf("%d tries, %v", len(at), err)
					}
					if gap := at[1].Sub(at[0]); gap < tt.least || gap > tt.most {
						t.Errorf("waited %v, want %v to %v", gap, tt.least, tt.most)
					}
				})
			})
		}
	}
}

// An attempt that could only come after the deadline is not waited for.
func TestGenerate_doesNotWaitBeyondTheDeadline(t *testing.T) {
	hour := func(_ int, s stream) {
		s.w.Header().Set("Retry-After", "3600")
		fail(s, 429, `{"error":{"message":"hourly limit"}}`)
	}
	overWire(t, openai.Config{}, hour, func(t *testing.T, c *openai.Client, times func() []time.Time) {
		began := time.Now()
		_, _, _, err := generate(t.Context(), c, hello())
		if !mesh.IsCode(err, mesh.Exhausted) || !strings.Contains(mesh.DetailOf(err), "wait 1h0m0s") || !strings.Contains(mesh.DetailOf(err), "hourly limit") {
			t.Errorf("error %v", err)
		}
		if time.Since(began) > 0 || len(times()) != 1 {
			t.Errorf("%d tries in %v", len(times()), time.Since(began))
		}
	})
	overWire(t, openai.Config{}, func(_ int, s stream) { fail(s, 500, "") }, func(t *testing.T, c *openai.Client, _ func() []time.Time) {
		ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
		defer cancel()
		_, _, _, err := generate(ctx, c, hello())
		if !mesh.IsCode(err, mesh.Unavailable) || !strings.Contains(mesh.DetailOf(err), "tried 2 times") || ctx.Err() != nil {
			t.Errorf("error %v", err)
		}
	})
}

// A caller that gives up during a pause does not wait for its end, and silence
// is not counted while the client itself waits.
func TestGenerate_cancelEndsAPause(t *testing.T) {
	slow := func(n int, s stream) {
		if n > 0 {
			answer(s)
			return
		}
		s.w.Header().Set("Retry-After", "100")
		fail(s, 503, "")
	}
	overWire(t, openai.Config{}, slow, func(t *testing.T, c *openai.Client, _ func() []time.Time) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		began := time.Now()
		if _, _, _, err := generate(ctx, c, hello()); !mesh.IsCode(err, mesh.Canceled) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
	overWire(t, openai.Config{IdleTimeout: 10 * time.Second}, slow, func(t *testing.T, c *openai.Client, _ func() []time.Time) {
		if _, _, _, err := generate(t.Context(), c, hello()); err != nil {
			t.Error(err)
		}
	})
}

// An endpoint that cannot be reached is tried again, one whose certificate or
// name is wrong is not.
func TestGenerate_connectionErrors(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it hears that its certificate is not trusted
	secure.StartTLS()
	t.Cleanup(secure.Close)
	unknown := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "llm.test", IsNotFound: true}
	}}
	tests := map[string]struct {
		config openai.Config
		tries  string
	}{
		"refused":       {openai.Config{BaseURL: "http://127.0.0.1:1/v1"}, "(tried 2 times)"},
		"unknown name":  {openai.Config{BaseURL: "http://llm.test/v1", Transport: unknown}, ""},
		"not trustable": {openai.Config{BaseURL: secure.URL + "/v1"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.config.Model, tt.config.MaxRetries = "big", 1
			c, err := openai.New(tt.config)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _, _, err = generate(t.Context(), c, hello())
			detail := mesh.DetailOf(err)
			if !mesh.IsCode(err, mesh.Unavailable) || strings.Contains(detail, "tried") != (tt.tries != "") || !strings.HasSuffix(detail, tt.tries) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// ending is a transport whose reply begins just when the caller gives up.
type ending struct {
	cancel context.CancelFunc
	*strings.Reader
	closed bool
}

func (e *ending) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: e, Header: http.Header{}, Request: r}, nil
}

func (e *ending) Read(p []byte) (int, error) { e.cancel(); return e.Reader.Read(p) }
func (e *ending) Close() error               { e.closed = true; return nil }

func TestGenerate_leavesNothingOpenWhenTheCallerGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := &ending{cancel: cancel, Reader: strings.NewReader("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")}
	c, err := openai.New(openai.Config{BaseURL: "http://test/v1", Model: "m", Transport: e})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := generate(ctx, c, hello()); !mesh.IsCode(err, mesh.Canceled) || !e.closed {
		t.Errorf("%v, closed %v", err, e.closed)
	}
}
