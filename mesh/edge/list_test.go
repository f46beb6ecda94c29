package edge_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
)

// listing is a world that lists its tasks.
func listing(t *testing.T, opts ...option) *world {
	return build(t, append(opts, func(c *settings) {
		x, err := tasks.New(c.edge.Log, []byte("0123456789abcdef0123456789abcdef"), nil)
		if err != nil {
			t.Fatal(err)
		}
		c.edge.Tasks = x
	})...)
}

// anywhere is ann's context, in no thread and without our extension.
func (w *world) anywhere() context.Context {
	return w.call(func(c *mesh.Call) { c.Thread, c.Extensions = "", nil })
}

// pages lists all pages of a request.
func (w *world) pages(ctx context.Context, req *a2apb.ListTasksRequest) (tasks []*a2apb.Task, lengths []int) {
	w.t.Helper()
	req = proto.CloneOf(req)
	for {
		res, err := w.List(ctx, req)
		if err != nil {
			w.t.Fatal(err)
		}
		tasks, lengths = append(tasks, res.Tasks...), append(lengths, len(res.Tasks))
		if req.PageToken = res.NextPageToken; req.PageToken == "" {
			if int(res.TotalSize) != len(tasks) || res.PageSize != req.GetPageSize() {
				w.t.Errorf("the last page says %d in all of %d, and page size %d", res.TotalSize, len(tasks), res.PageSize)
			}
			return tasks, lengths
		}
	}
}

func size(n int32) *int32 { return &n }

func taskIDs(tasks []*a2apb.Task) (ids []string) {
	for _, t := range tasks {
		ids = append(ids, t.Id)
	}
	return ids
}

// Who addresses an agent sees and moves that agent's tasks alone, wherever its
// stream went; who addresses none sees all.
func TestWhoAddressesAnAgentSeesItsTasksAlone(t *testing.T) {
	w := listing(t)
	for _, name := range []string{"main", "smith"} {
		w.agent(name, func(s *scene) { s.move(asks, "Which?") })
	}
	at := func(agent string) context.Context {
		return w.call(func(c *mesh.Call) { c.Thread, c.Extensions, c.Agent = "", nil, agent })
	}
	ids := map[string]string{}
	for _, agent := range []string{"main", "smith"} {
		acc := w.post(at(agent), say("go"))
		w.hear(acc)
		ids[agent] = acc.Task.Id
	}
	for agent, want := range map[string][]string{"main": {ids["main"]}, "smith": {ids["smith"]}, "": {ids["main"], ids["smith"]}} {
		got, _ := w.pages(at(agent), &a2apb.ListTasksRequest{PageSize: size(1)})
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(taskIDs(got)))); diff != "" {
			t.Errorf("at %q (-want +got):\n%s", agent, diff)
		}
	}
	for agent, other := range map[string]string{"main": ids["smith"], "smith": ids["main"]} {
		ctx := at(agent)
		_, _, read := w.Task(ctx, other)
		_, canceledErr := w.Cancel(ctx, &a2apb.CancelTaskRequest{Id: other})
		_, sent := w.Send(ctx, to(say("that"), other))
		for what, err := range map[string]error{"Task": read, "Cancel": canceledErr, "Send": sent, "Updates": refusal(w.Updates(ctx, other, 0))} {
			if e, _ := err.(*mesh.Error); e == nil || e.Code != mesh.NotFound || e.Reason != "TASK_NOT_FOUND" {
				t.Errorf("%s at %s of another's task: %v", what, agent, err)
			}
		}
	}
	if task, _, err := w.Task(at("smith"), ids["smith"]); err != nil || task.Status.State != asks {
		t.Errorf("smith's own task: %v, %v", task.GetStatus(), err)
	}
	if _, err := w.List(at("nobody"), &a2apb.ListTasksRequest{PageSize: size(1)}); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("the tasks of an agent that there is not: %v", err)
	}
	if task, err := w.Cancel(at("smith"), &a2apb.CancelTaskRequest{Id: ids["smith"]}); err != nil || task.Status.State != canceled {
		t.Errorf("canceled by its own agent's address: %v, %v", task.GetStatus(), err)
	}
}

func TestTasksAreListedAsGetTaskReadsThem(t *testing.T) {
	w := listing(t)
	w.agent("main", func(s *scene) {
		if strings.HasPrefix(s.text(), "ask") {
			s.move(asks, "What?")
			return
		}
		s.answer("done")
	})
	var all []string
	for _, words := range []string{"one", "ask two", "three"} {
		acc := w.post(w.ctx(mesh.NewThreadID()), say(words))
		w.hear(acc)
		all = append(all, acc.Task.Id)
	}
	slices.Reverse(all)
	whole, _ := w.pages(w.anywhere(), &a2apb.ListTasksRequest{PageSize: size(2), IncludeArtifacts: proto.Bool(true)})
	if diff := cmp.Diff(all, taskIDs(whole)); diff != "" && !sameMoments(whole) {
		t.Errorf("the order (-want +got):\n%s", diff)
	}
	for _, got := range whole {
		if diff := cmp.Diff(w.snapshot(got.Id), got, protocmp.Transform()); diff != "" {
			t.Errorf("GetTask and ListTasks differ:\n%s", diff)
		}
	}
	bare, lengths := w.pages(w.anywhere(), &a2apb.ListTasksRequest{PageSize: size(2), HistoryLength: proto.Int32(0)})
	if !slices.Equal(lengths, []int{2, 1}) {
		t.Errorf("the pages have %v tasks", lengths)
	}
	for _, got := range bare {
		if len(got.Artifacts)+len(got.History) > 0 || got.Status.GetTimestamp() == nil {
			t.Errorf("without artifacts and history: %v", got)
		}
	}
	last := all[0]
	one := w.snapshot(last)
	for name, tt := range map[string]struct {
		ctx  context.Context
		req  *a2apb.ListTasksRequest
		want int
	}{
		"a context":           {w.anywhere(), &a2apb.ListTasksRequest{ContextId: one.ContextId}, 1},
		"a call in a thread":  {w.ctx(one.ContextId), &a2apb.ListTasksRequest{}, 1},
		"both":                {w.ctx(one.ContextId), &a2apb.ListTasksRequest{ContextId: one.ContextId}, 1},
		"an unknown context":  {w.anywhere(), &a2apb.ListTasksRequest{ContextId: "nobody's"}, 0},
		"a state":             {w.anywhere(), &a2apb.ListTasksRequest{Status: asks}, 1},
		"a state and context": {w.anywhere(), &a2apb.ListTasksRequest{Status: asks, ContextId: one.ContextId}, 0},
		"the last moment":     {w.anywhere(), &a2apb.ListTasksRequest{ContextId: one.ContextId, StatusTimestampAfter: one.Status.Timestamp}, 1},
		"a moment later": {w.anywhere(), &a2apb.ListTasksRequest{ContextId: one.ContextId,
			StatusTimestampAfter: timestamppb.New(one.Status.Timestamp.AsTime().Add(1))}, 0},
		"another tenant": {w.call(func(c *mesh.Call) { c.Thread, c.Principal.Tenant = "", "other" }), &a2apb.ListTasksRequest{}, 0},
	} {
		tt.req.PageSize = size(50)
		if got, _ := w.pages(tt.ctx, tt.req); len(got) != tt.want {
			t.Errorf("%s: %v, want %d tasks", name, taskIDs(got), tt.want)
		}
	}
}

// sameMoments reports whether two tasks moved within the same millisecond:
// then their ids order them.
func sameMoments(tasks []*a2apb.Task) bool {
	for i := range len(tasks) - 1 {
		if tasks[i].Status.Timestamp.AsTime().Equal(tasks[i+1].Status.Timestamp.AsTime()) {
			return true
		}
	}
	return false
}

func TestAListIsRefusedToWhomItIsNotFor(t *testing.T) {
	w := listing(t)
	for name, tt := range map[string]struct {
		ctx   context.Context
		req   *a2apb.ListTasksRequest
		code  mesh.Code
		field string
	}{
		"another tenant":  {w.ctx(w.thread), &a2apb.ListTasksRequest{Tenant: "other"}, mesh.NotFound, "tenant"},
		"another thread":  {w.ctx(w.thread), &a2apb.ListTasksRequest{ContextId: mesh.NewThreadID()}, mesh.Invalid, "context_id"},
		"a made-up token": {w.ctx(w.thread), &a2apb.ListTasksRequest{PageToken: "x"}, mesh.Invalid, "page_token"},
	} {
		tt.req.PageSize = size(1)
		if _, err := w.List(tt.ctx, tt.req); !mesh.IsCode(err, tt.code) || mesh.FieldOf(err) != tt.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	bare := build(t)
	if _, err := bare.List(bare.ctx(bare.thread), &a2apb.ListTasksRequest{}); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("by an edge without an index: %v", err)
	}
}

// A page of large tasks ends early rather than be more than a client can read.
func TestAPageOfLargeTasksIsShort(t *testing.T) {
	w := listing(t)
	var ids []string
	for range 5 {
		key := mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}
		id := mesh.NewExecutionID(key.ID)
		ids = append(ids, string(id))
		leg := mesh.NewExecutionID(key.ID)
		large := func(name string) *mesh.Event {
			return &mesh.Event{Execution: leg, Body: mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: name, Parts: text(strings.Repeat("x", 700<<10))}}}
		}
		_, err := w.log.Append(t.Context(), key, []*mesh.Event{
			{Execution: id, Body: mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn, Agent: "main", User: "ann"}}},
			{Execution: id, Body: mesh.DispatchIssued{Child: mesh.Execution{ID: leg, Parent: id, Kind: mesh.KindAgent, Agent: "main"}}},
			large("a"), large("b"),
			{Execution: id, Body: mesh.DispatchSettled{Child: leg, State: completed}},
			{Execution: id, Body: mesh.TaskMoved{State: completed}},
		}, threadlog.AppendOptions{Expect: map[mesh.Scope]mesh.Seq{mesh.ThreadScope: 0, mesh.Scope(id): 0, mesh.Scope(leg): 0}})
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := w.call(func(c *mesh.Call) { c.Thread = "" })
	got, lengths := w.pages(ctx, &a2apb.ListTasksRequest{PageSize: size(100), IncludeArtifacts: proto.Bool(true)})
	if !slices.Equal(lengths, []int{2, 2, 1}) {
		t.Errorf("the pages have %v tasks of 1.4 MiB", lengths)
	}
	gotIDs := taskIDs(got)
	slices.Sort(gotIDs)
	slices.Sort(ids)
	if diff := cmp.Diff(ids, gotIDs); diff != "" {
		t.Errorf("the pages together (-want +got):\n%s", diff)
	}
	for _, task := range got {
		if seq, ok := a2a.SeqOf(a2a.TaskResponse(task)); !ok || seq != 6 {
			t.Errorf("a task of a caller with our extension has the cursor %d, %v", seq, ok)
		}
	}
	if _, lengths = w.pages(ctx, &a2apb.ListTasksRequest{PageSize: size(100)}); !slices.Equal(lengths, []int{5}) {
		t.Errorf("without artifacts the pages have %v tasks", lengths)
	}
}

func TestTasksOfDeletedThreadsAreNotListed(t *testing.T) {
	w := listing(t)
	w.agent("main", func(s *scene) { s.answer("done") })
	w.hear(w.send("stays"))
	gone := mesh.NewThreadID()
	w.hear(w.post(w.ctx(gone), say("goes")))
	if got, _ := w.pages(w.anywhere(), &a2apb.ListTasksRequest{PageSize: size(9)}); len(got) != 2 {
		t.Fatalf("before: %v", got)
	}
	w.close() // nothing is written any more
	key := mesh.ThreadKey{Tenant: "acme", ID: gone}
	if err := w.log.Delete(t.Context(), key, threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	w.forget(key)
	if got, _ := w.pages(w.anywhere(), &a2apb.ListTasksRequest{PageSize: size(9)}); len(got) != 1 || got[0].ContextId != w.thread {
		t.Errorf("after: %v", got)
	}
}

func TestTheExtendedCardIsThatOfTheCallersTenant(t *testing.T) {
	w := build(t)
	card, err := w.ExtendedCard(w.ctx(w.thread))
	if err != nil || card.GetName() != "edge of acme" {
		t.Errorf("got %v, %v", card, err)
	}
}
