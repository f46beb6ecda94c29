package call

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// A fallback calls the first of several interfaces that can be connected to.
// What was connected may have been heard, and is never said again elsewhere.
type fallback struct {
	routes []route
	at     atomic.Int32 // the one that was connected last
}

// call makes a call on one interface after the other while they cannot be
// connected to.
func (f *fallback) call(ctx context.Context, do func(Client) error) error {
	var err error
	first := int(f.at.Load())
	for i := range f.routes {
		at := (first + i) % len(f.routes)
		r := f.routes[at]
		err = nil
		if r.ready != nil {
			err = r.ready(ctx)
		}
		if err == nil {
			err = do(r.client)
		}
		if !errors.Is(err, errUnconnected) || ctx.Err() != nil {
			f.at.Store(int32(at))
			return err
		}
	}
	return err
}

func (f *fallback) SendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (resp *a2apb.SendMessageResponse, err error) {
	err = f.call(ctx, func(c Client) error { resp, err = c.SendMessage(ctx, req); return err })
	return resp, err
}

func (f *fallback) GetTask(ctx context.Context, task string) (t *a2apb.Task, err error) {
	err = f.call(ctx, func(c Client) error { t, err = c.GetTask(ctx, task); return err })
	return t, err
}

func (f *fallback) CancelTask(ctx context.Context, task string) error {
	return f.call(ctx, func(c Client) error { return c.CancelTask(ctx, task) })
}

func (f *fallback) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[Response, error] {
	return f.stream(ctx, func(c Client) iter.Seq2[Response, error] { return c.SendStreamingMessage(ctx, req) })
}

func (f *fallback) SubscribeToTask(ctx context.Context, task string) iter.Seq2[Response, error] {
	return f.stream(ctx, func(c Client) iter.Seq2[Response, error] { return c.SubscribeToTask(ctx, task) })
}

func (f *fallback) stream(ctx context.Context, open func(Client) iter.Seq2[Response, error]) iter.Seq2[Response, error] {
	return func(yield func(Response, error) bool) {
		stopped := false
		err := f.call(ctx, func(c Client) error {
			for resp, err := range open(c) {
				if err != nil {
					return err
				}
				if stopped = !yield(resp, nil); stopped {
					return nil
				}
			}
			return nil
		})
		if err != nil && !stopped {
			yield(Response{}, err)
		}
	}
}
