package conformance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/credentials"
)

// The checks of an interface, in their order.
const (
	CheckConnect       = "connect"
	CheckSend          = "send"
	CheckStream        = "stream"
	CheckGetTask       = "get task"
	CheckMemory        = "memory"
	CheckQuestion      = "question"
	CheckCancel        = "cancel"
	CheckUnknownTask   = "unknown task"
	CheckUnknownMethod = "unknown method"
	CheckMalformed     = "malformed message"
	CheckFailure       = "failure"
)

// A probe tests one interface.
type probe struct {
	*test
	on     *a2apb.AgentInterface
	name   string
	agent  call.Agent
	thread string
	client call.Client

	limit time.Duration // of the check

	mu sync.Mutex // of oddities: calls may run at once
	// oddities are what was odd in answers since the check began, and told the kinds that
	// were reported before.
	oddities []oddity
	told     map[string]bool
	// answers is the last exchange that the agent ended; nil for none. closed says that
	// it wants a mesh's ticket, and silent that nothing came of a message.
	answers        *exchange
	closed, silent bool
}

// A check is one of an interface.
type check struct {
	name string
	// messages is how many it waits for, for each of which it has Timeout; 0 as 1.
	messages int
	// talks says that it needs an agent that answers messages.
	talks bool
	do    func(context.Context) Finding
}

// run makes all checks.
func (p *probe) run(ctx context.Context) {
	p.told = map[string]bool{}
	dialer := call.NewDialer(p.pool, call.Options{HTTP: p.carrier, Deviation: p.deviates,
		Credentials: func(mesh.TenantID, string) *credentials.Set { return p.given },
		Certified:   func(cert *tls.Certificate, _ bool) http.RoundTripper { return p.by(cert) }})
	client, err := dialer.Dial(p.agent.Target)
	p.client = client
	connected := false
	p.check(ctx, check{name: CheckConnect, do: func(ctx context.Context) Finding {
		how := ""
		if err == nil {
			how, err = p.connect(ctx)
		}
		if connected = err == nil; !connected {
			return Finding{Verdict: Failed, Cause: causeOf(err), Remedy: "start the agent there, or correct the address on its card"}
		}
		return Finding{Verdict: OK, Cause: how}
	}})
	for i, c := range []check{
		{name: CheckSend, do: p.send},
		{name: CheckStream, do: p.stream},
		{name: CheckGetTask, talks: true, do: p.getTask},
		{name: CheckMemory, messages: 3, talks: true, do: p.memory},
		{name: CheckQuestion, messages: 2, talks: true, do: p.question},
		{name: CheckCancel, talks: true, do: p.cancel},
		{name: CheckUnknownTask, do: p.unknownTask},
		{name: CheckUnknownMethod, do: p.unknownMethod},
		{name: CheckMalformed, do: p.malformed},
		{name: CheckFailure, talks: true, do: p.failure},
	} {
		switch {
		case !connected:
			c.do = skip("it cannot be connected to")
		case p.closed:
			c.do = skip("it takes calls with a mesh's ticket only")
		case p.answers == nil && (c.talks || p.silent && i > 1):
			c.do = skip("the agent answered no message")
		}
		p.check(ctx, c)
	}
}

func skip(why string) func(context.Context) Finding {
	return func(context.Context) Finding { return Finding{Verdict: Skipped, Cause: why} }
}

// check makes one check and reports what it found.
func (p *probe) check(ctx context.Context, c check) {
	f := Finding{Interface: p.name, Check: c.name}
	if ctx.Err() != nil {
		c.do = skip("interrupted")
	} else {
		p.Begin(f)
	}
	_ = p.odd() // of what ended late
	p.limit = p.Timeout * time.Duration(max(c.messages, 1))
	within, cancel := context.WithTimeoutCause(ctx, p.limit, errTooLate)
	found := c.do(within)
	cancel()
	if ctx.Err() != nil && found.Verdict != OK {
		found = Finding{Verdict: Skipped, Cause: "interrupted"}
	}
	found.Interface, found.Check = f.Interface, f.Check
	p.report(found)
	for _, o := range p.odd() {
		if !p.told[o.kind] { // once for each interface
			p.told[o.kind] = true
			p.report(Finding{Interface: p.name, Check: c.name, Verdict: Warning, Cause: o.cause, Remedy: o.remedy})
		}
	}
}

// deviates notes how the JSON of an answer is odd.
func (p *probe) deviates(clause string) {
	p.note(oddity{kind: clause, cause: clause, remedy: "send what A2A says; other clients may not understand it"})
}

// note notes what is odd.
func (p *probe) note(o ...oddity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.oddities = append(p.oddities, o...)
}

// odd returns what was noted, and forgets it.
func (p *probe) odd() []oddity {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.oddities
	p.oddities = nil
	return all
}

// connect opens a connection to where the interface is, and hangs up. It says how it is.
func (p *probe) connect(ctx context.Context) (how string, err error) {
	const op = "conformance.connect"
	at, secure := mesh.Endpoint(p.on.GetUrl())
	if u, err := url.Parse(p.on.GetUrl()); err == nil && u.Hostname() != "" && strings.HasPrefix(u.Scheme, "http") {
		port := u.Port()
		if port == "" {
			port = u.Scheme
		}
		at, secure = net.JoinHostPort(u.Hostname(), port), u.Scheme == "https"
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
	if err != nil {
		return "", mesh.Errorf(mesh.Unavailable, op, "nobody answers at %s: %w", at, err)
	}
	defer func() { _ = conn.Close() }()
	if !secure {
		return "without TLS", nil
	}
	if err := handshake(ctx, conn, at, p.TLS()); err != nil {
		return "", mesh.Errorf(mesh.Unavailable, op, "%s does not speak TLS, or its certificate is of nobody who is believed: %w", at, err)
	}
	return "over TLS", nil
}

// verdict says what became of an exchange.
func (p *probe) verdict(ctx context.Context, x *exchange) Finding {
	if x.answered() {
		p.answers = x
	}
	said := mesh.Clip(mesh.TextOf(x.last.Message), 200)
	switch {
	case x.good():
		return Finding{Verdict: OK, Cause: x.how()}
	case errors.Is(context.Cause(ctx), errTooLate):
		f := Finding{Verdict: Failed, Cause: fmt.Sprintf("the agent said nothing in %v", p.limit), Remedy: "let it answer sooner, or allow more time"}
		if p.silent = len(x.answers) == 0; !p.silent {
			f.Cause = fmt.Sprintf("its task did not end in %v", p.limit)
			f.Remedy = "end it with a terminal state or input_required, or allow more time"
		}
		return f
	case !x.ended:
		return Finding{Verdict: Failed, Cause: "the mesh heard no end"}
	case x.last.State == a2apb.TaskState_TASK_STATE_AUTH_REQUIRED:
		return Finding{Verdict: Warning, Cause: "the agent waits for credentials: " + said, Remedy: "that is for its user to give, in its own way"}
	case x.answered():
		return Finding{Verdict: Warning, Cause: "its task is " + stateName(x.last.State) + ": " + said, Remedy: "send what it can do instead of " + fmt.Sprintf("%q", mesh.Clip(x.sent, 40))}
	}
	if call.Speaks(p.agent.Card) && x.last.Reason == call.ReasonCredentials {
		p.closed = true
		return Finding{Verdict: Warning, Cause: "it takes calls with a mesh's ticket only, which nobody but that mesh can make",
			Remedy: "start the mesh and test the agent there, at its address with /agents/NAME/"}
	}
	f := Finding{Verdict: Failed, Cause: said, Remedy: remedies[x.last.Reason]}
	if why := innermost(x.err); why != "" && !strings.Contains(said, why) {
		f.Cause += " (" + why + ")"
	}
	return f
}

// remedies are what to do against the reasons for which calls fail.
var remedies = map[string]string{
	call.ReasonRefused:      "take a message with one part of text, as A2A has it; the agent's own log may say more",
	call.ReasonUnsupported:  "implement the operation, or do not declare it on the card",
	call.ReasonVersion:      "name the version that the agent speaks in protocolVersion of the interface",
	call.ReasonCredentials:  "give what it wants by --credential, and declare it on the card",
	call.ReasonDenied:       "let it be called by whoever runs the test",
	call.ReasonNotFound:     "correct the URL of the interface on the card: nobody serves A2A there",
	call.ReasonTaskNotFound: "keep a task at least until it was asked for",
	call.ReasonBusy:         "try again later",
	call.ReasonError:        "look into the agent's own log",
	mesh.ReasonUnavailable:  "look whether the agent still runs, and whether the interface is called with the right scheme and binding",
	mesh.ReasonTimeout:      "let it answer sooner, or allow more time",
	mesh.ReasonIllegal:      "send what A2A says",
	mesh.ReasonNoAnswer:     "end each task with a terminal state or input_required, and keep it so that it can be asked for",
}

// causeOf is what an error says for people, and what it came of.
func causeOf(err error) string {
	detail, why := mesh.DetailOf(rpc.FromStatus(err)), innermost(err)
	switch {
	case detail == "":
		return why
	case why == "" || strings.Contains(detail, why):
		return detail
	}
	return detail + " (" + why + ")"
}

// innermost is what the cause of an error of the mesh's says; "" for none. It looks into
// nothing that has words of its own: those are what may be shown.
func innermost(err error) string {
	e := (*mesh.Error)(nil)
	for errors.As(err, &e) {
		if e.Err == nil {
			return ""
		}
		err = e.Err
		if _, more := err.(*mesh.Error); !more { //nolint:errorlint // see above
			break
		}
	}
	if err == nil {
		return ""
	}
	return mesh.Clip(strings.Join(strings.Fields(err.Error()), " "), 300)
}
