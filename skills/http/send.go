package httpskill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/quote"
)

// maxRedirects bounds how often a request is sent elsewhere.
const maxRedirects = 5

// A sender carries out the requests of skills.
type sender struct {
	client  http.Client
	allow   []string
	secrets map[string]secret
	timeout time.Duration
	most    int
}

// execute sends the request of the skill that is called.
func (s *sender) execute(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	t, err := parse(call.Of)
	if err != nil {
		return nil, mesh.Errorf(mesh.Precondition, call.Skill, "The page of the skill %s", mesh.DetailOf(err))
	}
	used, err := s.permit(call.Of, t)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var written atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }})
	req, err := filler{call: call, secrets: s.secrets}.request(ctx, t)
	if err != nil {
		return nil, err
	}
	if !t.reads() {
		sum := sha256.Sum256([]byte(string(env.Tenant) + "\x00" + call.Skill + "\x00" + call.Key))
		// Under its canonical name, net/http would take the header as a leave to
		// send the request again by itself when a connection breaks, also to
		// services that do not know it.
		req.Header["idempotency-key"] = []string{hex.EncodeToString(sum[:16])}
	}
	client := s.client
	client.CheckRedirect = s.follow(t, used)
	resp, err := client.Do(req)
	if err != nil {
		return s.failure(call, t, err, written.Load())
	}
	defer func() { _ = resp.Body.Close() }() // only read
	return s.answer(call, t, resp, used)
}

// show is the request of the skill that is called, as it would be sent, but for its secrets:
// these are the placeholders of the page.
func (s *sender) show(call *skill.Call, _ *skill.Env) (string, error) {
	t, err := parse(call.Of)
	if err != nil {
		return "", mesh.Errorf(mesh.Precondition, call.Skill, "The page of the skill %s", mesh.DetailOf(err))
	}
	if _, err := s.permit(call.Of, t); err != nil {
		return "", err
	}
	req, err := filler{call: call, shows: true}.request(context.Background(), t)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", req.Method, req.URL)
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		for _, value := range req.Header[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	body, err := io.ReadAll(req.Body)
	if len(body) > 0 {
		fmt.Fprintf(&b, "\n%s", quote.Visible(string(body)))
	}
	return b.String(), err
}

// permit refuses requests to where, and with what, they must not go: that is
// for the operator to change, and no failure of what they go to. It returns the
// values of the secrets that the request carries.
func (s *sender) permit(page *skill.Skill, t *template) ([]secret, error) {
	if !s.allowed(t.base) {
		return nil, mesh.Errorf(mesh.Precondition, page.Name, "The host %s is not among those that requests may go to; ask the operator to allow it", t.base.Host)
	}
	var used []secret
	for _, name := range t.secrets() {
		x, ok := s.secrets[name]
		switch {
		case page.Tenant != "":
			return nil, mesh.Errorf(mesh.Precondition, page.Name, "The request has the secret %q; secrets are for skills of the operator", name)
		case !ok:
			return nil, mesh.Errorf(mesh.Precondition, page.Name, "The secret %q is not configured; ask the operator to set it", name)
		case !x.goesTo(t.base):
			return nil, mesh.Errorf(mesh.Precondition, page.Name, "The secret %q may not be sent to %s; ask the operator", name, t.base.Host)
		}
		used = append(used, x)
	}
	return used, nil
}

func (x secret) goesTo(u *url.URL) bool {
	o, ok := originOf(u)
	return ok && slices.Contains(x.origins, o)
}

// A redirectError says why a redirect was not followed.
type redirectError struct{ detail string }

func (e *redirectError) Error() string { return e.detail }

// follow decides about redirects. A request that changes something is sent
// once, to where its page says.
func (s *sender) follow(t *template, used []secret) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		req.Header.Del("Referer") // the query may hold a secret
		elsewhere := func(x secret) bool { return !x.goesTo(req.URL) }
		to := mesh.Clip(redact(req.URL.Host, used), maxShown)
		switch {
		case !t.reads():
			return http.ErrUseLastResponse
		case len(via) > maxRedirects:
			return &redirectError{"redirects too often"}
		case !s.allowed(req.URL):
			return &redirectError{"redirects to " + to + ", which is not among the hosts that requests may go to"}
		case slices.ContainsFunc(used, elsewhere):
			return &redirectError{"redirects to " + to + ", to which its secret may not be sent"}
		}
		return nil
	}
}

// failure tells of a request that got no answer. The address is in none of its
// texts, as it may hold a secret.
func (s *sender) failure(call *skill.Call, t *template, err error, written bool) (*skill.Result, error) {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	var redirect *redirectError
	var known *mesh.Error
	host := t.base.Host
	switch late := errors.Is(err, context.DeadlineExceeded); {
	case errors.As(err, &redirect):
		return nil, mesh.Errorf(mesh.Denied, call.Skill, "The service %s %s", host, redirect.detail)
	case written && !t.reads():
		return unknown(call, t, "it did not answer"), nil
	case errors.As(err, &known):
		return nil, mesh.Wrap(call.Skill, known)
	case late:
		return nil, mesh.Errorf(mesh.Unavailable, call.Skill, "The service %s did not answer within %s; try again later", host, s.timeout)
	}
	return nil, mesh.Errorf(mesh.Unavailable, call.Skill, "The service %s cannot be reached; try again later: %w", host, err)
}

// unknown is the result of a change of which nobody knows whether it was made.
func unknown(call *skill.Call, t *template, why string) *skill.Result {
	return &skill.Result{
		Status: skill.StatusError,
		Content: "It is unknown whether the service " + t.base.Host + " did what " + call.Skill + " asked for: " + why +
			". Look whether it was done before asking again.",
		Metadata: map[string]any{"outcome": "unknown"},
	}
}
