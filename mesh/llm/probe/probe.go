// Package probe tells whether a model endpoint works, and if it does not, what is wrong
// and what helps.
//
// [Endpoint] goes the way of a request, step by step: the URL, the name of the host, the
// connection, TLS, HTTP, the key, the model, a reply, its stream, and a call of a tool. What
// was found at each [Step] is typed ([Status], [Code]); the words are for people. Steps behind
// one that failed are unknown, unless what is known already says more.
//
// It sends three requests at most: one for the list of models, and two for short replies. An
// endpoint that refuses how a model is asked is asked once more, over the Responses API, and
// once more without what models thought: five requests at most. The replies cost some hundred
// tokens together, at most about 100 of the prompts and 64 and 256 of the replies, which
// nobody's quota counts. Each request has the
// time that the caller gives it, and no redirect is followed, so that neither the key nor what
// is said reaches another host. Neither the key nor what a URL may have of one is in any text.
//
// Functions may be called concurrently; when they return, nothing that they started is left.
//
// The package does not watch endpoints, and does not repair a configuration.
package probe

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"agentmesh/mesh"
	"agentmesh/mesh/llm/openai"
)

// A Step is a part of the way of a request.
type Step string

// The steps, in their order. StepTLS is left out for an http URL of this machine.
const (
	StepURL        Step = "url"
	StepName       Step = "name"
	StepConnection Step = "connection"
	StepTLS        Step = "tls"
	StepHTTP       Step = "http"
	StepKey        Step = "key"
	StepModel      Step = "model"
	StepReply      Step = "reply"
	StepStream     Step = "stream"
	StepTools      Step = "tools"
)

// steps are all steps in order.
var steps = []Step{StepURL, StepName, StepConnection, StepTLS, StepHTTP, StepKey, StepModel, StepReply, StepStream, StepTools}

// A Status says how a step went.
type Status string

// The states of a step. Unknown is one that was not come to, or that cannot be told.
const (
	OK      Status = "ok"
	Failed  Status = "failed"
	Unknown Status = "unknown"
)

// A Code says what is wrong.
type Code string

// The codes, with the steps that have them.
const (
	BadURL        Code = "bad_url"       // url: it is none of http or https with a host
	UnknownHost   Code = "unknown_host"  // name: there is none of that name
	NameService   Code = "name_service"  // name: names cannot be looked up
	Unreachable   Code = "unreachable"   // connection: nobody takes it
	BadProxy      Code = "bad_proxy"     // connection: the proxy of the environment cannot be used
	Untrusted     Code = "untrusted"     // tls: issued by an authority that is not known here
	OtherName     Code = "other_name"    // tls: issued for another host
	Expired       Code = "expired"       // tls: not valid at this time
	NoTLS         Code = "no_tls"        // tls: what answers does not speak it
	WantsTLS      Code = "wants_tls"     // tls: what answers speaks nothing else
	Plaintext     Code = "plaintext"     // tls, unknown: what is said travels unencrypted
	NotHTTP       Code = "not_http"      // http: what answers does not speak it
	Redirected    Code = "redirected"    // http: it sends callers elsewhere
	Silent        Code = "silent"        // connection, tls, http, reply: nothing came in time
	KeyMissing    Code = "key_missing"   // key: it wants one
	KeyMalformed  Code = "key_malformed" // key: no header can carry it
	KeyRefused    Code = "key_refused"   // key: 401
	KeyNotAllowed Code = "key_forbidden" // key: 403
	ModelMissing  Code = "model_missing" // model: the configuration names none
	NoSuchModel   Code = "no_such_model" // model: the endpoint has none of that name
	WrongPath     Code = "wrong_path"    // model: nothing of the protocol is at this path
	NoAPI         Code = "no_api"        // reply: the model is there, and this API is not
	Exhausted     Code = "exhausted"     // reply: quota or rate limit
	Broken        Code = "broken"        // reply: 5xx, or the connection broke
	NotProtocol   Code = "not_protocol"  // reply: it is not the OpenAI protocol
	Refused       Code = "refused"       // reply: another 4xx
	NoStream      Code = "no_stream"     // stream: replies come, and not as a stream
	NoToolCalls   Code = "no_tool_calls" // tools: failed where they are refused, unknown where none came
	Canceled      Code = "canceled"      // any, unknown: the caller gave up
	NotReached    Code = "not_reached"   // any, unknown: a step before it failed
	NotSaid       Code = "not_said"      // any, unknown: what came does not tell
)

// A Result is how one step went. Detail says what is wrong, and Remedy what to do about it,
// for the operator; both are one line, and "" where all is well.
type Result struct {
	Step           Step
	Status         Status
	Code           Code
	Detail, Remedy string
}

// String is what the result says.
func (r Result) String() string {
	return strings.TrimSuffix(r.Detail+": "+r.Remedy, ": ")
}

// A Report is what a probe found.
type Report struct {
	// Results are those of the steps, in their order.
	Results []Result
	// Models are those that the endpoint lists, sorted; it may have others.
	Models []string
}

// Failed returns the result of the first step that failed, or nil.
func (r *Report) Failed() *Result {
	if i := slices.IndexFunc(r.Results, func(x Result) bool { return x.Status == Failed }); i >= 0 {
		return &r.Results[i]
	}
	return nil
}

// Doubts are the results that are unknown for a reason of their own: what may be wrong, in
// an endpoint that works as far as can be told.
func (r *Report) Doubts() []Result {
	return slices.DeleteFunc(slices.Clone(r.Results), func(x Result) bool { return x.Status != Unknown || x.Code == NotReached })
}

// Works reports whether the endpoint answers as the mesh needs it.
func (r *Report) Works() bool {
	return r.Failed() == nil && slices.ContainsFunc(r.Results, func(x Result) bool { return x.Step == StepStream && x.Status == OK })
}

// DefaultTimeout is for each request of a probe. Models on one's own machine may have to be
// loaded first.
const DefaultTimeout = 45 * time.Second

// connectTime bounds each attempt to connect.
const connectTime = 10 * time.Second

// Endpoint probes the endpoint of c, each request for at most limit; 0 is
// [DefaultTimeout]. Of c it goes by BaseURL, Key, Model, API, Extra, Transport and Settings.
func Endpoint(ctx context.Context, c openai.Config, limit time.Duration) *Report {
	p := newProber(c, limit)
	defer p.close()
	if p.checkURL() && p.list(ctx) && p.named() && p.reply(ctx) {
		p.tools(ctx)
	}
	return p.report()
}

// A prober probes one endpoint.
type prober struct {
	config openai.Config
	at     *url.URL
	limit  time.Duration
	http   *http.Client
	own    *http.Transport // to close; nil if the caller has given one
	client *openai.Client  // that agents use; nil until a reply is asked for, and what it learns is kept
	found  map[Step]Result
	models []string
	listed int // the status of the list
}

func newProber(c openai.Config, limit time.Duration) *prober {
	s := &c.Settings
	s.URL, s.Key, s.Model = cmp.Or(s.URL, "MESH_LLM_URL"), cmp.Or(s.Key, "MESH_LLM_KEY"), cmp.Or(s.Model, "MESH_LLM_MODEL")
	p := &prober{config: c, limit: cmp.Or(limit, DefaultTimeout), found: map[Step]Result{}}
	if c.Transport == nil {
		p.own = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableKeepAlives: true,
			DialContext: (&net.Dialer{Timeout: connectTime}).DialContext}
		c.Transport = p.own
	}
	p.config.Transport = stayingHere{c.Transport}
	p.http = &http.Client{Transport: p.config.Transport}
	return p
}

func (p *prober) close() {
	if p.client != nil {
		p.client.Close()
	}
	if p.own != nil {
		p.own.CloseIdleConnections()
	}
}

func (p *prober) well(steps ...Step) {
	for _, s := range steps {
		p.found[s] = Result{Step: s, Status: OK}
	}
}

// fail notes what is wrong, and what helps, and returns false.
func (p *prober) fail(s Step, code Code, remedy, format string, args ...any) bool {
	p.found[s] = Result{Step: s, Status: Failed, Code: code, Detail: p.fit(fmt.Sprintf(format, args...)), Remedy: p.fit(remedy)}
	return false
}

// doubt notes what may be wrong, and returns false.
func (p *prober) doubt(s Step, code Code, remedy, format string, args ...any) bool {
	p.fail(s, code, remedy, format, args...)
	r := p.found[s]
	r.Status = Unknown
	p.found[s] = r
	return false
}

// maxText bounds a text of a result, in bytes: endpoints have a say in some.
const maxText = 600

// fit makes text fit to be shown: one line without the key.
func (p *prober) fit(text string) string {
	if len(p.config.Key) >= 4 {
		text = strings.ReplaceAll(text, p.config.Key, "[key]")
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	return mesh.Clip(strings.Join(strings.Fields(text), " "), maxText)
}

// report puts together what was found; what was not come to is unknown.
func (p *prober) report() *Report {
	r := &Report{Models: p.models}
	for _, s := range steps {
		found, ok := p.found[s]
		switch {
		case ok:
			r.Results = append(r.Results, found)
		case s != StepTLS || p.at == nil || p.at.Scheme == "https": // of http there is nothing to say
			r.Results = append(r.Results, Result{Step: s, Status: Unknown, Code: NotReached})
		}
	}
	return r
}

// checkURL reads what the operator has set.
func (p *prober) checkURL() bool {
	u, err := url.Parse(p.config.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.ContainsAny(p.config.BaseURL, " \t\r\n") {
		return p.fail(StepURL, BadURL, "set "+p.config.Settings.URL+" to one such as https://api.openai.com/v1 or http://127.0.0.1:11434/v1",
			"the URL of the model's endpoint is no http or https URL with a host")
	}
	p.at = u
	p.well(StepURL)
	if strings.ContainsFunc(p.config.Key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return p.fail(StepKey, KeyMalformed, "set "+p.config.Settings.Key+" to the key alone", "the key has a line break or another control character in it")
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		p.doubt(StepTLS, Plaintext, "use https if the endpoint has it", "the key, and all that is said, travel unencrypted to %s", u.Host)
	}
	return true
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// named refuses a configuration without a model.
func (p *prober) named() bool {
	if p.config.Model != "" {
		return true
	}
	return p.fail(StepModel, ModelMissing, "set "+p.config.Settings.Model+" to one of the models of the endpoint", "no model is named%s", p.has())
}

// shownModels is how many models are named to who has named one that is not there.
const shownModels = 5

// has says which models the endpoint has, those first that are most like the one asked for.
func (p *prober) has() string {
	if len(p.models) == 0 {
		return ""
	}
	like := slices.Clone(p.models)
	slices.SortStableFunc(like, func(a, b string) int { return cmp.Compare(p.likeness(b), p.likeness(a)) })
	more := ""
	if n := len(like) - shownModels; n > 0 {
		like, more = like[:shownModels], fmt.Sprintf(" and %d more", n)
	}
	return "; it has " + strings.Join(like, ", ") + more
}

// likeness is how many bytes the names of the model and of that asked for begin with, wherever
// in the model's name that is.
func (p *prober) likeness(model string) (n int) {
	want := strings.ToLower(p.config.Model)
	for n < len(want) && strings.Contains(strings.ToLower(model), want[:n+1]) {
		n++
	}
	return n
}

func (p *prober) lists(model string) bool {
	return slices.Contains(p.models, model) || slices.Contains(p.models, model+":latest")
}
