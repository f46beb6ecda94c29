package tasks_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = bytes.Repeat([]byte{7}, tasks.KeySize)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	submitted = a2apb.TaskState_TASK_STATE_SUBMITTED
	working   = a2apb.TaskState_TASK_STATE_WORKING
	input     = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
)

// reader may read all of its tenant.
func reader(name string) mesh.Principal {
	return mesh.Principal{User: name, Roles: []mesh.Role{mesh.RoleReader}}
}

// users open, and agents have, every other task each.
var users = [2]string{"ann", "bob"}

var agents = [2]string{"main", "smith"}

// A world is a log and an index over it.
type world struct {
	t     rapid.TB
	store threadlog.Backend
	log   *threadlog.Log // that the index reads
	other *threadlog.Log // of another node, if there is one: every other thing happens there
	moved int
	index *tasks.Index
	made  int
}

func newWorld(t rapid.TB) *world {
	store := mem.Open()
	w := &world{t: t, store: store, log: threadlog.New(store, threadlog.WithClock(func() time.Time { return begin }))}
	w.index = w.newIndex(key)
	return w
}

func (w *world) newIndex(key []byte) *tasks.Index {
	x, err := tasks.New(w.log, key, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

// either is the log of the node at which the next thing happens.
func (w *world) either() *threadlog.Log {
	if w.moved++; w.other != nil && w.moved%2 == 0 {
		return w.other
	}
	return w.log
}

// add appends an event, which happens at the given second.
func (w *world) add(k mesh.ThreadKey, second int, x mesh.ExecutionID, b mesh.Body) {
	e := &mesh.Event{Time: begin.Add(time.Duration(second) * time.Second), Execution: x, Actor: "node", Body: b}
	opts := threadlog.AppendOptions{}
	if _, decides := mesh.ScopeOf(e); decides {
		opts.Expect = w.expect(k)
	}
	if _, err := w.either().Append(context.Background(), k, []*mesh.Event{e}, opts); err != nil {
		w.t.Fatal(err)
	}
}

// expect is the state of all scopes of the thread, so that no decision loses.
func (w *world) expect(k mesh.ThreadKey) map[mesh.Scope]mesh.Seq {
	s := thread.Fold(w.events(k))
	out := map[mesh.Scope]mesh.Seq{mesh.ThreadScope: s.LastDecision(mesh.ThreadScope)}
	for _, x := range s.Executions() {
		out[mesh.Scope(x.ID)] = s.LastDecision(mesh.Scope(x.ID))
	}
	return out
}

func (w *world) events(k mesh.ThreadKey) []*mesh.Event {
	events, err := w.log.Read(context.Background(), k, 0, 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	return events
}

// open opens a task.
func (w *world) open(k mesh.ThreadKey, second int) mesh.ExecutionID {
	w.made++
	id := mesh.ExecutionID(fmt.Sprintf("%s-%016x", strings.ReplaceAll(k.ID, "-", ""), w.made))
	w.add(k, second, id, mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn, Agent: agents[w.made%2], User: users[w.made%2]}})
	return id
}

func (w *world) list(q tasks.Query) tasks.Page {
	page, err := w.index.List(context.Background(), q)
	if err != nil {
		w.t.Fatalf("list %+v: %v", q, err)
	}
	return page
}

// all turns the pages of a query.
func (w *world) all(q tasks.Query) (out []tasks.Task) {
	for {
		page := w.list(q)
		if len(page.Tasks) > q.Limit || page.More && len(page.Tasks) < q.Limit {
			w.t.Fatalf("a page of %d has %d, more: %v", q.Limit, len(page.Tasks), page.More)
		}
		out = append(out, page.Tasks...)
		if !page.More {
			if page.Total != len(out) {
				w.t.Fatalf("the total is %d, and the pages have %d", page.Total, len(out))
			}
			return out
		}
		q.Token = w.index.Token(q, out[len(out)-1])
	}
}

// expected is what a query must give, from the snapshots of all tasks.
func (w *world) expected(keys []mesh.ThreadKey, q tasks.Query) []tasks.Task {
	var out []tasks.Task
	for _, k := range keys {
		events := w.events(k)
		s := thread.Fold(events)
		for _, turn := range s.Turns() {
			snap := thread.NewSnapshot(k.ID, turn.ID)
			at := turn.Ended
			if at == 0 {
				at = mesh.Seq(len(events))
			}
			for _, e := range events[turn.Opened-1 : at] {
				snap.Apply(e)
			}
			task, _ := snap.Task()
			got := tasks.Task{ID: turn.ID, Thread: k.ID, State: task.Status.State, Since: task.Status.Timestamp.AsTime(), Seq: at}
			if k.Tenant == q.Tenant && s.MayRead(q.Caller) && (q.Agent == "" || q.Agent == turn.Agent) && (q.Thread == "" || q.Thread == k.ID) && (q.State == 0 || q.State == got.State) && !got.Since.Before(q.Since) {
				out = append(out, got)
			}
		}
	}
	slices.SortFunc(out, func(a, b tasks.Task) int {
		if n := b.Since.Compare(a.Since); n != 0 {
			return n
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return out
}

// Whatever happened, and in whatever order of time, the index says what the
// tasks' own snapshots say, page by page, of all threads that were not deleted.
func TestTheIndexAgreesWithTheSnapshotsOfAllTasks(t *testing.T) {
	keys := []mesh.ThreadKey{
		{Tenant: "a", ID: mesh.NewThreadID()}, {Tenant: "a", ID: mesh.NewThreadID()}, {Tenant: "a", ID: mesh.NewThreadID()},
		{Tenant: "b", ID: mesh.NewThreadID()},
	}
	keys = append(keys, mesh.ThreadKey{Tenant: "b", ID: keys[0].ID})
	rapid.Check(t, func(rt *rapid.T) {
		store := mem.Open()
		w := &world{t: rt, log: threadlog.New(store), other: threadlog.New(store)}
		w.index = w.newIndex(key)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			k := rapid.SampledFrom(keys).Draw(rt, "thread")
			w.happen(rt, k, rapid.IntRange(0, 20).Draw(rt, "second"))
			if rapid.IntRange(0, 5).Draw(rt, "look") == 0 {
				w.compare(rt, keys)
			}
		}
		w.compare(rt, keys)
		w.index = w.newIndex(key) // as after a restart
		w.compare(rt, keys)
	})
}

func (w *world) compare(rt *rapid.T, keys []mesh.ThreadKey) {
	q := tasks.Query{
		Tenant: rapid.SampledFrom([]mesh.TenantID{"a", "b", "nobody"}).Draw(rt, "tenant"),
		Agent:  rapid.SampledFrom([]string{"", "", "main", "smith", "nobody"}).Draw(rt, "filter agent"),
		Thread: rapid.SampledFrom([]string{"", keys[0].ID, keys[1].ID, "none"}).Draw(rt, "filter thread"),
		State:  rapid.SampledFrom([]mesh.TaskState{0, 0, submitted, working, input, completed}).Draw(rt, "filter state"),
		Limit:  rapid.IntRange(1, 4).Draw(rt, "limit"),
		Caller: rapid.SampledFrom([]mesh.Principal{reader("any"), {User: "ann"}, {User: "bob"}, {User: "eve"}}).Draw(rt, "caller"),
	}
	if s := rapid.IntRange(-1, 20).Draw(rt, "since"); s >= 0 {
		q.Since = begin.Add(time.Duration(s) * time.Second)
	}
	if diff := cmp.Diff(w.expected(keys, q), w.all(q)); diff != "" {
		rt.Fatalf("%+v (-want +got):\n%s", q, diff)
	}
}

// happen lets something happen in a thread.
func (w *world) happen(rt *rapid.T, k mesh.ThreadKey, second int) {
	s := thread.Fold(w.events(k))
	pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "pick") }
	if s.Seq == 0 || pick(8) == 0 {
		w.open(k, second)
		return
	}
	if pick(12) == 0 {
		if err := w.either().Delete(context.Background(), k, threadlog.AnyPos); err != nil {
			rt.Fatal(err)
		}
		return
	}
	all := s.Executions()
	x := all[len(all)-1-pick(min(3, len(all)))]
	states := []mesh.TaskState{working, input, completed, a2apb.TaskState_TASK_STATE_FAILED}
	said := &a2apb.Message{MessageId: "m", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "hm"}}}}
	var b mesh.Body
	switch pick(9) {
	case 0:
		w.made++
		b = mesh.DispatchIssued{Child: mesh.Execution{ID: mesh.ExecutionID(fmt.Sprint("x", w.made)), Parent: x.ID, Kind: mesh.KindAgent, Agent: "main"}}
	case 1, 2:
		b = mesh.TaskMoved{State: states[pick(len(states))], Message: said}
	case 3:
		b = mesh.HandoffStarted{From: "main", To: "other"}
	case 4:
		b = mesh.HandoffEnded{Started: s.Seq}
	case 6:
		b = mesh.ThreadShared{Readable: pick(2) == 0, Participants: [][]string{nil, {"bob"}, {"bob", "eve"}}[pick(3)]}
	case 5:
		b = mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "a"}}
	case 8:
		b = mesh.ModelReplied{Model: "m", Usage: mesh.Usage{Prompt: int64(1 + pick(9)), Cost: 0.001}}
	default:
		b = mesh.MessagePosted{Message: said, User: "ann"}
	}
	w.add(k, second, x.ID, b)
}

// A token goes on where the page before ended, for the same list alone, also
// after a restart.
func TestAPageTokenBelongsToItsListAndCaller(t *testing.T) {
	w := newWorld(t)
	k := mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}
	for i := range 5 {
		w.open(k, i)
	}
	q := tasks.Query{Tenant: "a", Caller: reader("ann"), Limit: 2}
	first := w.list(q)
	token := w.index.Token(q, first.Tasks[1])
	flip := []byte(token)
	flip[len(flip)/2] ^= 1
	later := func(q tasks.Query) tasks.Query { q.Since = begin; return q }(q)
	for name, tt := range map[string]struct {
		query tasks.Query
		token string
		index *tasks.Index
		ok    bool
	}{
		"the same list":         {q, token, w.index, true},
		"with another limit":    {tasks.Query{Tenant: "a", Caller: reader("ann"), Limit: 9}, token, w.index, true},
		"after a restart":       {q, token, w.newIndex(key), true},
		"of another store":      {q, token, w.newIndex(bytes.Repeat([]byte{8}, tasks.KeySize)), false},
		"of another tenant":     {tasks.Query{Tenant: "b", Caller: reader("ann"), Limit: 2}, token, w.index, false},
		"of another caller":     {tasks.Query{Tenant: "a", Caller: reader("bob"), Limit: 2}, token, w.index, false},
		"with another state":    {tasks.Query{Tenant: "a", Caller: reader("ann"), Limit: 2, State: working}, token, w.index, false},
		"with another thread":   {tasks.Query{Tenant: "a", Caller: reader("ann"), Limit: 2, Thread: k.ID}, token, w.index, false},
		"with an agent":         {tasks.Query{Tenant: "a", Caller: reader("ann"), Limit: 2, Agent: "main"}, token, w.index, false},
		"with another time":     {later, token, w.index, false},
		"forged":                {q, string(flip), w.index, false},
		"cut":                   {q, token[:10], w.index, false},
		"not base64":            {q, "%%%", w.index, false},
		"spelled differently":   {q, token + "\n", w.index, false},
		"endless":               {q, strings.Repeat("A", 1<<20), w.index, false},
		"made up by the client": {q, "MTIz", w.index, false},
	} {
		tt.query.Token = tt.token
		page, err := tt.index.List(t.Context(), tt.query)
		if tt.ok {
			if err != nil || page.Total != 5 || page.Tasks[0].ID == first.Tasks[1].ID || len(page.Tasks) != min(3, tt.query.Limit) {
				t.Errorf("%s: %+v, %v", name, page, err)
			}
			continue
		}
		if !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != "page_token" || len(page.Tasks) > 0 {
			t.Errorf("%s: %+v, %v; want Invalid for page_token", name, page, err)
		}
	}
	if raw, err := base64.RawURLEncoding.DecodeString(token); err != nil || bytes.Contains(raw, []byte(first.Tasks[1].ID)) {
		t.Errorf("the token shows what it is made of: %q, %v", raw, err)
	}
	if a, b := w.index.Token(q, first.Tasks[0]), w.index.Token(q, first.Tasks[0]); a == b {
		t.Error("two tokens for the same place are the same: readers could tell places by them")
	}
}

// No text that the index did not make is a token. The key is this process's
// own: the fuzzer's other processes have seeds of tokens that are not its own.
func FuzzPageToken(f *testing.F) {
	w := newWorld(f)
	own := make([]byte, tasks.KeySize)
	if _, err := rand.Read(own); err != nil {
		f.Fatal(err)
	}
	w.index = w.newIndex(own)
	k := mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}
	w.open(k, 1)
	q := tasks.Query{Tenant: "a", Caller: reader("any"), Limit: 1}
	token := w.index.Token(q, w.list(q).Tasks[0])
	f.Add(token)
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		q.Token = s
		if _, err := w.index.List(t.Context(), q); (err == nil) != (s == "" || s == token) {
			t.Errorf("token %q: %v", s, err)
		}
	})
}

// A list after an acknowledged event has it, whoever else writes and reads,
// with and without somebody who keeps the index.
func TestAListHasWhatWasAcknowledgedBefore(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running, writing sync.WaitGroup
	running.Go(func() {
		if err := w.index.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for n := range 6 {
		writing.Go(func() {
			w := &world{t: t, log: w.log, index: w.index, made: n * 1000}
			k := mesh.ThreadKey{Tenant: mesh.TenantID([]string{"a", "b"}[n%2]), ID: mesh.NewThreadID()}
			for i := range 30 {
				id := w.open(k, i)
				if got := w.list(tasks.Query{Tenant: k.Tenant, Caller: reader("any"), Thread: k.ID, Limit: 1}); got.Total != i+1 || got.Tasks[0].ID != id {
					t.Errorf("after task %d: %+v", i, got)
				}
				w.add(k, i, id, mesh.TaskMoved{State: completed})
				if got := w.list(tasks.Query{Tenant: k.Tenant, Caller: reader("any"), Thread: k.ID, State: completed, Limit: 1}); got.Total != i+1 {
					t.Errorf("after task %d was completed, %d are", i, got.Total)
				}
				if _, err := w.log.Append(ctx, k, []*mesh.Event{{Execution: id, Body: mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "x"}}}}, threadlog.AppendOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	cancel()
	running.Wait()
}

// Run reads what happened, in bulk, and ends when it is told to.
func TestRunKeepsTheIndexNearTheEndOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		counted := &counting{Backend: mem.Open()}
		w.log = threadlog.New(counted)
		w.index = w.newIndex(key)
		k := mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}
		w.open(k, 0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.index.Run(ctx) }() // received below
		time.Sleep(time.Second)
		for i := range 1000 {
			w.open(k, i)
		}
		time.Sleep(time.Second)
		scans := counted.count()
		if got := w.list(tasks.Query{Tenant: "a", Caller: reader("any"), Limit: 1}); got.Total != 1001 || counted.count() != scans {
			t.Errorf("the list has %d tasks and read the log %d times, which Run had done", got.Total, counted.count()-scans)
		}
		if scans > 20 {
			t.Errorf("Run read the log %d times for 1000 events", scans)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// counting counts the scans of a store, and fails them when told to.
type counting struct {
	threadlog.Backend
	mu    sync.Mutex
	n     int
	fails error
}

func (c *counting) count() int { c.mu.Lock(); defer c.mu.Unlock(); return c.n }

func (c *counting) Scan(ctx context.Context, after mesh.Pos, limit int) ([]threadlog.Record, error) {
	c.mu.Lock()
	c.n++
	err := c.fails
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return c.Backend.Scan(ctx, after, limit)
}

// A narrow store tells of one record at a time.
type narrow struct{ threadlog.Backend }

func (n narrow) Scan(ctx context.Context, after mesh.Pos, _ int) ([]threadlog.Record, error) {
	return n.Backend.Scan(ctx, after, 1)
}

// A page of the log has as many events as fit, which may be one.
func TestAListReadsPagesOfAnySize(t *testing.T) {
	w := newWorld(t)
	w.log = threadlog.New(narrow{mem.Open()})
	w.index = w.newIndex(key)
	for range 3 {
		w.open(mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}, 0)
	}
	if got := w.list(tasks.Query{Tenant: "a", Caller: reader("any"), Limit: 9}); got.Total != 3 {
		t.Errorf("it has %d tasks of 3", got.Total)
	}
}

func TestAListThatCannotReadTheLogFailsAndTheNextOneIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store := &counting{Backend: mem.Open(), fails: mesh.Errorf(mesh.Unavailable, "store.Scan", "the disk is away")}
		w.log = threadlog.New(store)
		w.open(mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}, 0)
		w.log = threadlog.New(store) // that of a node which did not write it
		w.index = w.newIndex(key)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.index.Run(ctx) }() // received below
		q := tasks.Query{Tenant: "a", Caller: reader("any"), Limit: 1}
		if _, err := w.index.List(t.Context(), q); !mesh.IsCode(err, mesh.Unavailable) {
			t.Errorf("got %v", err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := w.index.List(ended, q); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that ended: %v", err)
		}
		store.mu.Lock()
		store.fails = nil
		store.mu.Unlock()
		if got := w.list(q); got.Total != 1 {
			t.Errorf("then it has %d tasks", got.Total)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestAKeyOfAnotherLengthIsRefused(t *testing.T) {
	if _, err := tasks.New(threadlog.New(mem.Open()), key[:16], nil); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkList lists a page of the newest of 10,000 tasks.
func BenchmarkList(b *testing.B) {
	w := newWorld(b)
	for i := range 1000 {
		k := mesh.ThreadKey{Tenant: "a", ID: mesh.NewThreadID()}
		for range 10 {
			w.add(k, i, w.open(k, i), mesh.TaskMoved{State: completed})
		}
	}
	q := tasks.Query{Tenant: "a", Caller: reader("any"), Limit: 50}
	for b.Loop() {
		w.list(q)
	}
}
