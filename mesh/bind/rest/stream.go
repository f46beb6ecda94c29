package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	gwruntime "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"agentmesh/mesh/rpc"
)

const (
	// queueLength is how many events wait for a slow client before the call
	// behind the stream waits too.
	queueLength = 64
	// writeSize is how many bytes of events are collected before they are
	// written although more are waiting.
	writeSize = 32 << 10
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
	s, header, err := g.open(ctx, m, msg)
	if err != nil {
		framing.Refuse(endOf(ctx, err))
		return
	}
	out := &eventWriter{
		w:        w,
		rc:       http.NewResponseController(w),
		framing:  framing,
		strip:    m.a2a && !extended(admitted(r.Context())),
		patience: writeTimeout,
	}
	if err = out.begin(header); err == nil && s != nil {
		err = out.relay(s, m.output, g.opts.Heartbeat, func() { cancel(nil) })
	}
	if err != nil && r.Context().Err() == nil && !errors.Is(err, errWrite) {
		err = out.fail(endOf(ctx, err))
	}
	if err != nil {
		g.opts.Logger.Debug("stream cut", "method", m.name, "err", err)
		return
	}
	out.end()
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

// eventWriter writes server-sent events.
type eventWriter struct {
	w        http.ResponseWriter
	rc       *http.ResponseController
	framing  Framing
	strip    bool          // remove what the client did not ask for
	patience time.Duration // how long the client may take nothing
	buf      []byte        // events that are not yet written
}

// begin sends the response's header.
func (o *eventWriter) begin(header metadata.MD) error {
	h := o.w.Header()
	h.Set("Content-Type", mimeSSE)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	for _, v := range header[rpc.KeyExtensions] {
		h.Add(headerExtensions, v)
	}
	// A server's limit on the time to read a request would end the stream.
	_ = o.rc.SetReadDeadline(time.Time{}) // not all writers have deadlines
	o.w.WriteHeader(http.StatusOK)
	return o.flush()
}

// relay writes what comes from s until it ends, and a comment when nothing
// came for the time of heartbeat. It calls cancel when the client takes no
// more, or an event cannot be shown. It returns nil when the stream ended well,
// else the call's error or why it could not go on, errWrite in its chain if
// that is the client.
func (o *eventWriter) relay(s grpc.ClientStream, kind protoreflect.MessageType, heartbeat time.Duration, cancel func()) error {
	queue := make(chan proto.Message, queueLength)
	var ended error
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(queue)
		ended = receive(s, kind, queue)
	})
	written := o.drain(queue, heartbeat)
	if written != nil {
		cancel()
		for range queue { // until the reader has noticed
			continue
		}
	}
	reader.Wait()
	if written != nil {
		return written
	}
	return ended
}

// receive moves messages from s to the queue until s ends.
func receive(s grpc.ClientStream, kind protoreflect.MessageType, queue chan<- proto.Message) error {
	for {
		m := kind.New().Interface()
		if err := s.RecvMsg(m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		queue <- m
	}
}

// drain writes the queue until it is closed.
func (o *eventWriter) drain(queue <-chan proto.Message, heartbeat time.Duration) error {
	idle := time.NewTimer(heartbeat)
	defer idle.Stop()
	for {
		select {
		case m, open := <-queue:
			if !open {
				return nil
			}
			if err := o.burst(m, queue); err != nil {
				return err
			}
		case <-idle.C:
			o.buf = append(o.buf, ": keep-alive\n\n"...)
			if err := o.flush(); err != nil {
				return err
			}
			o.buf = nil // an idle stream keeps none
		}
		idle.Reset(heartbeat)
	}
}

// burst writes m and what is waiting behind it, and flushes once.
func (o *eventWriter) burst(m proto.Message, queue <-chan proto.Message) error {
	for m != nil {
		if err := o.add(m); err != nil {
			return err
		}
		m = waiting(queue)
	}
	return o.flush()
}

// waiting returns the next message if there is one, else nil. A flush costs
// more than a turn of the scheduler, in which the reader may bring what has
// arrived already: so it looks twice.
func waiting(queue <-chan proto.Message) proto.Message {
	for again := true; ; again = false {
		select {
		case m := <-queue: // nil once it is closed
			return m
		default:
		}
		if !again {
			return nil
		}
		runtime.Gosched()
	}
}

// add encodes m behind what is not yet written.
func (o *eventWriter) add(m proto.Message) error {
	start := len(o.buf)
	if seq := seqOf(m, o.strip); seq > 0 {
		o.buf = append(o.buf, "id: "...)
		o.buf = strconv.AppendInt(o.buf, seq, 10)
		o.buf = append(o.buf, '\n')
	}
	o.buf = append(o.buf, "data: "...)
	o.buf = append(o.buf, o.framing.Before...)
	b, err := o.framing.message(o.buf, m)
	if err != nil {
		o.buf = o.buf[:start]
		return status.Error(codes.Internal, "the next event cannot be shown as JSON")
	}
	o.buf = append(b, o.framing.After...)
	o.buf = append(o.buf, "\n\n"...)
	if len(o.buf) >= writeSize {
		return o.write()
	}
	return nil
}

// fail writes the error as the last event.
func (o *eventWriter) fail(st *status.Status) error {
	o.buf = append(o.buf, "data: "...)
	o.buf = append(o.buf, o.framing.failure(st)...)
	o.buf = append(o.buf, "\n\n"...)
	return o.flush()
}

// write hands what is collected to the server. The deadline is for the
// connection, which a client that went away without a word would hold.
func (o *eventWriter) write() error {
	_ = o.rc.SetWriteDeadline(time.Now().Add(o.patience)) // not all writers have deadlines
	_, err := o.w.Write(o.buf)
	o.buf = o.buf[:0]
	if err != nil {
		return errors.Join(errWrite, err)
	}
	return nil
}

// flush writes what is collected and sends it to the client.
func (o *eventWriter) flush() error {
	if err := o.write(); err != nil {
		return err
	}
	if err := o.rc.Flush(); err != nil {
		return errors.Join(errWrite, err)
	}
	return nil
}

// end lifts the deadline: the connection can serve another request.
func (o *eventWriter) end() {
	_ = o.rc.SetWriteDeadline(time.Time{}) // not all writers have deadlines
}
