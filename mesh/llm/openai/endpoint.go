package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxErrorBody bounds what is read of a response that is no stream, in bytes.
const maxErrorBody = 64 << 10

// An endpoint is the HTTP client of the library. It adds to requests what the
// library's types have no place for, keeps of failures what the library drops,
// and passes streams on as the library reads them best, see [eventReader].
type endpoint struct {
	http  *http.Client
	extra map[string]json.RawMessage
}

// Do sends the request of an attempt, which is in its context.
func (e *endpoint) Do(r *http.Request) (*http.Response, error) {
	a, ok := r.Context().Value(attemptKey{}).(*attempt)
	if !ok {
		return nil, errors.New("a request that belongs to no attempt")
	}
	r, err := e.amended(r, a.marks, a.audio)
	if err != nil {
		return nil, err
	}
	a.sent = true
	resp, err := e.http.Do(r) //nolint:gosec // to the endpoint that the operator configured
	if err != nil {
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err // the URL may have secrets in it
		}
		return nil, &lostError{err}
	}
	a.alive()
	a.status = resp.StatusCode
	body := &lively{resp.Body, a}
	if resp.StatusCode == http.StatusOK {
		resp.Body = newEventReader(body)
		return resp, nil
	}
	defer func() { _ = body.Close() }()
	if resp.StatusCode < 400 {
		return nil, &protocolError{fmt.Errorf("the endpoint answers with HTTP %d", resp.StatusCode)}
	}
	a.after = retryAfter(resp.Header, time.Now())
	a.body, _ = io.ReadAll(io.LimitReader(body, maxErrorBody)) // what there is of it will do
	resp.Body = http.NoBody
	return resp, nil
}

// amended returns the request with the extra fields, the marks and the audio in its body.
func (e *endpoint) amended(r *http.Request, marks []mark, audio bool) (*http.Request, error) {
	if len(e.extra) == 0 && len(marks) == 0 && !audio {
		return r, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	for name, value := range e.extra {
		fields[name] = value
	}
	if audio {
		if fields["messages"], err = hearable(fields["messages"]); err != nil {
			return nil, err
		}
	}
	if len(marks) > 0 {
		if fields["messages"], err = marked(fields["messages"], marks); err != nil {
			return nil, err
		}
	}
	if body, err = json.Marshal(fields); err != nil { // sorted, and so the same each time
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return r, nil
}

// lively is a body that reports signs of life.
type lively struct {
	io.ReadCloser
	a *attempt
}

func (l *lively) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if n > 0 {
		l.a.alive()
	}
	return n, err
}
