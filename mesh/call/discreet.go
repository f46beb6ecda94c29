package call

import (
	"context"
	"errors"
	"iter"
	"regexp"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// token is what a signed token looks like, a ticket, a grant or a JWT: parts of base64url
// of which one begins as a JSON object does.
var token = regexp.MustCompile(`[\w-]*\.?eyJ[\w-]+(\.[\w-]*)*`)

// discreet is a client whose errors have no tokens: an agent can say back what it was sent
// or has redeemed, and errors are logged and shown.
type discreet struct{ Client }

func (d discreet) SendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	resp, err := d.Client.SendMessage(ctx, req)
	return resp, withoutTokens(err)
}

func (d discreet) SendStreamingMessage(ctx context.Context, req *a2apb.SendMessageRequest) iter.Seq2[Response, error] {
	return eachWithoutTokens(d.Client.SendStreamingMessage(ctx, req))
}

func (d discreet) GetTask(ctx context.Context, task string) (*a2apb.Task, error) {
	t, err := d.Client.GetTask(ctx, task)
	return t, withoutTokens(err)
}

func (d discreet) CancelTask(ctx context.Context, task string) error {
	return withoutTokens(d.Client.CancelTask(ctx, task))
}

func (d discreet) SubscribeToTask(ctx context.Context, task string) iter.Seq2[Response, error] {
	return eachWithoutTokens(d.Client.SubscribeToTask(ctx, task))
}

func eachWithoutTokens(all iter.Seq2[Response, error]) iter.Seq2[Response, error] {
	return func(yield func(Response, error) bool) {
		for resp, err := range all {
			if !yield(resp, withoutTokens(err)) {
				return
			}
		}
	}
}

func withoutTokens(err error) error {
	if err == nil || !token.MatchString(err.Error()) {
		return err
	}
	const gone = "***"
	e := (*mesh.Error)(nil)
	if !errors.As(err, &e) {
		return &mesh.Error{Code: mesh.CodeOf(err), Err: &reworded{token.ReplaceAllString(err.Error(), gone), err}}
	}
	clean := *e
	if clean.Detail = token.ReplaceAllString(e.Detail, gone); e.Err != nil {
		clean.Err = &reworded{token.ReplaceAllString(e.Err.Error(), gone), e.Err}
	}
	return &clean
}

// reworded is an error in other words.
type reworded struct {
	words string
	error
}

func (r *reworded) Error() string { return r.words }
func (r *reworded) Unwrap() error { return r.error }
