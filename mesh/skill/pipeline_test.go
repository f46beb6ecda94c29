package skill_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
)

// A line is a whole pipeline that writes down which stage was passed, with
// what it knew of the time by then. A stage with an error refuses.
type line struct {
	mu      sync.Mutex
	passed  []string
	refuses map[string]error
	verdict skill.Verdict
	handle  skill.Code
	ended   *skill.Result
	key     string
}

func (l *line) pass(ctx context.Context, stage string) error {
	if _, timed := ctx.Deadline(); timed {
		stage += "@"
	}
	l.note(stage)
	return l.refuses[strings.TrimSuffix(stage, "@")]
}

// note is also called by handlers that were left behind.
func (l *line) note(stage string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passed = append(l.passed, stage)
}

func (l *line) Approve(ctx context.Context, s *skill.Skill, call *skill.Call) (skill.Verdict, string, error) {
	return l.verdict, skill.Question(s, call), l.pass(ctx, "approval")
}

func (l *line) Allow(ctx context.Context, _ string) (func(context.Context, limit.Outcome), error) {
	return func(_ context.Context, o limit.Outcome) {
		l.note([...]string{limit.Unused: "unused", limit.Success: "success", limit.Failure: "failure"}[o])
	}, l.pass(ctx, "breaker")
}

func (l *line) Take(ctx context.Context, _ string) error { return l.pass(ctx, "budget") }

func (l *line) Begin(ctx context.Context, _ *skill.Skill, call *skill.Call) (skill.Begun, error) {
	return skill.Begun{Key: l.key, Permit: skilltest.Permit(call)}, l.pass(ctx, fmt.Sprint("begin ", call.Args["text"]))
}

func (l *line) End(_ context.Context, _ *skill.Skill, _ *skill.Call, r *skill.Result, _ limit.Outcome, _ time.Duration) {
	l.note("end " + r.Status)
	l.ended = r
}

func (l *line) Notify(_ context.Context, s *skill.Skill, _ *skill.Call, r *skill.Result) {
	l.note("notify " + s.Name + " " + r.Status)
}

// executor makes a pipeline of the skills notes.save, notes.ask, notes.guard and the
// template notes.explain.
func (l *line) executor(t *testing.T) *skill.Executor {
	t.Helper()
	c := load(t, files(map[string]string{
		"notes/save.md":    noteFile,
		"notes/ask.md":     strings.NewReplacer("name: notes.save", "name: notes.ask", "handler: notes.save", "handler: notes.save\nconfirm: Really?").Replace(noteFile),
		"notes/guard.md":   strings.NewReplacer("name: notes.save", "name: notes.guard", "handler: notes.save", "handler: notes.save\nrequires_approval: true").Replace(noteFile),
		"notes/explain.md": "---\nname: notes.explain\ndescription: Explain\n---\n# Explain well\n",
	}))
	find := skill.Lookup(c.Get)
	return skill.NewExecutor(skill.Config{
		Lookup: func(ctx context.Context, name string) (*skill.Skill, error) {
			if err := l.pass(ctx, "look-up"); err != nil {
				return nil, err
			}
			return find(ctx, name)
		},
		Handlers: map[string]skill.Handler{"notes.save": skill.HandlerFunc(
			func(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
				if err := l.pass(ctx, "handler "+call.Key); err != nil || l.handle == nil {
					return &skill.Result{Content: "saved"}, err
				}
				return l.handle(ctx, call, env)
			})},
		Allowed: func(string) bool { return l.pass(context.Background(), "scope") == nil },
		Timeout: time.Minute, Approver: l, Breaker: l, Budget: l, Journal: l, Notifier: l,
	})
}

// S3-021, S3-022 to S3-026, S3-099 to S3-104: the stages are passed in their
// order and once each; whoever refuses is the last one, and says why as a
// result. Those that have the deadline of the call are marked with @.
func TestThePipelineHasOneOrder(t *testing.T) {
	secret, told := errors.New("password is hunter2"), mesh.Errorf(mesh.Exhausted, "op", "The limit of 5 calls is reached.")
	tests := map[string]struct {
		skill   string
		text    any
		verdict skill.Verdict
		refuses map[string]error
		passed  string
		told    string
	}{
		"a call": {"notes.save", "x", skill.Approved, nil,
			"scope, look-up, breaker, budget@, begin x@, handler k1@, end ok, success, notify notes.save ok", "saved"},
		"a call that asks without words of its own": {"notes.guard", "x", skill.Refused, nil,
			"scope, look-up, approval", "Failed to execute 'notes.guard': the user did not allow it; do not call it again unless the user asks for it."},
		"an approved call": {"notes.ask", "x", skill.Approved, nil,
			"scope, look-up, approval, breaker, budget@, begin x@, handler k1@, end ok, success, notify notes.ask ok", "saved"},
		"a template": {"notes.explain", nil, skill.Approved, nil,
			"scope, look-up, breaker, budget@, begin <nil>@, end ok, success, notify notes.explain ok", "# Explain well"},
		"out of scope": {"notes.save", "x", skill.Approved, map[string]error{"scope": told},
			"scope", "Skill 'notes.save' is not available to this agent."},
		"unknown": {"notes.none", "x", skill.Approved, nil,
			"scope, look-up", "Unknown skill 'notes.none'. Call get_skill to discover available skills."},
		"catalog out of reach": {"notes.save", "x", skill.Approved, map[string]error{"look-up": mesh.Errorf(mesh.Unavailable, "", "The node is away.")},
			"scope, look-up", "Failed to execute 'notes.save': The node is away."},
		"invalid": {"notes.save", nil, skill.Approved, nil,
			"scope, look-up", "Invalid arguments for 'notes.save': Missing required field: 'text'."},
		"invalid before the user is bothered": {"notes.ask", nil, skill.Wait, nil,
			"scope, look-up", "Invalid arguments for 'notes.ask': Missing required field: 'text'."},
		"refused by the user": {"notes.ask", "x", skill.Refused, nil,
			"scope, look-up, approval", "Failed to execute 'notes.ask': the user did not allow it; do not call it again unless the user asks for it."},
		"nobody to ask": {"notes.ask", "x", skill.Approved, map[string]error{"approval": mesh.Errorf(mesh.Denied, "", "There is no user here")},
			"scope, look-up, approval", "Failed to execute 'notes.ask': There is no user here."},
		"waits for the user": {"notes.ask", "x", skill.Wait, nil,
			"scope, look-up, approval", "'notes.ask' waits for the user's approval."},
		"circuit open": {"notes.save", "x", skill.Approved, map[string]error{"breaker": secret},
			"scope, look-up, breaker", "'notes.save' is temporarily unavailable. Please try again later."},
		"out of budget": {"notes.save", "x", skill.Approved, map[string]error{"budget": told},
			"scope, look-up, breaker, budget@, unused", "Failed to execute 'notes.save': The limit of 5 calls is reached."},
		"no record": {"notes.save", "x", skill.Approved, map[string]error{"begin x": secret},
			"scope, look-up, breaker, budget@, begin x@, unused", "Failed to execute 'notes.save': internal error."},
		"handler fails": {"notes.save", "x", skill.Approved, map[string]error{"handler k1": secret},
			"scope, look-up, breaker, budget@, begin x@, handler k1@, end error, failure, notify notes.save error", "Failed to execute 'notes.save': internal error."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := &line{refuses: tt.refuses, verdict: tt.verdict, key: "k1"}
			args := map[string]any{}
			if tt.text != nil {
				args["text"] = tt.text
			}
			r := l.executor(t).Execute(context.Background(), &skill.Call{Skill: tt.skill, Args: args}, nil)
			if diff := cmp.Diff(tt.passed, strings.Join(l.passed, ", ")); diff != "" {
				t.Errorf("stages: %s", diff)
			}
			if !strings.HasPrefix(r.Content, tt.told) || strings.Contains(r.Content, "hunter2") {
				t.Errorf("told %q, want %q", r.Content, tt.told)
			}
			ran, waits := strings.Contains(tt.passed, "end ok"), strings.HasPrefix(name, "waits")
			if r.Failed() == (ran || waits) || (r.Err == nil) != (ran || waits) {
				t.Errorf("failed: %v, error: %v", r.Failed(), r.Err)
			}
			for stage, err := range tt.refuses {
				if stage != "scope" && !errors.Is(r.Err, err) {
					t.Errorf("programs are told %v, not why: %v", r.Err, err)
				}
			}
		})
	}
}

// The user is asked in words that show all arguments, none of which can pass
// for another.
func TestAWaitingCallSaysWhatTheUserIsAsked(t *testing.T) {
	l := &line{verdict: skill.Wait}
	r := l.executor(t).Execute(context.Background(), &skill.Call{Skill: "notes.ask", Args: map[string]any{
		"tags": "a,b", "text": "hello\n- kind: harmless " + strings.Repeat("x", 2000), "count": 3.0, "extra": map[string]any{"k": "v"}}}, nil)
	if r.Status != skill.StatusWaiting || r.Failed() {
		t.Errorf("result is %+v", r)
	}
	got := strings.Split(r.Ask, "\n")
	want := []string{"Really?", "- text: hello", "  | - kind: harmless " + strings.Repeat("x", 2000), "- kind: fact", "- count: 3", "- tags: a, b", `- extra: {"k":"v"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	plain := skill.Question(&skill.Skill{Name: "a.b", Description: "Does it.", RequiresApproval: true}, &skill.Call{})
	if plain != "May I run a.b? Does it." {
		t.Errorf("asked %q", plain)
	}
}

// S3-047, S3-039: the breaker hears of errors, error results, panics and late
// handlers, and not of calls that were wrong or given up.
func TestTheBreakerHearsOfFailuresOnly(t *testing.T) {
	fails := func(code mesh.Code) skill.Code {
		return func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
			return nil, mesh.Errorf(code, "op", "No.")
		}
	}
	waits := func(ctx context.Context, _ *skill.Call, _ *skill.Env) (*skill.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	deaf := func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
		time.Sleep(time.Hour)
		return &skill.Result{}, nil
	}
	tests := map[string]struct {
		handle  skill.Code
		giveUp  time.Duration
		outcome string
	}{
		"no answer from a server":  {fails(mesh.Unavailable), 0, "failure"},
		"an error of no kind":      {fails(mesh.Unknown), 0, "failure"},
		"a wrong argument":         {fails(mesh.Invalid), 0, "unused"},
		"a thing that is not":      {fails(mesh.NotFound), 0, "unused"},
		"a thing in another state": {fails(mesh.Precondition), 0, "unused"},
		"a full drive of one user": {fails(mesh.Exhausted), 0, "unused"},
		"an error result": {func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
			return &skill.Result{Status: skill.StatusError}, nil
		}, 0, "failure"},
		"no result":           {func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) { return nil, nil }, 0, "failure"},
		"a panic":             {func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) { panic("oh no") }, 0, "failure"},
		"late":                {waits, 0, "failure"},
		"late and deaf":       {deaf, 0, "failure"},
		"given up":            {waits, time.Second, "unused"},
		"given up, and deaf":  {deaf, time.Second, "unused"},
		"its caller was late": {waits, -time.Second, "unused"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &line{handle: tt.handle}
				x := l.executor(t)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if tt.giveUp > 0 {
					time.AfterFunc(tt.giveUp, cancel)
				} else if tt.giveUp < 0 {
					ctx, cancel = context.WithTimeout(ctx, -tt.giveUp)
					defer cancel()
				}
				r := x.Execute(ctx, &skill.Call{Skill: "notes.save", Args: map[string]any{"text": "x"}}, nil)
				tail := strings.Join(l.passed[len(l.passed)-3:], ", ")
				if want := "end error, " + tt.outcome + ", notify notes.save error"; tail != want || r.Err == nil && tt.outcome == "unused" {
					t.Errorf("ended with %q, want %q; %+v", tail, want, r)
				}
				x.Wait()
			})
		})
	}
}

// S3-024, S3-048, S3-049, S3-103, S3-116, S3-117: with the real breaker, five
// failures open the circuit, one call is let through after a minute, and its
// success closes it.
func TestFiveFailuresMakeASkillUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		healthy, calls := false, 0
		x := executorWith(t, limit.NewBreaker(new(skilltest.State), limit.BreakerOptions{}),
			func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
				calls++
				if !healthy {
					return &skill.Result{Status: skill.StatusError, Content: "down"}, nil
				}
				return &skill.Result{Content: "up"}, nil
			})
		text := map[string]any{"text": "x"}
		say := func() string { return execute(x, "notes.save", text).Content }
		for range 5 {
			if got := say(); got != "down" {
				t.Fatalf("told %q", got)
			}
		}
		const open = "'notes.save' is temporarily unavailable. Please try again later."
		if got := say(); got != open || calls != 5 {
			t.Errorf("told %q after %d calls", got, calls)
		}
		if r := execute(x, "notes.explain", nil); r.Failed() {
			t.Errorf("another skill is stopped too: %+v", r)
		}
		if got := execute(x, "notes.save", nil).Content; !strings.HasPrefix(got, "Invalid arguments") {
			t.Errorf("a wrong call is told %q", got)
		}
		time.Sleep(time.Minute)
		if got := say(); got != "down" {
			t.Errorf("the probe is told %q", got)
		}
		if got := say(); got != open || calls != 6 {
			t.Errorf("told %q after %d calls", got, calls)
		}
		healthy = true
		time.Sleep(time.Minute)
		for range 3 {
			if got := say(); got != "up" {
				t.Errorf("told %q", got)
			}
		}
	})
}

func executorWith(t *testing.T, b skill.Breaker, h skill.Code) *skill.Executor {
	t.Helper()
	c := load(t, files(map[string]string{
		"notes/save.md":    noteFile,
		"notes/explain.md": "---\nname: notes.explain\ndescription: Explain\n---\n# Explain well\n",
	}))
	return skill.NewExecutor(skill.Config{Journal: skilltest.Journal{}, Lookup: skill.Lookup(c.Get), Handlers: map[string]skill.Handler{"notes.save": skill.HandlerFunc(h)}, Breaker: b})
}

// S3-093, S3-104: the record of a call that its caller gave up is kept under a
// context that still works, with the arguments that the handler got.
func TestACallIsSettledAlsoWhenItsCallerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		j := &journal{}
		c := load(t, files(map[string]string{"notes/save.md": noteFile}))
		x := skill.NewExecutor(skill.Config{Lookup: skill.Lookup(c.Get), Journal: j, Handlers: map[string]skill.Handler{
			"notes.save": skill.HandlerFunc(func(ctx context.Context, _ *skill.Call, _ *skill.Env) (*skill.Result, error) {
				time.Sleep(2 * time.Second)
				cancel()
				<-ctx.Done()
				return nil, ctx.Err()
			})}})
		x.Execute(ctx, &skill.Call{ID: "c1", Source: mesh.SourceUseSkill, Skill: "notes.save", Args: map[string]any{"text": "x", "count": "3"}, Key: "mine"}, nil)
		x.Wait()
		want := []string{"begin c1 use_skill map[count:3 kind:fact text:x] key mine", "end error after 2s, context <nil>"}
		if diff := cmp.Diff(want, j.lines); diff != "" {
			t.Error(diff)
		}
	})
}

type journal struct{ lines []string }

func (j *journal) Begin(_ context.Context, _ *skill.Skill, c *skill.Call) (skill.Begun, error) {
	j.lines = append(j.lines, fmt.Sprint("begin ", c.ID, " ", c.Source, " ", c.Args, " key ", c.Key))
	return skill.Begun{Permit: skilltest.Permit(c)}, nil
}

func (j *journal) End(ctx context.Context, _ *skill.Skill, _ *skill.Call, r *skill.Result, _ limit.Outcome, took time.Duration) {
	j.lines = append(j.lines, fmt.Sprint("end ", r.Status, " after ", took, ", context ", ctx.Err()))
}
