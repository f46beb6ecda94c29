package rest

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	gwruntime "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh/rpc"
)

const (
	// writeSize is how many bytes of events wait for a slow client before the
	// call behind the stream waits too.
	writeSize = 32 << 10
	// keepSize is how large a buffer may be that is used again.
	keepSize = 2 * writeSize
)

// errClosing is why a stream ends when the gateway does.
var errClosing = errors.New("gateway: closing")

// streamHandler serves one binding of a streaming method.
func (g *gateway) streamHandler(closing context.Context, m method) gwruntime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, pathParams map[string]string) {
		msg, bad := m.request(r, pathParams)
		if bad != nil {
			g.fail(w, http.StatusBadRequest, bad)
			return
		}
		g.stream(closing, w, r, m, msg, Framing{Refuse: func(st *status.Status) {
			g.fail(w, g.httpCode(st), st)
		}})
	}
}

// stream makes the call and writes what it answers, until the call ends, the
// client leaves or closing ends.
func (g *gateway) stream(closing context.Context, w http.ResponseWriter, r *http.Request, m method, msg proto.Message, framing Framing) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(closing, func() { cancel(errClosing) })()
	if closing.Err() != nil {
		cancel(errClosing) // which is not before what follows otherwise
	}
	out := &eventWriter{
		w:         w,
		rc:        http.NewResponseController(w),
		framing:   framing,
		strip:     m.a2a && !extended(admitted(ctx)),
		heartbeat: g.opts.Heartbeat,
		patience:  writeTimeout,
		gone:      func() { cancel(nil) },
	}
	err := g.conn.Stream(ctx, m.name, msg, out)
	if out.spent {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent) // an EventSource then connects no more (HTML, 9.2)
		return
	}
	if !out.begun {
		framing.Refuse(endOf(ctx, err))
		return
	}
	if out.unshown != nil {
		err = out.unshown
	}
	var last *status.Status
	if err != nil && r.Context().Err() == nil {
		last = endOf(ctx, err)
	}
	if err := out.end(last); err != nil {
		g.opts.Logger.Debug("stream cut", "method", m.name, "err", err)
	}
}

// endOf returns what to tell the client about the end of a stream.
func endOf(ctx context.Context, err error) *status.Status {
	if errors.Is(context.Cause(ctx), errClosing) {
		return closing()
	}
	return status.Convert(err)
}

// errWrite marks that the client did not take what was written.
var errWrite = errors.New("gateway: the client takes no more")

// An eventWriter is the [rpc.Sink] that writes server-sent events. Who sends
// encodes them, behind those that wait. While there are any, and only then, another
// goroutine writes them; end waits for it.
type eventWriter struct {
	w         http.ResponseWriter // used by who begins, and then by who writes
	rc        *http.ResponseController
	framing   Framing
	strip     bool // leave out what the client did not ask for
	heartbeat time.Duration
	patience  time.Duration // how long the client may take nothing
	gone      func()        // ends the call, which nobody hears

	spent   bool  // there is nothing to write, and never will be
	begun   bool  // the call was accepted
	unshown error // why an event could not be encoded

	mu      sync.Mutex
	moved   sync.Cond // waiting, writing or err has changed
	waiting *events   // nil if there are none
	writing bool
	err     error // why the client gets no more
	over    bool  // nothing is written any more
	idle    *time.Timer
}

// events are bytes that are written as one.
type events struct{ b []byte }

// spare has events to use again: a stream keeps none while nothing happens.
var spare = sync.Pool{New: func() any { return new(events) }}

// Header begins the response, unless the stream has nothing left.
func (o *eventWriter) Header(md metadata.MD) error {
	if o.spent = len(md[rpc.KeyNothingLeft]) > 0; o.spent {
		return nil
	}
	h := o.w.Header()
	h.Set("Content-Type", mimeSSE)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	for _, v := range md[rpc.KeyExtensions] {
		h.Add(headerExtensions, v)
	}
	// A server's limit on the time to read a request would end the stream.
	_ = o.rc.SetReadDeadline(time.Time{}) // not all writers have deadlines
	o.w.WriteHeader(http.StatusOK)
	o.begun = true
	o.mu.Lock()
	defer o.mu.Unlock()
	o.moved.L = &o.mu
	o.idle = time.AfterFunc(o.heartbeat, o.beat)
	o.queue() // which sends the header, with what the call says at once
	return nil
}

// Send encodes m, once the client has taken enough of what was sent before.
func (o *eventWriter) Send(m proto.Message, seq int64) error {
	if o.spent {
		return nil
	}
	if seq == 0 {
		seq = seqOf(m)
	}
	if o.strip {
		m = plain(m)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && o.waiting != nil && len(o.waiting.b) >= writeSize {
		o.moved.Wait()
	}
	if o.err != nil {
		return o.err
	}
	to := o.queue()
	start := len(to.b)
	if seq > 0 {
		to.b = append(to.b, "id: "...)
		to.b = strconv.AppendInt(to.b, seq, 10)
		to.b = append(to.b, '\n')
	}
	to.b = append(to.b, "data: "...)
	to.b = append(to.b, o.framing.Before...)
	b, err := o.framing.message(to.b, m)
	if err != nil {
		to.b = to.b[:start]
		o.unshown = status.Error(codes.Internal, "the next event cannot be shown as JSON")
		return o.unshown
	}
	to.b = append(b, o.framing.After...)
	to.b = append(to.b, "\n\n"...)
	return nil
}

// queue returns what waits, and sees that it is written. The caller holds mu.
func (o *eventWriter) queue() *events {
	if o.waiting == nil {
		o.waiting = spare.Get().(*events)
		o.waiting.b = o.waiting.b[:0]
	}
	if !o.writing {
		o.writing = true
		go o.drain() // end waits for it
	}
	return o.waiting
}

// drain writes what waits, until nothing does. A flush costs more than a turn of
// the scheduler, in which the call may say what it has to say already.
func (o *eventWriter) drain() {
	runtime.Gosched()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.waiting != nil && o.err == nil {
		batch := o.waiting
		o.waiting = nil
		o.moved.Broadcast()
		o.mu.Unlock()
		err := o.write(batch.b)
		if cap(batch.b) <= keepSize {
			spare.Put(batch)
		}
		o.mu.Lock()
		o.err = err
	}
	if o.err != nil {
		o.gone()
	}
	o.writing = false
	o.idle.Reset(o.heartbeat)
	o.moved.Broadcast()
}

// write sends b to the client. The deadline is for the connection, which a client
// that went away without a word would hold.
func (o *eventWriter) write(b []byte) error {
	_ = o.rc.SetWriteDeadline(time.Now().Add(o.patience)) // not all writers have deadlines
	_, err := o.w.Write(b)
	if err == nil {
		err = o.rc.Flush()
	}
	if err != nil {
		return errors.Join(errWrite, err)
	}
	return nil
}

// beat sends a comment when nothing was written for the time of a heartbeat.
func (o *eventWriter) beat() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over || o.writing || o.err != nil {
		return
	}
	to := o.queue()
	to.b = append(to.b, ": keep-alive\n\n"...)
}

// end writes what waits, and the error, if there is one, as the last event. It
// returns why the client did not get all. The connection can serve another request.
func (o *eventWriter) end(last *status.Status) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if last != nil && o.err == nil {
		to := o.queue()
		to.b = append(to.b, "data: "...)
		to.b = append(to.b, o.framing.failure(last)...)
		to.b = append(to.b, "\n\n"...)
	}
	for o.writing {
		o.moved.Wait()
	}
	o.over = true
	o.idle.Stop()
	_ = o.rc.SetWriteDeadline(time.Time{}) // not all writers have deadlines
	return o.err
}
