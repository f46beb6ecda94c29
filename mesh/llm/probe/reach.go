package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm/openai"
)

// maxBody bounds what is read of a response, in bytes: some endpoints list hundreds of models.
const maxBody = 8 << 20

// A redirectedError is a response that sends the caller elsewhere, to a URL without secrets.
type redirectedError struct{ to string }

func (e *redirectedError) Error() string { return "redirected to " + e.to }

// stayingHere follows no redirects, whoever uses it.
type stayingHere struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (s stayingHere) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(r)
	if err != nil || resp.StatusCode < 300 || resp.StatusCode >= 400 {
		return resp, err
	}
	_ = resp.Body.Close() // nothing of it is read
	to := "somewhere else"
	if at, err := resp.Location(); err == nil {
		to = mesh.PublicURL(at.String())
	}
	return nil, &redirectedError{to}
}

// list asks for the list of models, which costs nothing, and by that finds out whether the
// endpoint is reached. It returns false if it need not be asked for more.
func (p *prober) list(ctx context.Context) bool {
	status, body, err := p.get(ctx)
	if err != nil {
		return false
	}
	p.listed = status
	if status == http.StatusUnauthorized {
		return p.unauthorized()
	}
	if status == http.StatusOK {
		p.models = modelsIn(body)
	}
	if status == http.StatusBadRequest && p.at.Scheme == "http" && p.encrypts(ctx) {
		delete(p.found, StepHTTP) // servers of TLS say so to who does not speak it
		return p.fail(StepTLS, WantsTLS, "begin "+p.config.Settings.URL+" with https", "what answers at %s wants TLS", p.at.Host)
	}
	return true
}

// encrypts reports whether TLS is spoken where the URL says http.
func (p *prober) encrypts(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, min(p.limit, connectTime))
	defer cancel()
	host := p.at.Host
	if p.at.Port() == "" {
		host = net.JoinHostPort(p.at.Hostname(), "80")
	}
	conn, err := new(tls.Dialer).DialContext(ctx, "tcp", host)
	if err == nil {
		_ = conn.Close() // nothing was said over it
		return true
	}
	var unverified *tls.CertificateVerificationError
	return errors.As(err, &unverified)
}

// unauthorized notes that the key is not taken.
func (p *prober) unauthorized() bool {
	if p.config.Key == "" {
		return p.fail(StepKey, KeyMissing, "set "+p.config.Settings.Key, "the endpoint wants a key (401), and there is none")
	}
	return p.fail(StepKey, KeyRefused, "set "+p.config.Settings.Key+" to one of this endpoint that is valid", "the endpoint refuses the key (401)")
}

// modelsIn are the models of a list; none if it is no list.
func modelsIn(body []byte) []string {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &list) != nil {
		return nil
	}
	var all []string
	for _, m := range list.Data {
		if m.ID != "" && len(m.ID) < 200 {
			all = append(all, m.ID)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// get gets the list of models. It notes how the steps to HTTP went.
func (p *prober) get(ctx context.Context) (status int, body []byte, err error) {
	timed, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	way := &progress{}
	r, err := p.request(httptrace.WithClientTrace(timed, way.trace()), http.MethodGet, "/models", nil)
	if err != nil {
		p.fail(StepURL, BadURL, "correct "+p.config.Settings.URL, "no request can be made of the URL of the model's endpoint")
		return 0, nil, err
	}
	resp, err := p.http.Do(r)
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
		if err != nil && timed.Err() == nil && !timedOut(err) {
			body, err = nil, nil // HTTP was spoken, and a list that breaks off is none
		}
	}
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err // the URL may have secrets in it
	}
	p.reached(ctx, timed, way, err)
	if err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, body, nil
}

// request returns a request for what is below the endpoint's URL.
func (p *prober) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(p.config.BaseURL, "/")+path, body)
	if err != nil {
		return nil, err
	}
	if p.config.Key != "" {
		r.Header.Set("Authorization", "Bearer "+p.config.Key)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// A progress is how far a request has come.
type progress struct{ resolved, connected, encrypted atomic.Bool }

func (w *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSDone:      func(i httptrace.DNSDoneInfo) { w.resolved.Store(i.Err == nil) },
		ConnectStart: func(string, string) { w.resolved.Store(true) },
		ConnectDone: func(_, _ string, err error) {
			if err == nil { // several may be tried at once
				w.connected.Store(true)
			}
		},
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { w.encrypted.Store(err == nil) },
		GotConn:          func(httptrace.GotConnInfo) { w.resolved.Store(true); w.connected.Store(true); w.encrypted.Store(true) },
	}
}

// reached notes what a request that ended with err says of the steps to HTTP.
func (p *prober) reached(ctx, timed context.Context, way *progress, err error) {
	https := p.at.Scheme == "https"
	at := StepHTTP
	for _, s := range []struct {
		step Step
		done bool
	}{{StepName, way.resolved.Load()}, {StepConnection, way.connected.Load()}, {StepTLS, way.encrypted.Load() || !https}} {
		if !s.done {
			at = s.step
			break
		}
		if s.step != StepTLS || https {
			p.well(s.step)
		}
	}
	switch moved := (*redirectedError)(nil); {
	case err == nil:
		p.well(StepHTTP)
	case ctx.Err() != nil:
		p.doubt(at, Canceled, "", "the check was ended")
	case errors.As(err, &moved):
		p.redirected(moved)
	case p.unresolved(err), p.untrusted(err):
	case at == StepConnection && (timed.Err() != nil || timedOut(err)):
		p.fail(at, Silent, "look whether it runs, and whether "+p.config.Settings.URL+" and a firewall in between are right", "%s does not take a connection in time", p.at.Host)
	case timed.Err() != nil || timedOut(err):
		p.fail(at, Silent, "look whether it runs, and whether "+p.config.Settings.URL+" and a firewall in between are right", "%s sent nothing for %v", p.at.Host, p.limit)
	case at == StepHTTP:
		p.fail(StepHTTP, NotHTTP, "look at the port in "+p.config.Settings.URL+", and whether it is to begin with https", "what answers at %s does not speak HTTP", p.at.Host)
	default:
		p.unreachable(err)
	}
}

func timedOut(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

func (p *prober) redirected(e *redirectedError) bool {
	return p.fail(StepHTTP, Redirected, "set "+p.config.Settings.URL+" to where the API itself is; redirects are not followed here, for the key goes along",
		"the endpoint sends callers on to %s", e.to)
}

// unresolved notes that the host's name, or the proxy, cannot be found, if that is so.
func (p *prober) unresolved(err error) bool {
	var by *net.OpError
	if errors.As(err, &by) && by.Op == "proxyconnect" {
		delete(p.found, StepName)
		p.fail(StepConnection, BadProxy, "look at HTTP_PROXY, HTTPS_PROXY and NO_PROXY", "the proxy in front of %s cannot be used", p.at.Host)
		return true
	}
	var name *net.DNSError
	if !errors.As(err, &name) {
		return false
	}
	if name.IsNotFound {
		p.fail(StepName, UnknownHost, "look at how it is written in "+p.config.Settings.URL, "the host %s is not known", p.at.Hostname())
	} else {
		p.fail(StepName, NameService, "look at the network and its name servers", "the host %s cannot be looked up", p.at.Hostname())
	}
	return true
}

// untrusted notes what is wrong with TLS, if that is so.
func (p *prober) untrusted(err error) bool {
	var unknown x509.UnknownAuthorityError
	var other x509.HostnameError
	var bad x509.CertificateInvalidError
	var plain tls.RecordHeaderError
	var alert tls.AlertError
	host := p.at.Host
	switch {
	case errors.As(err, &unknown):
		p.fail(StepTLS, Untrusted, "add the certificate of its issuer to those that this machine trusts, or name its file in SSL_CERT_FILE", "the certificate of %s was issued by nobody who is trusted here", host)
	case errors.As(err, &other):
		p.fail(StepTLS, OtherName, "use the host that the certificate is for in "+p.config.Settings.URL, "the certificate of %s is for another host", host)
	case errors.As(err, &bad) && bad.Reason == x509.Expired:
		p.fail(StepTLS, Expired, "look at this machine's clock, else have it renewed", "the certificate of %s is not valid today", host)
	case errors.As(err, &bad):
		p.fail(StepTLS, Untrusted, "have a certificate issued that is made for servers", "the certificate of %s cannot be used", host)
	case errors.As(err, &plain), errors.Is(err, http.ErrSchemeMismatch):
		p.fail(StepTLS, NoTLS, "begin "+p.config.Settings.URL+" with http if the endpoint has no https", "what answers at %s does not speak TLS", host)
	case errors.As(err, &alert):
		p.fail(StepTLS, NoTLS, "look at what the endpoint demands of its callers", "%s does not agree to a TLS connection", host)
	default:
		return false
	}
	return true
}

func (p *prober) unreachable(err error) {
	why := "cannot be reached"
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "takes no connection: nothing listens there"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		why = "cannot be reached: there is no way to it in the network"
	}
	p.fail(StepConnection, Unreachable, "start it, or correct "+p.config.Settings.URL, "%s %s", p.at.Host, why)
}

// A Local is an endpoint on this machine.
type Local struct {
	Name, URL string
	// Models are those that it lists, sorted; there is one at least.
	Models []string
}

// Locals are where programs that serve models listen unless told otherwise.
func Locals() []Local {
	return []Local{
		{Name: "Ollama", URL: "http://127.0.0.1:11434/v1"},
		{Name: "LM Studio", URL: "http://127.0.0.1:1234/v1"},
		{Name: "vLLM", URL: "http://127.0.0.1:8000/v1"},
		{Name: "llama.cpp", URL: "http://127.0.0.1:8080/v1"},
		{Name: "LiteLLM", URL: "http://127.0.0.1:4000/v1"},
	}
}

// Find returns those of the endpoints that list models to who has no key, each asked for at
// most limit.
func Find(ctx context.Context, among []Local, limit time.Duration) []Local {
	found := slices.Clone(among)
	var asking sync.WaitGroup
	for i := range found {
		asking.Go(func() {
			p := newProber(openai.Config{BaseURL: found[i].URL}, limit)
			defer p.close()
			if p.checkURL() {
				p.list(ctx)
			}
			found[i].Models = p.models
		})
	}
	asking.Wait()
	return slices.DeleteFunc(found, func(l Local) bool { return len(l.Models) == 0 })
}
