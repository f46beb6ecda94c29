// Package conformance tests an A2A agent by the URL of its card, without a mesh: its card,
// and each interface on it, by sending it messages.
//
// It reads the card as package registry does and calls the agent as package call does, so
// that a [Failed] finding is what fails in a mesh. What A2A wants otherwise and the mesh
// bears is a [Warning]. Events are compared with what A2A says as the agent sent them,
// before they are mended.
//
// Checks run one after the other; tasks that are not waited for are canceled. [Test] starts nothing that outlives it, and may run
// several times at once. It is no proof that the agent does everything that A2A has:
// push notifications and the extended card are not looked at.
package conformance

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/credentials"
)

// A Verdict is what a check came to.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Warning Verdict = "warning" // A2A wants it otherwise, and the mesh bears it
	Failed  Verdict = "failed"
	Skipped Verdict = "skipped" // it could not be told
)

// A Finding is what a check found. A check has one, and a warning more for each thing
// that is odd.
type Finding struct {
	// Interface is the binding, version and address that was tested; "" for the card.
	Interface string `json:"interface,omitempty"`
	// Check is one of Checks, or the field of the card.
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict,omitempty"`
	// Cause says for people what happened, and Remedy what to do, if anything.
	Cause  string `json:"cause,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// Options are the choices of Test. The zero value is usable.
type Options struct {
	// Message is sent where any will do; default "Hello".
	Message string
	// Question makes the agent ask, and Answer is what it then gets, default "Yes". Failure
	// makes its task fail, and Long keeps it at work until it is canceled. Without Question
	// and Failure these checks are skipped, and without Long Message is sent.
	Question, Answer, Failure, Long string
	// Timeout bounds each check, for each message that it waits for; default 30 s.
	Timeout time.Duration
	// TLS is the configuration of connections. The default believes whom the system does.
	TLS func() *tls.Config
	// Credentials are what the agent is called with, and its card read.
	Credentials []credentials.Given
	// Begin, if it is set, is called before each check, with what is known of it.
	Begin func(Finding)
	// Logger is told what the mesh's would be. The default discards.
	Logger *slog.Logger
}

// lingerTime is how long a stream may stay open after its last event.
const lingerTime = 5 * time.Second

// Test tests the agent and reports what it finds, as soon as it is known. It returns an
// error for what is no URL, and when ctx ends, which the checks that are left are reported
// as skipped for.
func Test(ctx context.Context, url string, o Options, report func(Finding)) error {
	const op = "conformance.Test"
	at, err := registry.CardURL(url)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	o.Message, o.Answer = cmp.Or(o.Message, "Hello"), cmp.Or(o.Answer, "Yes")
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	if o.TLS == nil {
		o.TLS = func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
	}
	if o.Begin == nil {
		o.Begin = func(Finding) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	given, err := credentials.New(o.Credentials)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	pool := rpc.NewPool(rpc.DialOptions{TLS: o.TLS})
	defer func() { _ = pool.Close() }()

	t := &test{Options: o, report: report, pool: pool, given: given}
	t.carrier = t.carrying(nil)
	defer t.close()
	card := t.card(ctx, at)
	if card != nil {
		t.interfaces(ctx, card)
	}
	return mesh.Wrap(op, ctx.Err())
}

// A test is one run of Test.
type test struct {
	Options
	report    func(Finding)
	carrier   *http.Transport
	certified *http.Transport // the same with the client certificate, once that was shown
	pool      *rpc.Pool
	given     *credentials.Set
}

// carrying makes a carrier that shows the certificate, if there is one.
func (t *test) carrying(cert *tls.Certificate) *http.Transport {
	cfg := t.TLS()
	if cert != nil {
		cfg.Certificates = []tls.Certificate{*cert}
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSClientConfig: cfg}
}

// via is how secrets travel: encrypted, or within this machine.
func (t *test) via() credentials.Via { return credentials.Via{Tokens: t.carrier} }

// bind finds the places of the credentials on the card, and tells what it wants besides.
func (t *test) bind(card *a2apb.AgentCard, all []*a2apb.AgentInterface) (err error) {
	for _, s := range t.given.Missing(card) {
		t.report(Finding{Check: "card.securityRequirements", Verdict: Warning, Cause: fmt.Sprintf("asks for a credential of the scheme %q (%s), which was not given", s.Scheme, s.Kind),
			Remedy: "give it: --credential '" + s.Scheme + "=env:VARIABLE'"})
	}
	if t.given == nil {
		return nil
	}
	var at []string
	for _, in := range all {
		at = append(at, in.GetUrl())
	}
	t.given, err = t.given.Bind(card, at...)
	return err
}

// by is what carries calls that show the certificate, if there is one.
func (t *test) by(cert *tls.Certificate) http.RoundTripper {
	if cert == nil {
		return t.carrier
	}
	if t.certified == nil {
		t.certified = t.carrying(cert)
	}
	return t.certified
}

func (t *test) close() {
	t.carrier.CloseIdleConnections()
	if t.certified != nil {
		t.certified.CloseIdleConnections()
	}
}

// interfaces tests each interface that the mesh would call.
func (t *test) interfaces(ctx context.Context, card *a2apb.AgentCard) {
	all, err := registry.Interfaces(card)
	if err == nil {
		err = t.bind(card, all)
	}
	if err != nil {
		t.report(Finding{Check: mesh.FieldOf(err), Verdict: Failed, Cause: mesh.DetailOf(err),
			Remedy: "name where the agent serves A2A, and the binding and version, on its card"})
		return
	}
	for _, in := range all {
		p := &probe{test: t, on: in, agent: call.Agent{Target: call.Target{Name: registry.Slug(card.GetName()), Card: only(card, in), Endpoint: in.GetUrl()}},
			thread: mesh.NewThreadID()}
		p.name = in.GetProtocolBinding() + " " + in.GetProtocolVersion() + " at " + mesh.PublicURL(in.GetUrl())
		p.run(ctx)
	}
}

// errTooLate ends a check.
var errTooLate = errors.New("the check takes too long")
