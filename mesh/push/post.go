package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// maxRedirects bounds the redirects of one attempt.
const maxRedirects = 3

var (
	errTimeout = errors.New("the webhook did not answer in time")
	errCrowded = errors.New("too many slow webhooks")
)

// A refusal is an answer that does not take the update.
type refusal struct {
	status int
	after  time.Duration // as the webhook asks for
	final  bool          // asking again is of no use
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the webhook answered %d %s", r.status, http.StatusText(r.status))
}

// post sends one update and follows redirects that keep the method, at most
// maxRedirects. Secrets go only to where the config's URL is; once a redirect
// has led elsewhere, they are not sent any more.
func (d *Dispatcher) post(ctx context.Context, c *a2apb.TaskPushNotificationConfig, body payload) error {
	to, err := d.Guard.Check("url", c.GetUrl())
	if err != nil {
		return err
	}
	trusted := true
	for range maxRedirects + 1 {
		next, err := d.send(ctx, to, body, c, trusted)
		if err != nil || next == nil {
			return err
		}
		if next, err = d.Guard.Check("redirect", next.String()); err != nil {
			return err
		}
		trusted = trusted && next.Scheme == to.Scheme && strings.EqualFold(next.Host, to.Host)
		to = next
	}
	return fmt.Errorf("the webhook redirected more than %d times", maxRedirects)
}

// send makes one request. It returns where the webhook redirects to, or nil if
// it took the update. Its errors do not hold the URL, which may be a secret.
func (d *Dispatcher) send(ctx context.Context, to *url.URL, body payload, c *a2apb.TaskPushNotificationConfig, trusted bool) (*url.URL, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body.data))
	if err != nil {
		return nil, errors.New("the URL of the webhook cannot be used")
	}
	req.Header.Set("Content-Type", body.mediaType)
	req.Header.Set("User-Agent", "agentmesh")
	if trusted {
		authorize(req.Header, c)
	}
	res, err := d.Transport.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("the webhook could not be reached: %w", err)
	}
	// A connection is used again if what it said is short.
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10)
	_ = res.Body.Close()
	switch {
	case res.StatusCode/100 == 2:
		return nil, nil
	case res.StatusCode == http.StatusTemporaryRedirect || res.StatusCode == http.StatusPermanentRedirect:
		if next, err := res.Location(); err == nil {
			return next, nil
		}
	}
	return nil, &refusal{
		status: res.StatusCode, final: res.StatusCode == http.StatusGone,
		after: retryAfter(res.Header.Get("Retry-After"), time.Now()),
	}
}

// authorize adds what the config says who we are by. The token goes under the
// name that A2A v1.0 clients look for, and under the older one.
func authorize(h http.Header, c *a2apb.TaskPushNotificationConfig) {
	if auth := c.GetAuthentication(); auth != nil {
		h.Set("Authorization", strings.TrimSpace(auth.GetScheme()+" "+auth.GetCredentials()))
	}
	if token := c.GetToken(); token != "" {
		h.Set("A2A-Notification-Token", token)
		h.Set("X-A2A-Notification-Token", token)
	}
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
