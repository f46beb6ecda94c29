//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// A checker looks at a mesh that is up, and enters what is wrong.
type checker struct {
	m *target
	l *ledger
}

// touched looks at some threads that clients have used since the last look.
func (k checker) touched(ctx context.Context, most int) {
	k.l.mu.Lock()
	threads := slices.Sorted(maps.Keys(k.l.touched))
	k.l.touched = map[string]bool{}
	k.l.mu.Unlock()
	for _, id := range threads[:min(most, len(threads))] {
		if _, err := k.thread(ctx, id); err != nil {
			return // it went away again
		}
	}
}

// thread reads a whole thread: what was there before is there, unchanged, and
// the Seqs have no gap.
func (k checker) thread(ctx context.Context, id string) ([]*meshv1.Event, error) {
	at, err := k.m.use(ctx)
	if err != nil {
		return nil, err
	}
	var all []*meshv1.Event
	for more := true; more; {
		page, err := meshv1.NewThreadServiceClient(at.conn).ReadThread(outgoing(ctx, id), &meshv1.ReadThreadRequest{ThreadId: id, AfterSeq: int64(len(all)), Limit: 1000})
		if err != nil {
			if err := answered(err); errors.As(err, new(*refusal)) {
				k.l.fault("thread %s cannot be read: %v", id, err)
			}
			return nil, err
		}
		all, more = append(all, page.GetEvents()...), page.GetMore()
	}
	sums := make([]uint64, len(all))
	for i, e := range all {
		if sums[i] = sum(e); e.GetSeq() != int64(i+1) {
			k.l.fault("thread %s: event %d has the seq %d", id, i+1, e.GetSeq())
		}
	}
	k.l.mu.Lock()
	before := k.l.events[id]
	if len(sums) >= len(before) {
		k.l.events[id] = sums
	}
	k.l.mu.Unlock()
	if len(sums) < len(before) || !slices.Equal(sums[:len(before)], before) {
		k.l.fault("thread %s had %d events and has %d, and some are lost or changed", id, len(before), len(sums))
	}
	k.l.count("compared events", len(before))
	return all, nil
}

// all looks at everything, of a mesh that nobody uses any more.
func (k checker) all(ctx context.Context, dir string) {
	at, err := k.m.use(ctx)
	if err != nil {
		k.l.fault("the mesh is not there: %v", err)
		return
	}
	k.l.mu.Lock()
	turns := k.l.turns
	k.l.mu.Unlock()
	listed := k.listed(ctx, at)
	had := k.effects(ctx, at, dir)
	logs := map[string][]*meshv1.Event{}
	for _, t := range turns {
		if logs[t.thread] == nil {
			if logs[t.thread], err = k.thread(ctx, t.thread); err != nil {
				k.l.fault("thread %s cannot be read: %v", t.thread, err)
				continue
			}
			k.ended(t.thread, logs[t.thread])
		}
		k.posted(t, logs[t.thread])
		k.replayed(ctx, at, t)
		k.read(ctx, at, t, listed[t.task])
		k.called(ctx, at, t, logs[t.thread], had)
	}
	k.l.count("threads", len(logs))
	k.l.count("conversations' turns", len(turns))
}

// posted checks that each message that was acknowledged is there once.
func (k checker) posted(t *turn, events []*meshv1.Event) {
	for _, id := range t.messages {
		n := 0
		for _, e := range events {
			if p := e.GetMessagePosted(); p.GetMessage().GetMessageId() == id && e.GetExecutionId() == t.task {
				n++
			}
		}
		switch {
		case n == 0:
			k.l.count("lost messages", 1)
			k.l.fault("message %s of %s was acknowledged and is lost", id, t.plan)
		case n > 1:
			k.l.count("doubled messages", 1)
			k.l.fault("message %s of %s is there %d times", id, t.plan, n)
		}
	}
}

// ended checks that every turn has ended or waits, also those of messages whose
// acknowledgement was lost.
func (k checker) ended(thread string, events []*meshv1.Event) {
	state := map[string]a2apb.TaskState{}
	for _, e := range events {
		if e.GetTaskOpened() != nil {
			state[e.GetExecutionId()] = a2apb.TaskState_TASK_STATE_SUBMITTED
		}
		was, turn := state[e.GetExecutionId()]
		if s := e.GetTaskMoved(); turn && s != nil {
			if mesh.Terminal(was) {
				k.l.fault("task %s moved after its end", e.GetExecutionId())
			}
			state[e.GetExecutionId()] = s.GetState()
		}
	}
	for id, s := range state {
		if !mesh.Terminal(s) && !mesh.Interrupted(s) {
			k.l.fault("task %s in %s is %v for ever", id, thread, s)
		}
	}
}

// replayed reads all updates of the task again, from where the client began, by
// both ways: they are those that it had seen.
func (k checker) replayed(ctx context.Context, at *address, t *turn) {
	for _, w := range []way{overGRPC{}, overREST{}} {
		again := map[int64]uint64{}
		if len(t.seen) > 0 { // else it ended before the client heard of it
			s, err := w.subscribe(ctx, at, t.task, t.first)
			if err != nil {
				k.l.fault("%s (task %s) cannot be replayed: %v", t.plan, t.task, err)
				return
			}
			r := &turn{plan: "the replay of " + t.plan, last: t.first, seen: again}
			c := &client{l: k.l}
			for first := true; ; first = false {
				u, err := s.next()
				if err != nil {
					if !errors.Is(err, io.EOF) {
						k.l.fault("the replay of %s (task %s) broke: %v", t.plan, t.task, err)
					}
					break
				}
				if !first && !c.see(r, u) && mesh.Terminal(r.state) {
					break
				}
			}
			s.close()
		}
		if !maps.Equal(again, t.seen) {
			k.l.count("changed updates", 1)
			k.l.fault("%s (task %s) had the updates %v, and in its replay %v", t.plan, t.task, slices.Sorted(maps.Keys(t.seen)), slices.Sorted(maps.Keys(again)))
		}
		k.l.count("compared updates", len(t.seen))
	}
}

// listed returns all tasks as they are listed.
func (k checker) listed(ctx context.Context, at *address) map[string]*a2apb.Task {
	all := map[string]*a2apb.Task{}
	for token := ""; ; {
		size := int32(100)
		page, err := a2apb.NewA2AServiceClient(at.conn).ListTasks(ctx, &a2apb.ListTasksRequest{PageSize: &size, PageToken: token})
		if err != nil {
			k.l.fault("tasks cannot be listed: %v", err)
			return all
		}
		for _, t := range page.GetTasks() {
			if all[t.GetId()] != nil {
				k.l.fault("task %s is listed twice", t.GetId())
			}
			all[t.GetId()] = t
		}
		if token = page.GetNextPageToken(); token == "" {
			return all
		}
	}
}

// read checks that GetTask and ListTasks agree with each other and with the
// last update.
func (k checker) read(ctx context.Context, at *address, t *turn, listed *a2apb.Task) {
	task, err := a2apb.NewA2AServiceClient(at.conn).GetTask(outgoing(ctx, t.thread), &a2apb.GetTaskRequest{Id: t.task})
	if err != nil {
		k.l.fault("%s (task %s) cannot be read: %v", t.plan, t.task, err)
		return
	}
	if s := task.GetStatus().GetState(); s != t.state {
		k.l.fault("%s (task %s) ended as %v, and GetTask says %v", t.plan, t.task, t.state, s)
	}
	if got, want := protojson.Format(listed.GetStatus()), protojson.Format(task.GetStatus()); got != want {
		k.l.fault("task %s is listed as %s, and GetTask says %s", t.task, got, want)
	}
}

// called checks each step: it was called at most once; a call that came back had
// its effect once; one that did not is listed as unsettled, and had it once at
// most; and without a call, or without the user's yes, there is none.
func (k checker) called(ctx context.Context, at *address, t *turn, events []*meshv1.Event, had map[string]int) {
	resp, err := meshv1.NewThreadServiceClient(at.conn).GetThread(outgoing(ctx, t.thread), &meshv1.GetThreadRequest{ThreadId: t.thread})
	if err != nil {
		k.l.fault("thread %s cannot be read: %v", t.thread, err)
		return
	}
	for i, kind := range t.steps {
		name, calls, back, failed, call, execution := word(t.plan, i), 0, 0, false, "", ""
		if had[name] == unseen {
			continue
		}
		for _, e := range events {
			if c := e.GetSkillCalled(); c != nil && slices.Contains(words.FindAllString(c.GetArgs(), -1), name) {
				calls, call, execution = calls+1, c.GetCall(), e.GetExecutionId()
			}
			if r := e.GetSkillReturned(); r != nil && calls > 0 && r.GetCall() == call && e.GetExecutionId() == execution {
				back, failed = back+1, r.GetFailed()
			}
		}
		unsettled := false
		for _, x := range resp.GetThread().GetExecutions() {
			if _, open := x.GetUnsettled()[call]; open && x.GetExecution().GetId() == execution {
				unsettled = true
			}
		}
		n := had[name]
		k.l.count("effects", n)
		k.l.count("calls", calls)
		if calls > back {
			k.l.count("unsettled calls", 1)
		}
		wrong := ""
		switch {
		case n > 1:
			k.l.count("doubled effects", n-1)
			wrong = "had its effect more than once"
		case calls > 1 || back > 1:
			wrong = "was made again"
		case calls == 0 && n > 0, kind == "mail" && n > 0 && !slices.Contains(t.approved, name):
			wrong = "had an effect that nobody logged or approved"
		case back == 1 && !failed && n == 0:
			k.l.count("lost effects", 1)
			wrong = "came back and had no effect"
		case calls > back != unsettled:
			wrong = "is not listed as what it is"
		}
		if wrong != "" {
			k.l.fault("step %s (%s) of task %s %s: %d calls, %d returns (failed: %v, unsettled: %v), %d effects", name, kind, t.task, wrong, calls, back, failed, unsettled, n)
		}
	}
}

var words = regexp.MustCompile(`p\w+x\d+`)

// Memories are looked for one by one, which takes time: only so many are.
const (
	mostMemories = 100
	unseen       = -1
)

// effects counts what the steps left, by their words.
func (k checker) effects(ctx context.Context, at *address, dir string) map[string]int {
	had := map[string]int{}
	for pattern, line := range map[string]string{"outbox/*.eml": "Subject: ", "calendar/*.ics": "SUMMARY:", "files/default/chaos-*.txt": ""} {
		files, err := filepath.Glob(filepath.Join(dir, "data", pattern))
		if err != nil {
			k.l.fault("%v", err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				k.l.fault("%v", err)
			}
			for text := range strings.Lines(string(data)) {
				if strings.HasPrefix(text, line) {
					for _, w := range words.FindAllString(text, -1) {
						had[w]++
					}
				}
			}
		}
	}
	const page = 50
	for offset := 0; ; offset += page {
		text := k.run(ctx, at, "tasks.search", map[string]any{"status": []any{"all"}, "limit": page, "offset": offset})
		found := words.FindAllString(text, -1)
		for _, w := range found {
			had[w]++
		}
		if len(found) == 0 {
			break
		}
	}
	k.l.mu.Lock()
	turns := k.l.turns
	k.l.mu.Unlock()
	asked := 0
	for _, t := range turns {
		for i, kind := range t.steps {
			w := word(t.plan, i)
			if kind == "memory" && asked == mostMemories {
				had[w] = unseen
			} else if kind == "memory" {
				asked++
				text := k.run(ctx, at, "memory.search", map[string]any{"query": w, "limit": 20})
				had[w] += len(regexp.MustCompile(`likes `+w+`\b`).FindAllString(text, -1))
			}
		}
	}
	return had
}

// run runs a skill and returns what it says.
func (k checker) run(ctx context.Context, at *address, name string, args map[string]any) string {
	values, err := structpb.NewStruct(args)
	if err != nil {
		panic(err) // they are ours
	}
	id := mesh.NewThreadID()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		ran, err := meshv1.NewSkillServiceClient(at.conn).RunSkill(outgoing(ctx, id), &meshv1.RunSkillRequest{Name: name, Arguments: values, ThreadId: id, RequestId: id})
		if err == nil && ran.GetState() == a2apb.TaskState_TASK_STATE_COMPLETED {
			return ran.GetContent()
		}
		if time.Since(begun) > patient {
			k.l.fault("%s: %v, %v", name, ran, err)
			return ""
		}
		if err == nil {
			id = mesh.NewThreadID()
		}
	}
}

func (l *ledger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, what := range slices.Sorted(maps.Keys(l.counts)) {
		out = append(out, fmt.Sprintf("%d %s", l.counts[what], what))
	}
	return strings.Join(out, ", ")
}
