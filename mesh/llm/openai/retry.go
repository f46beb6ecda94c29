package openai

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	openai "github.com/sashabaranov/go-openai"

	"agentmesh/mesh/llm"
)

// Pauses between attempts: the first, and the longest that the client chooses
// itself. A provider may ask for longer ones.
const (
	firstPause   = 500 * time.Millisecond
	longestPause = 8 * time.Second
)

// A generation is one call of Generate.
type generation struct {
	client *Client
	req    *llm.Request
	model  string
	tries  int // requests sent, over both protocols
}

// open returns an attempt whose reply has begun. With APIAuto it turns to the
// Responses API when the model turns out to need it.
func (g *generation) open(ctx context.Context) (*attempt, error) {
	api := g.client.apiOf(g.model)
	if g.client.config.API == APIAuto && len(g.client.nativesOf(g.req)) > 0 {
		api = APIResponses // which alone has them
	}
	a, err := g.retry(ctx, api)
	if g.client.config.API == APIAuto && api == APIChat && needsResponses(err) {
		g.client.useResponses(g.model)
		api = APIResponses
		a, err = g.retry(ctx, api)
	}
	if api == APIResponses && refusesThoughts(err) && g.client.thinks(g.model) {
		g.client.hush(g.model)
		return g.retry(ctx, api)
	}
	return a, err
}

// refusesThoughts reports whether the request failed because of what the model
// thought: it does not hand that out, or cannot read it any more.
func refusesThoughts(err error) bool {
	var said *apiError
	return errors.As(err, &said) && said.status == http.StatusBadRequest &&
		(strings.Contains(strings.ToLower(said.text), "encrypted") || strings.Contains(said.text, "'include'") || strings.Contains(said.text, "type 'reasoning'"))
}

// needsResponses reports whether the model is not to be had over chat
// completions but, by what is said, over the Responses API.
func needsResponses(err error) bool {
	if errors.Is(err, openai.ErrReasoningToolsRequireResponses) {
		return true
	}
	var said *apiError
	if !errors.As(err, &said) || said.status < 400 || said.status >= 500 {
		return false
	}
	text := strings.ToLower(said.text)
	return strings.Contains(text, "/responses") || strings.Contains(text, "responses api") ||
		strings.Contains(text, "chat/completions") && (strings.Contains(text, "not supported") || strings.Contains(text, "not accessible"))
}

// retry makes attempts until a reply has begun, the failure is one that lasts,
// MaxRetries is reached, or the next attempt would come after the deadline of
// ctx. It returns the last failure.
func (g *generation) retry(ctx context.Context, api API) (*attempt, error) {
	var last *attempt
	failed := 0
	policy := retrypolicy.NewBuilder[*attempt]().
		HandleIf(func(_ *attempt, err error) bool { return passing(err) }).
		AbortIf(func(_ *attempt, err error) bool { return !inTime(ctx, least(failed, asked(err))) }).
		WithMaxRetries(g.client.config.MaxRetries).
		WithDelayFunc(func(e failsafe.ExecutionAttempt[*attempt]) time.Duration {
			return spread(least(failed, asked(e.LastError())))
		}).
		ReturnLastFailure().
		Build()
	a, err := failsafe.With(policy).WithContext(ctx).GetWithExecution(func(failsafe.Execution[*attempt]) (*attempt, error) {
		g.tries++
		var err error
		if last, err = g.try(ctx, api); err != nil {
			failed++
		}
		return last, err
	})
	if err == nil {
		return a, nil
	}
	if last != nil {
		last.close() // it began just when ctx ended
	}
	if why := ending(ctx); why != nil {
		err = why
	}
	return nil, err
}

// passing reports whether err may be gone at the next attempt.
func passing(err error) bool {
	var said *apiError
	if errors.As(err, &said) {
		switch said.status {
		case http.StatusTooManyRequests:
			return !said.quota
		case http.StatusNotImplemented:
			return false
		}
		return said.status == http.StatusRequestTimeout || said.status >= 500
	}
	var lost *lostError
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	return errors.As(err, &lost) && !errors.As(err, &cert) && (!errors.As(err, &dns) || !dns.IsNotFound)
}

// asked returns how long the provider wants us to wait.
func asked(err error) time.Duration {
	var said *apiError
	if errors.As(err, &said) {
		return said.after
	}
	return 0
}

// least returns how long to wait at least after so many failures: twice as long
// each time, and no shorter than the provider asks for.
func least(failed int, asked time.Duration) time.Duration {
	return max(min(firstPause<<min(failed-1, 10), longestPause), asked)
}

// spread makes a pause up to a quarter longer, so that clients which failed
// together do not come back together.
func spread(wait time.Duration) time.Duration {
	return wait + rand.N(min(wait, longestPause)/4+1) //nolint:gosec // needs no secrecy
}

// inTime reports whether there is time left after the wait.
func inTime(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > wait
}

// maxAfter bounds what we believe of a Retry-After.
const maxAfter = 24 * time.Hour

// retryAfter reads the header of that name, which gives seconds or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		if !(seconds > 0) {
			return 0
		}
		return time.Duration(min(seconds, maxAfter.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxAfter)
	}
	return 0
}
