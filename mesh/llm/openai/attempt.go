package openai

import (
	"context"
	"errors"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

var (
	errSlow = errors.New("the reply took longer than the timeout")
	errIdle = errors.New("the endpoint sent nothing for longer than the idle timeout")
)

// An attempt is one request and its reply. Its fields are used by one
// goroutine, which is that of Generate.
type attempt struct {
	ended  func() error // why the attempt was ended, nil while it was not
	cancel context.CancelCauseFunc
	timer  *time.Timer // of silence
	idle   time.Duration

	marks  []mark        // what the endpoint is to add to the request
	audio  bool          // the request has audio
	sent   bool          // whether the endpoint was reached for
	status int           // of the response, 0 if there was none
	after  time.Duration // its Retry-After
	body   []byte        // of a response that is no stream

	events interface {
		RecvRaw() ([]byte, error)
		Close() error
	}
	reply reply
	text  string // that came with the piece by which the reply began
}

// A reply puts together what the events of one protocol bring.
type reply interface {
	// add takes in one event and returns the text in it.
	add(event []byte) (text string, err error)
	state() *assembly
}

type attemptKey struct{}

// try makes one attempt. The attempt that it returns has begun: there is text,
// a call or the end of the reply. The caller closes it.
func (g *generation) try(ctx context.Context, api API) (*attempt, error) {
	a := &attempt{idle: g.client.config.IdleTimeout}
	ctx, a.cancel = context.WithCancelCause(ctx)
	a.timer = time.AfterFunc(a.idle, func() { a.cancel(errIdle) })
	a.ended = func() error { return ending(ctx) }
	err := a.explain(g.send(context.WithValue(ctx, attemptKey{}, a), a, api))
	for err == nil && !a.reply.state().begun(a.text) { // with any text it has begun
		a.text, err = a.next()
	}
	if err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// send sends the request. It leaves a stream in a, or returns what went wrong.
func (g *generation) send(ctx context.Context, a *attempt, api API) (err error) {
	start := assembly{done: llm.Done{Model: g.model}}
	if api == APIResponses {
		by := ""
		if g.client.thinks(g.model) {
			by = g.client.thinker(g.model)
		}
		a.reply = &responsesReply{assembly: start, by: by}
		stream, failed := g.client.api.CreateResponseStream(ctx, responsesRequest(g.model, g.req, by, senses{sees: g.client.Sees()}, g.client.nativesOf(g.req)))
		if err = failed; err == nil {
			a.events = stream
		}
	} else {
		a.reply = &chatReply{assembly: start}
		request, marks := chatRequest(g.model, g.req, g.client.cached(g.model), senses{g.client.Sees(), g.client.Hears()})
		a.marks, a.audio = marks, hasAudio(request.Messages)
		stream, failed := g.client.api.CreateChatCompletionStream(ctx, request)
		if err = failed; err == nil {
			a.events = stream
		}
	}
	switch {
	case err == nil:
		return nil
	case !a.sent:
		return &refusedError{err}
	case a.status >= 400:
		return ofResponse(a.status, a.body, a.after)
	}
	return err
}

// next reads one event into the reply and returns the text in it.
func (a *attempt) next() (text string, err error) {
	raw, err := a.events.RecvRaw()
	if err == nil {
		text, err = a.reply.add(raw)
	} else if isLost(err) {
		err = &lostError{err}
	}
	return text, a.explain(err)
}

// isLost reports whether err, from reading a stream, says that the stream broke
// off, and not that it is wrong.
func isLost(err error) bool {
	var malformed *protocolError
	var said *apiError
	return !errors.As(err, &malformed) && !errors.As(err, &said)
}

// explain replaces err by the reason for which the attempt was ended, if there
// is one.
func (a *attempt) explain(err error) error {
	if err != nil {
		if why := a.ended(); why != nil {
			return why
		}
	}
	return err
}

// ending returns why ctx has ended: one of our own limits, or the caller's will.
func ending(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errIdle) || errors.Is(cause, errSlow) {
		return cause
	}
	return ctx.Err()
}

// stream yields the reply, and returns an error for the caller to yield.
func (a *attempt) stream(yield func(llm.Chunk, error) bool) error {
	text, err, r := a.text, error(nil), a.reply.state()
	for {
		if err != nil {
			if r.done.Finish != "" && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
				break // a reply that has its finish reason is complete, however the connection ends
			}
			return err
		}
		if r.size > maxCalls {
			return mesh.Errorf(mesh.Exhausted, op, "The model's tool calls are longer than %d KiB; ask for less at once", maxCalls>>10)
		}
		if !r.tell(yield) || text != "" && !yield(llm.Chunk{Text: text}, nil) {
			return nil
		}
		if r.ended {
			break
		}
		text, err = a.next()
	}
	return r.finish(yield)
}

// alive says that the endpoint sent something.
func (a *attempt) alive() { a.timer.Reset(a.idle) }

func (a *attempt) close() {
	a.timer.Stop()
	a.cancel(nil)
	if a.events != nil {
		_ = a.events.Close()
	}
}
