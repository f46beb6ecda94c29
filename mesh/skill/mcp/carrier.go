package mcp

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync"
)

// maxMessage bounds one message of a server, in bytes.
const maxMessage = 8 << 20

var (
	errTooLong  = errors.New("the server sent a message that is too long")
	errRedirect = errors.New("the server answered with a redirect; configure the URL that it leads to")
)

// A carrier sends the requests of one connection: with the configured headers,
// which go to the configured origin alone, with a bound on what comes back, and
// no longer than the connection lives.
type carrier struct {
	base     http.RoundTripper
	origin   *url.URL
	headers  map[string]string
	requests cancels
}

// client returns an HTTP client that follows no redirects: they would take
// arguments, and the headers that the SDK adds, to somewhere else.
func (c *carrier) client() *http.Client {
	return &http.Client{Transport: c, CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect }}
}

// RoundTrip implements [http.RoundTripper].
func (c *carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, release := c.requests.join(req.Context())
	req = req.Clone(ctx)
	if req.URL.Scheme == c.origin.Scheme && req.URL.Host == c.origin.Host {
		for key, value := range c.headers {
			req.Header.Set(key, value)
		}
	}
	res, err := c.base.RoundTrip(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		release()
		return nil, err
	}
	body := &body{ReadCloser: res.Body, release: sync.OnceFunc(release), left: maxMessage}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	// A stream has many messages, each of which the SDK bounds.
	body.endless = kind == "text/event-stream" && res.StatusCode == http.StatusOK
	res.Body = body
	return res, nil
}

// A body is that of a response: bounded, and known to its connection until it
// is closed.
type body struct {
	io.ReadCloser
	release func()
	left    int
	endless bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 && !b.endless {
		return 0, errTooLong
	}
	return n, err
}

func (b *body) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
