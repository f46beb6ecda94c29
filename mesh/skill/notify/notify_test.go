package notify_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/notify"
	"agentmesh/mesh/skill/skilltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A hook is a webhook that answers in turn with the statuses given, and then
// with 204.
type hook struct {
	*httptest.Server
	mu      sync.Mutex
	answers []int
	got     []notify.Notification
	headers []http.Header
	arrived chan struct{} // one for each request
	hold    chan struct{} // answers wait until it is closed
}

func newHook(t *testing.T, answers ...int) *hook {
	t.Helper()
	h := &hook{answers: answers, arrived: make(chan struct{}, 10000), hold: make(chan struct{})}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var note notify.Notification
	err := json.NewDecoder(r.Body).Decode(&note)
	h.mu.Lock()
	status := http.StatusNoContent
	if len(h.answers) > 0 {
		status, h.answers = h.answers[0], h.answers[1:]
	}
	if err != nil || r.Method != http.MethodPost {
		note.Rule = fmt.Sprint(r.Method, " ", err)
	}
	h.got = append(h.got, note)
	h.headers = append(h.headers, r.Header)
	h.mu.Unlock()
	h.arrived <- struct{}{}
	switch status {
	case http.StatusFound:
		w.Header().Set("Location", "/elsewhere")
	case http.StatusProcessing: // for as long as the client is there
		select {
		case <-h.hold:
		case <-r.Context().Done():
		}
		status = http.StatusNoContent
	}
	w.WriteHeader(status)
}

// heard returns what the webhook got, by rule and content.
func (h *hook) heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, n := range h.got {
		out = append(out, cmp.Or(n.Rule, "-")+": "+n.Skill+" "+n.Status+" "+n.Content)
	}
	slices.Sort(out)
	return out
}

// A bench is a Notifier with a log and a clock.
type bench struct {
	*notify.Notifier
	t   *testing.T
	now time.Time
	mu  sync.Mutex
	log bytes.Buffer
	// logged has one for each line of the log.
	logged chan struct{}
}

func (b *bench) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.logged <- struct{}{}
	return b.log.Write(p)
}

func newBench(t *testing.T, o notify.Options, rules ...notify.Rule) *bench {
	t.Helper()
	b := &bench{t: t, logged: make(chan struct{}, 10000), now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	o.Client = cmp.Or(o.Client, http.DefaultClient)
	o.Backoff = time.Millisecond
	o.Logger = slog.New(slog.NewTextHandler(b, nil))
	o.Now = func() time.Time { return b.now }
	var err error
	if b.Notifier, err = notify.New(rules, o); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) tell(name, status, content string) { b.tellOf("acme", name, status, content) }

func (b *bench) tellOf(tenant mesh.TenantID, name, status, content string) {
	b.from(notify.Origin{Tenant: tenant, User: "ann", Thread: "t1"}, name, status, content)
}

func (b *bench) from(o notify.Origin, name, status, content string) {
	b.For(o).Notify(b.t.Context(), &skill.Skill{Name: name},
		&skill.Call{Skill: name, Source: mesh.SourceCommand}, &skill.Result{Status: status, Content: content})
}

// done closes the notifier and returns what it logged.
func (b *bench) done() string {
	b.t.Helper()
	if err := b.Close(context.Background()); err != nil {
		b.t.Error(err)
	}
	return b.log.String()
}

// S3-147: each rule is told of its skills, on failures or always.
func TestRulesSayWhoIsToldOfWhat(t *testing.T) {
	h := newHook(t)
	b := newBench(t, notify.Options{},
		notify.Rule{URL: h.URL},
		notify.Rule{Name: "all mail", Skills: []string{"mail.*", "tasks.create"}, On: notify.OnAlways, URL: h.URL},
		notify.Rule{Name: "operator", Skills: []string{"mail.send"}})
	b.tell("mail.send", "error", "no route")
	b.tell("mail.send", "ok", "sent")
	b.tell("tasks.create", "ok", "made")
	b.tell("tasks.get", "ok", "there")
	log := b.done()
	want := []string{
		"all mail: mail.send error no route", "all mail: mail.send ok sent", "all mail: tasks.create ok made", "rule 1: mail.send error no route",
	}
	if diff := gocmp.Diff(want, h.heard()); diff != "" {
		t.Error(diff)
	}
	for _, part := range []string{"level=WARN", "rule=operator", "skill=mail.send", `content="no route"`, "tenant=acme", "user=ann"} {
		if strings.Count(log, part) != 1 {
			t.Errorf("log is %q, want %s in it once", log, part)
		}
	}
}

// A webhook gets JSON that says whose call it was, and an id by which it knows
// a repetition; long results are cut.
func TestAWebhookIsToldInJSON(t *testing.T) {
	h := newHook(t)
	b := newBench(t, notify.Options{}, notify.Rule{Name: "r", URL: h.URL})
	b.tell("mail.send", "error", strings.Repeat("é", 5000))
	b.done()
	if len(h.got) != 1 {
		t.Fatalf("got %d requests", len(h.got))
	}
	got, head := h.got[0], h.headers[0]
	if head.Get("Content-Type") != "application/json" || got.ID == "" || head.Get("Idempotency-Key") != got.ID {
		t.Errorf("headers are %v, and the id %q", head, got.ID)
	}
	if len(got.Content) > 4<<10+len("…") || !strings.HasSuffix(got.Content, "é…") {
		t.Errorf("content has %d bytes", len(got.Content))
	}
	got.ID, got.Content = "", ""
	want := notify.Notification{Rule: "r", Skill: "mail.send", Status: "error", Tenant: "acme", User: "ann", Thread: "t1",
		Source: mesh.SourceCommand, Time: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// S3-147: the same is told once in five minutes: a failure whoever meets it, a
// success for each user.
func TestTheSameIsToldOncePerWindow(t *testing.T) {
	h := newHook(t)
	b := newBench(t, notify.Options{}, notify.Rule{Name: "a", URL: h.URL, On: notify.OnAlways}, notify.Rule{Name: "b", URL: h.URL, Skills: []string{"x.*"}})
	for range 3 {
		b.tell("x.y", "error", "down")
	}
	b.tell("x.y", "ok", "down")
	b.tell("x.y", "error", "down again")
	b.tell("x.z", "error", "down")
	b.tellOf("other", "x.y", "error", "down")
	b.from(notify.Origin{Tenant: "acme", User: "bob", Thread: "t2"}, "x.y", "error", "down")
	b.from(notify.Origin{Tenant: "acme", User: "bob", Thread: "t2"}, "x.y", "ok", "down")
	b.now = b.now.Add(5*time.Minute - 1)
	b.tell("x.y", "error", "down")
	b.now = b.now.Add(1)
	b.tell("x.y", "error", "down")
	b.tell("x.y", "error", "down")
	b.done()
	want := []string{
		"a: x.y error down", "a: x.y error down", "a: x.y error down", "a: x.y error down again", "a: x.y ok down", "a: x.y ok down", "a: x.z error down",
		"b: x.y error down", "b: x.y error down", "b: x.y error down", "b: x.y error down again", "b: x.z error down",
	}
	if diff := gocmp.Diff(want, h.heard()); diff != "" {
		t.Error(diff)
	}
}

// A memory of what was told has bounds: a flood makes it forget, not grow.
func TestAFloodIsToldAndForgotten(t *testing.T) {
	b := newBench(t, notify.Options{Queue: 10000}, notify.Rule{})
	for i := range 5000 {
		b.tell("x.y", "error", fmt.Sprint("no ", i))
	}
	b.tell("x.y", "error", "no 0")    // was forgotten
	b.tell("x.y", "error", "no 4999") // was not
	log := b.done()
	if n := strings.Count(log, "skill=x.y"); n != 5001 {
		t.Errorf("%d were told, want 5001", n)
	}
}

// A webhook that fails is asked again, one that refuses is not; what came to
// nothing is logged without the URL, and told anew when it happens again.
func TestAWebhookIsAskedAFewTimes(t *testing.T) {
	tests := map[string]struct {
		answers []int
		asked   int
		logged  string
	}{
		"at once":         {nil, 1, ""},
		"the third time":  {[]int{500, 429}, 3, ""},
		"never":           {[]int{500, 502, 503}, 3, "the webhook answered 503 Service Unavailable"},
		"refused":         {[]int{403}, 1, "the webhook answered 403 Forbidden"},
		"sent elsewhere":  {[]int{302}, 1, "the webhook answered 302 Found"},
		"does not answer": {[]int{102, 102, 102}, 3, "deadline exceeded"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHook(t, tt.answers...)
			o := notify.Options{}
			if name == "does not answer" {
				o.Timeout = 20 * time.Millisecond
			}
			b := newBench(t, o, notify.Rule{URL: h.URL + "/secret-path"})
			b.tell("x.y", "error", "down")
			log := b.done()
			if got := len(h.heard()); got != tt.asked {
				t.Errorf("it was asked %d times, want %d", got, tt.asked)
			}
			for _, head := range h.headers {
				if head.Get("Idempotency-Key") != h.headers[0].Get("Idempotency-Key") {
					t.Error("a repetition has another id")
				}
			}
			if (log == "") != (tt.logged == "") || !strings.Contains(log, tt.logged) || strings.Contains(log, "secret-path") {
				t.Errorf("log is %q, want %q", log, tt.logged)
			}
		})
	}
}

func TestWhatWasNotDeliveredIsToldWhenItHappensAgain(t *testing.T) {
	h := newHook(t, 403)
	b := newBench(t, notify.Options{}, notify.Rule{URL: h.URL})
	b.tell("x.y", "error", "down")
	<-b.logged // the refusal
	b.tell("x.y", "error", "down")
	b.tell("x.y", "error", "down")
	b.done()
	if got := len(h.heard()); got != 2 {
		t.Errorf("it was told %d times, want 2", got)
	}
}

// A webhook that hangs keeps no call: what does not fit the queue is dropped
// and logged. Close delivers what waits.
func TestACallNeverWaitsForAWebhook(t *testing.T) {
	h := newHook(t, slices.Repeat([]int{102}, 100)...)
	b := newBench(t, notify.Options{Queue: 3, Timeout: time.Minute}, notify.Rule{URL: h.URL})
	for i := range 4 {
		b.tell("x.y", "error", fmt.Sprint("no ", i))
		<-h.arrived // each keeps one of those who deliver
	}
	begun := time.Now()
	for i := range 10 {
		b.tell("x.z", "error", fmt.Sprint("no ", i))
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("ten calls took %v", took)
	}
	close(h.hold)
	log := b.done()
	if got, dropped := len(h.heard()), strings.Count(log, "was dropped"); got != 7 || dropped != 7 {
		t.Errorf("%d were told and %d dropped: %s", got, dropped, log)
	}
	b.tell("x.z", "error", "after the end")
	if b.done(); len(h.heard()) != 7 {
		t.Error("a closed notifier tells")
	}
}

func TestCloseEndsWithItsContext(t *testing.T) {
	h := newHook(t, 102, 102)
	b := newBench(t, notify.Options{Timeout: time.Hour}, notify.Rule{URL: h.URL})
	b.tell("x.y", "error", "down")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := b.Close(ctx); !mesh.IsCode(err, mesh.Timeout) {
		t.Errorf("closed with %v", err)
	}
	if log := b.log.String(); !strings.Contains(log, "could not be delivered") {
		t.Errorf("log is %q", log)
	}
}

// The pauses between attempts double.
func TestAttemptsArePausedLongerAndLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begun := time.Now()
		n, err := notify.New([]notify.Rule{{URL: "http://hook.test/"}}, notify.Options{Attempts: 4, Client: &http.Client{Transport: transport(
			func(*http.Request) (*http.Response, error) {
				at = append(at, time.Since(begun))
				return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
			})}})
		if err != nil {
			t.Fatal(err)
		}
		n.For(notify.Origin{}).Notify(t.Context(), &skill.Skill{Name: "x.y"}, &skill.Call{}, &skill.Result{Status: "error"})
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if diff := gocmp.Diff([]time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}, at); diff != "" {
			t.Error(diff)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestNewRefusesRulesThatMakeNoSense(t *testing.T) {
	client := &http.Client{}
	tests := map[string]struct {
		rule   notify.Rule
		client *http.Client
		field  string
	}{
		"an unknown occasion": {notify.Rule{On: "sometimes"}, client, "notifications[1].on"},
		"an empty pattern":    {notify.Rule{Skills: []string{"a.b", ""}}, client, "notifications[1].skills"},
		"no web address":      {notify.Rule{URL: "ftp://x/"}, client, "notifications[1].url"},
		"no host":             {notify.Rule{URL: "http:///x"}, client, "notifications[1].url"},
		"nobody to send":      {notify.Rule{URL: "https://x/"}, nil, "notifications[1].url"},
	}
	for name, tt := range tests {
		n, err := notify.New([]notify.Rule{{}, tt.rule}, notify.Options{Client: tt.client})
		if n != nil || !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != tt.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// S3-147: what is told comes from the inner skill's execution; a call that was
// refused before it got there is told to nobody.
func TestNotificationsComeFromTheSkillItself(t *testing.T) {
	h := newHook(t)
	b := newBench(t, notify.Options{}, notify.Rule{Name: "r", On: notify.OnAlways, URL: h.URL})
	send := &skill.Skill{Name: "mail.send", Handler: "send", Parameters: []skill.Parameter{{Name: "to", Type: "string", Required: true}}}
	x := skill.NewExecutor(skill.Config{
		Journal: skilltest.Journal{},
		Lookup:  skill.Lookup(func(name string) (*skill.Skill, bool) { return send, name == send.Name }),
		Handlers: map[string]skill.Handler{"send": skill.HandlerFunc(func(_ context.Context, c *skill.Call, _ *skill.Env) (*skill.Result, error) {
			if c.String("to") == "nobody" {
				return nil, mesh.Errorf(mesh.Unavailable, "", "There is no such box.")
			}
			return &skill.Result{Content: "sent"}, nil
		})},
		Notifier: b.For(notify.Origin{Tenant: "acme"}),
	})
	for _, call := range []*skill.Call{
		{Skill: "mail.send", Args: map[string]any{"to": "bob"}},
		{Skill: "mail.send", Args: map[string]any{"to": "nobody"}},
		{Skill: "mail.send"},
		{Skill: "get_skill"},
	} {
		x.Execute(t.Context(), call, nil)
	}
	x.Wait()
	b.done()
	want := []string{"r: mail.send error Failed to execute 'mail.send': There is no such box.", "r: mail.send ok sent"}
	if diff := gocmp.Diff(want, h.heard()); diff != "" {
		t.Error(diff)
	}
}
