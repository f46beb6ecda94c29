package openai

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

var (
	errSlow = errors.New("the reply took longer than the timeout")
	errIdle = errors.New("the endpoint sent nothing for longer than the idle timeout")
)

type watcherKey struct{}

// A watcher ends one call when the endpoint is silent for too long.
type watcher struct {
	idle  time.Duration
	timer *time.Timer
}

// watch returns a context that ends with errSlow or errIdle as its cause. The
// caller calls stop when the call has ended.
func watch(parent context.Context, total, idle time.Duration) (ctx context.Context, stop func()) {
	timed, cancelTimed := context.WithTimeoutCause(parent, total, errSlow)
	ctx, cancel := context.WithCancelCause(timed)
	w := &watcher{idle: idle, timer: time.AfterFunc(idle, func() { cancel(errIdle) })}
	return context.WithValue(ctx, watcherKey{}, w), func() {
		w.timer.Stop()
		cancel(nil)
		cancelTimed()
	}
}

// alive says that the endpoint sent something.
func (w *watcher) alive() { w.timer.Reset(w.idle) }

// eventStream is a transport that takes comments and the fields other than
// data out of event streams, and tells the watcher of the call about each byte
// that arrives. The library would take the text of a keep-alive comment for
// part of an error message.
type eventStream struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t eventStream) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w, ok := r.Context().Value(watcherKey{}).(*watcher)
	if !ok {
		return resp, nil
	}
	w.alive()
	body := &lively{resp.Body, w}
	if resp.StatusCode == http.StatusOK {
		resp.Body = &dataLines{in: bufio.NewReader(body), body: body}
	} else {
		resp.Body = &limited{io.LimitReader(body, maxErrorBody), body}
	}
	return resp, nil
}

// maxErrorBody bounds what is read of an error response, in bytes.
const maxErrorBody = 64 << 10

// lively is a body that reports signs of life.
type lively struct {
	io.ReadCloser
	w *watcher
}

func (l *lively) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if n > 0 {
		l.w.alive()
	}
	return n, err
}

type limited struct {
	io.Reader
	io.Closer
}

// maxLine bounds one line of a stream, in bytes.
const maxLine = 4 << 20

var errLine = errors.New("a line of the stream is longer than 4 MiB")

// dataLines passes on the lines of an event stream, without comments and
// without fields other than data.
type dataLines struct {
	in   *bufio.Reader
	body io.Closer
	line []byte // rest of the line being passed on
	err  error
}

// Read implements [io.Reader].
func (d *dataLines) Read(p []byte) (int, error) {
	for len(d.line) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		d.line, d.err = d.next()
		if skipped(d.line) {
			d.line = nil
		}
	}
	n := copy(p, d.line)
	d.line = d.line[n:]
	return n, nil
}

func (d *dataLines) next() ([]byte, error) {
	var line []byte
	for {
		piece, err := d.in.ReadSlice('\n')
		line = append(line, piece...)
		if len(line) > maxLine {
			return nil, errLine
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func skipped(line []byte) bool {
	for _, field := range []string{":", "event:", "id:", "retry:"} {
		if bytes.HasPrefix(line, []byte(field)) {
			return true
		}
	}
	return false
}

// Close implements [io.Closer].
func (d *dataLines) Close() error { return d.body.Close() }
