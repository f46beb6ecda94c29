package chaos_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/metadata"
)

const (
	floodUsers = 48
	silent     = 2000
	maxMemory  = 300 // MB
	maxWhole   = 400 // of all of the flood: 230 to 300 on an idle machine, more where the collector is late
	getTask    = "/lf.a2a.v1.A2AService/GetTask"
	watch      = "/grpc.health.v1.Health/Watch"
)

// A flood is what is sent to a mesh that is up.
type flood struct {
	t    *testing.T
	m    *target
	web  string // host:port, as grpc
	grpc string
	most int // MB that the mesh may have
}

// finding T5: a gigabyte of bodies that do not end, over every binding and of many users and
// connections, hundreds of thousands of calls that are taken back, tens of thousands of
// watches, and connections that say nothing cost a mesh a bounded memory; and it goes on to
// answer. Without -rounds it is a part of that.
func TestAFloodCostsLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	part := 4
	if *rounds > 0 {
		part = 1 // of 1.2 GB
	}
	f := startFlood(t)
	if f.most = maxMemory; part == 1 {
		f.most = maxWhole
	}
	ended := f.silent()
	f.bodies(t.Context(), 1200/part)
	f.memory("bodies")
	for _, of := range []struct{ method, token string }{{getTask, ""}, {watch, ""}, {getTask, "u1"}} {
		f.resets(of.method, of.token, 200_000/part/3)
	}
	f.memory("calls that were taken back")
	f.watches(40_000 / part)
	f.memory("watches")
	f.answers()
	for range silent {
		if err := <-ended; err != nil {
			t.Fatalf("a connection that says nothing: %v", err)
		}
	}
}

// startFlood starts a mesh that knows users by tokens, as "u1".
func startFlood(t *testing.T) *flood {
	dir := t.TempDir()
	var tokens strings.Builder
	for i := range floodUsers {
		name := fmt.Sprintf("u%d", i)
		sum := sha256.Sum256([]byte(name))
		fmt.Fprintf(&tokens, "- {name: %s, hash: \"sha256:%s\", tenant: t%d, user: %s, roles: [user]}\n", name, hex.EncodeToString(sum[:]), i%2, name)
	}
	for name, text := range map[string]string{"tokens.yaml": tokens.String(), "mesh.yaml": "auth: tokens\ntokens: tokens.yaml\nmcp: {offer: true}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := &target{bin: build(t), dir: dir, env: environment(), up: make(chan struct{})}
	t.Cleanup(func() {
		if err := m.end(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	if err := m.start(0); err != nil {
		t.Fatal(err)
	}
	at, err := m.use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &flood{t: t, m: m, web: strings.TrimPrefix(at.http, "http://"), grpc: at.conn.Target()}
}

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// memory checks the most that the mesh has had so far.
func (f *flood) memory(what string) {
	f.t.Helper()
	mb := residentPeak(f.t, f.m.cmd.Process.Pid)
	fmt.Printf("flood: after %s the mesh has had %d MB at most\n", what, mb)
	if mb > f.most {
		f.t.Errorf("after %s the mesh has had %d MB, want at most %d", what, mb, f.most)
	}
}

func (f *flood) dial(at string) net.Conn {
	f.t.Helper()
	c, err := new(net.Dialer).DialContext(f.t.Context(), "tcp", at)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

// silent makes connections that say nothing, and tells of each when the mesh has closed it.
func (f *flood) silent() <-chan error {
	ended := make(chan error, silent)
	for i := range silent {
		c := f.dial([]string{f.grpc, f.web}[i%2])
		go func() { // ends with the connection
			err := c.SetReadDeadline(time.Now().Add(patient))
			if err == nil {
				if _, err = io.Copy(io.Discard, c); errors.Is(err, syscall.ECONNRESET) {
					err = nil
				}
			}
			ended <- err
		}()
	}
	return ended
}

// bodies sends so many MB of requests that do not end.
func (f *flood) bodies(ctx context.Context, mb int) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var sent, refused atomic.Int64
	post := func(client *http.Client, url, user, kind string, n int) {
		body := &unending{ctx: ctx, left: n, sent: &sent}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
		if err != nil {
			f.t.Error(err)
			return
		}
		req.Header.Set("Content-Type", kind)
		req.Header.Set("Authorization", "Bearer "+user)
		if kind == "application/grpc" {
			body.first = binary.BigEndian.AppendUint32([]byte{0}, 4<<20)
		} else {
			body.first = []byte(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"parts":[{"text":"`)
			req.Header.Set("Accept", "application/json, text/event-stream")
		}
		resp, err := client.Do(req)
		if err != nil { // it is cut when the mesh has answered, or at the end
			refused.Add(1)
			return
		}
		_ = resp.Body.Close()
		if resp.Header.Get("Grpc-Status") != "" || resp.StatusCode == http.StatusTooManyRequests {
			refused.Add(1)
		}
	}
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	over := make([]*http.Client, 64)
	for i := range over {
		t := &http.Transport{Protocols: h2}
		over[i] = &http.Client{Transport: t}
		defer t.CloseIdleConnections()
	}
	web := &http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	const large, small = 3_900_000, 1_400_000
	for i := 0; i*(large+small)/1e6 < mb; i++ {
		user := fmt.Sprintf("u%d", i%floodUsers)
		all.Go(func() {
			post(over[i%len(over)], "http://"+f.grpc+"/lf.a2a.v1.A2AService/SendMessage", user, "application/grpc", large)
		})
		path := []string{"/message:send", "/", "/v1/message:send", "/mcp", "/message:stream"}[i%5]
		all.Go(func() { post(web, "http://"+f.web+path, user, "application/json", small) })
	}
	for before := int64(-1); before != sent.Load()+refused.Load(); { // until nothing goes on
		before = sent.Load() + refused.Load()
		time.Sleep(time.Second)
	}
	fmt.Printf("flood: %d MB were sent of %d, and %d requests cut\n", sent.Load()/1e6, mb, refused.Load())
}

// unending is a body that ends with the flood.
type unending struct {
	ctx   context.Context // its end
	first []byte
	left  int
	sent  *atomic.Int64
}

func (b *unending) Read(p []byte) (int, error) {
	switch {
	case len(b.first) > 0:
		n := copy(p, b.first)
		b.first = b.first[n:]
		return n, nil
	case b.left > 0:
		n := min(len(p), b.left)
		copy(p, bytes.Repeat([]byte("x"), n))
		b.left -= n
		b.sent.Add(int64(n))
		return n, nil
	}
	<-b.ctx.Done()
	return 0, io.ErrUnexpectedEOF
}

// A wire is a connection to the gRPC server that writes frames as it likes.
type wire struct {
	*http2.Framer
	out     *bufio.Writer
	stream  uint32
	headers *hpack.Encoder
	block   bytes.Buffer
}

func (f *flood) wire(heard func(http2.Frame)) *wire {
	f.t.Helper()
	c := f.dial(f.grpc)
	w := &wire{out: bufio.NewWriter(c), stream: 1}
	w.Framer = http2.NewFramer(w.out, c)
	w.headers = hpack.NewEncoder(&w.block)
	_, err := w.out.WriteString(http2.ClientPreface)
	if err := errors.Join(err, w.WriteSettings(), w.out.Flush()); err != nil {
		f.t.Fatal(err)
	}
	go func() { // ends with the connection
		for {
			frame, err := w.ReadFrame()
			if err != nil {
				return
			}
			heard(frame)
		}
	}()
	return w
}

// call writes the headers of a call, and returns its stream.
func (w *wire) call(method, token string) (uint32, error) {
	w.block.Reset()
	fields := []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method},
		{Name: ":authority", Value: "mesh"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}}
	if token != "" {
		fields = append(fields, hpack.HeaderField{Name: "authorization", Value: "Bearer " + token})
	}
	for _, h := range fields {
		if err := w.headers.WriteField(h); err != nil {
			return 0, err
		}
	}
	id := w.stream
	w.stream += 2
	return id, w.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: w.block.Bytes(), EndHeaders: true})
}

// resets makes n calls and takes each back at once.
func (f *flood) resets(method, token string, n int) {
	w := f.wire(func(http2.Frame) {})
	for range n {
		id, err := w.call(method, token)
		if err := errors.Join(err, w.WriteRSTStream(id, http2.ErrCodeCancel)); err != nil {
			return // the mesh may close such a connection
		}
	}
	_ = w.out.Flush() // as above
}

// watches opens n streams of health over a few connections, and waits until each has an answer.
func (f *flood) watches(n int) {
	var open, ended atomic.Int64
	const conns = 20
	for range conns {
		w := f.wire(func(frame http2.Frame) {
			if h, ok := frame.(*http2.HeadersFrame); ok && h.StreamEnded() {
				ended.Add(1)
			} else if ok {
				open.Add(1)
			}
		})
		for range n / conns {
			id, err := w.call(watch, "")
			if err := errors.Join(err, w.WriteData(id, true, make([]byte, 5))); err != nil {
				f.t.Fatal(err)
			}
		}
		if err := w.out.Flush(); err != nil {
			f.t.Fatal(err)
		}
	}
	for end := time.Now().Add(patient); open.Load()+ended.Load() < int64(n); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("%d watches are open and %d refused of %d", open.Load(), ended.Load(), n)
		}
	}
	fmt.Printf("flood: %d watches are open and %d refused\n", open.Load(), ended.Load())
	if open.Load() == 0 || open.Load() > 1024 {
		f.t.Errorf("%d watches are open, want 1 to 1024", open.Load())
	}
}

// answers has somebody ask the mesh while the watches are open.
func (f *flood) answers() {
	at, err := f.m.use(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(f.t.Context(), "authorization", "Bearer u2"), patient)
	defer cancel()
	_, err = a2apb.NewA2AServiceClient(at.conn).ListTasks(ctx, &a2apb.ListTasksRequest{})
	if err != nil {
		f.t.Errorf("after the flood: %v", err)
	}
}
