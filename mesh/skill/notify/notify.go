// Package notify tells others what came of skills: by webhook, or in the log.
//
// A [Notifier] has rules: which skills, on failures or always, and where to.
// [Notifier.For] makes of it the last stage of the pipeline that runs skills,
// for one agent at work. It hears of calls that were made, whichever way they
// came, and not of tools that only lead to them, nor of calls that were refused
// (S3-147).
//
// # What is guaranteed
//
// A call never waits: what is to be told goes into a queue, and what finds it
// full is dropped and logged. The same is told once in five minutes: by the
// same rule, for the same tenant, skill, status and content. A webhook is asked
// a few times, so that it may get a notification twice, with the same id; and
// one that could not be delivered is tried anew when it is due again.
//
// # What may run concurrently
//
// Everything. [New] starts goroutines, and [Notifier.Close] waits for them.
//
// # What it is not
//
// It is no record: the thread's log is. What is in the queue when the process
// dies is lost. It sends to whatever its rules name; the HTTP client decides
// what may be reached. Arguments of calls are not told.
package notify

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// The values of Rule.On.
const (
	OnFailure = "failure"
	OnAlways  = "always"
)

// Defaults of Options.
const (
	DefaultQueue    = 256
	DefaultWindow   = 5 * time.Minute
	DefaultTimeout  = 10 * time.Second
	DefaultAttempts = 3
	DefaultBackoff  = time.Second
)

// workers is how many notifications are on their way at once, so that a slow
// webhook does not keep the others.
const workers = 4

// A Rule says what is told to whom.
type Rule struct {
	// Name is told along. The default is "rule N", counted from 1.
	Name string
	// Skills are patterns of skills, as "mail.*". The default is all.
	Skills []string
	// On is OnFailure or OnAlways. The default is OnFailure.
	On string
	// URL is the webhook, http or https. Where there is none, the log is told.
	URL string
}

// Options are the choices of [New]. Zero values are defaults.
type Options struct {
	// Client makes the requests to webhooks; rules with a URL need one. Its
	// redirects are not followed.
	Client *http.Client
	// Queue is how many notifications may wait.
	Queue int
	// Window is how long the same is not told again.
	Window time.Duration
	// Timeout bounds one request, Attempts is how many are made at most, and
	// Backoff the pause after the first one; each further pause is double.
	Timeout  time.Duration
	Attempts int
	Backoff  time.Duration
	// Now is the clock. The default is time.Now.
	Now func() time.Time
	// Logger is told what rules without a URL have to tell, and what goes
	// wrong. The default discards.
	Logger *slog.Logger
}

// A Notification is what is told: the body of a webhook's request, in JSON.
type Notification struct {
	ID     string `json:"id"`
	Rule   string `json:"rule"`
	Skill  string `json:"skill"`
	Status string `json:"status"` // "ok" or "error"
	// Content is what the model was told, at most 4 KiB of it.
	Content string        `json:"content"`
	Tenant  mesh.TenantID `json:"tenant"`
	User    string        `json:"user,omitempty"`
	Thread  string        `json:"thread,omitempty"`
	// Source says how the skill was called: a Source constant of package mesh.
	Source string    `json:"source,omitempty"`
	Time   time.Time `json:"time"`
}

// maxContent is how much of a result is told, in bytes.
const maxContent = 4 << 10

// An Origin is whose calls are told about.
type Origin struct {
	Tenant mesh.TenantID
	User   string
	Thread string
}

// A Notifier tells others what came of skills. Use [New].
type Notifier struct {
	rules   []Rule
	options Options
	client  *http.Client
	logger  *slog.Logger
	cut     context.CancelFunc // ends deliveries
	working sync.WaitGroup

	mu     sync.Mutex
	closed bool
	queue  chan *delivery
	told   memory
}

type delivery struct {
	rule  *Rule
	about digest
	note  Notification
}

// New returns a Notifier with the rules and starts its work. Rules that make no
// sense are Invalid. Without rules it does nothing.
func New(rules []Rule, o Options) (*Notifier, error) {
	rules = slices.Clone(rules)
	for i := range rules {
		if err := rules[i].complete(i, o.Client != nil); err != nil {
			return nil, err
		}
	}
	o.Queue = cmp.Or(o.Queue, DefaultQueue)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Attempts = cmp.Or(o.Attempts, DefaultAttempts)
	o.Backoff = cmp.Or(o.Backoff, DefaultBackoff)
	if o.Now == nil {
		o.Now = time.Now
	}
	n := &Notifier{rules: rules, options: o, logger: o.Logger, queue: make(chan *delivery, o.Queue)}
	n.told = newMemory(cmp.Or(o.Window, DefaultWindow))
	if n.logger == nil {
		n.logger = slog.New(slog.DiscardHandler)
	}
	if o.Client != nil {
		own := *o.Client
		own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		n.client = &own
	}
	ctx, cut := context.WithCancel(context.Background())
	n.cut = cut
	for range workers {
		n.working.Go(func() { // Close waits
			for d := range n.queue {
				n.deliver(ctx, d)
			}
		})
	}
	return n, nil
}

// complete fills in the defaults of the rule and checks it.
func (r *Rule) complete(i int, hasClient bool) error {
	const op = "notify.New"
	field := fmt.Sprintf("notifications[%d].", i)
	r.Name = cmp.Or(r.Name, fmt.Sprintf("rule %d", i+1))
	r.On = cmp.Or(r.On, OnFailure)
	if r.On != OnFailure && r.On != OnAlways {
		return mesh.InvalidField(op, field+"on", "must be %s or %s, and is %q", OnFailure, OnAlways, mesh.Clip(r.On, 40))
	}
	if slices.Contains(r.Skills, "") {
		return mesh.InvalidField(op, field+"skills", "has an empty pattern; use names as mail.send, mail.* or *")
	}
	if r.URL == "" {
		return nil
	}
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return mesh.InvalidField(op, field+"url", "must be an http or https URL")
	}
	if !hasClient {
		return mesh.InvalidField(op, field+"url", "needs an HTTP client")
	}
	return nil
}

func (r *Rule) matches(skillName string, failed bool) bool {
	if r.On == OnFailure && !failed {
		return false
	}
	return len(r.Skills) == 0 || slices.ContainsFunc(r.Skills, func(p string) bool { return mesh.SkillMatches(p, skillName) })
}

// For returns the notifier of the calls of one origin.
func (n *Notifier) For(o Origin) skill.Notifier { return scoped{n, o} }

type scoped struct {
	*Notifier
	origin Origin
}

// Notify queues what the rules want to be told about the call. It does not
// block.
func (s scoped) Notify(ctx context.Context, about *skill.Skill, call *skill.Call, r *skill.Result) {
	for i := range s.rules {
		rule := &s.rules[i]
		if !rule.matches(about.Name, r.Failed()) {
			continue
		}
		d := &delivery{rule: rule, about: digestOf(i, s.origin, about.Name, r), note: Notification{
			ID: mesh.NewEventID(), Rule: rule.Name, Skill: about.Name, Status: r.Status, Content: mesh.Clip(r.Content, maxContent),
			Tenant: s.origin.Tenant, User: s.origin.User, Thread: s.origin.Thread, Source: call.Source, Time: s.options.Now().UTC(),
		}}
		if !s.enqueue(d) {
			s.logger.WarnContext(ctx, "a notification was dropped; too many wait, or the end has come", "rule", rule.Name, "skill", about.Name)
		}
	}
}

// enqueue reports whether the delivery is on its way, or need not be.
func (n *Notifier) enqueue(d *delivery) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	if !n.told.add(d.about, d.note.Time) {
		return true
	}
	select {
	case n.queue <- d:
		return true
	default:
		n.told.forget(d.about)
		return false
	}
}

// Close takes no more notifications, delivers those that wait, and returns when
// all its goroutines have ended. When ctx ends first, what is left is given up
// and the error is ctx's. It may be called more than once.
func (n *Notifier) Close(ctx context.Context) error {
	n.mu.Lock()
	if !n.closed {
		n.closed = true
		close(n.queue)
	}
	n.mu.Unlock()
	stop := context.AfterFunc(ctx, n.cut)
	n.working.Wait()
	inTime := stop()
	n.cut()
	if !inTime {
		return mesh.Wrap("notify.Close", context.Cause(ctx))
	}
	return nil
}
