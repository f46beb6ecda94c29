package main

import (
	"context"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/api/apitest"
)

// plan is what the agents do about a message, by a word in the plan.
func (f *fakeMesh) plan(ctx context.Context, t *fakeTask, plan, text string) {
	switch {
	case strings.HasPrefix(plan, runsSkill):
		f.skill(ctx, t, plan, text)
	case strings.Contains(plan, "research"):
		f.research(t)
	case strings.Contains(plan, "slow"):
		f.say(t, "main", "Counting sheep", true)
		select {
		case <-ctx.Done():
		case <-f.stopped:
		}
		f.move(t, a2apb.TaskState_TASK_STATE_CANCELED, "Canceled.", map[string]any{"agent": "main"})
	case strings.Contains(plan, "stubborn"):
		f.say(t, "main", "I go on", true)
		<-f.stopped
	case strings.Contains(plan, "fail"):
		f.move(t, a2apb.TaskState_TASK_STATE_FAILED, "the model is away; try again later", map[string]any{"agent": "main"})
	case strings.Contains(plan, "drop"):
		f.say(t, "main", "one ", true)
		f.say(t, "main", "two CUT ", false)
		f.say(t, "main", "three ", false)
		f.say(t, "main", "four", false)
		f.move(t, a2apb.TaskState_TASK_STATE_COMPLETED, "", nil)
	case strings.Contains(plan, "build"):
		f.build(t)
	case strings.Contains(plan, "name-the-skill"):
		f.finish(t, text)
	case plan == "leave":
		f.back(t, "cancelled", "")
		f.say(t, "main", "You are back with me.", true)
		f.move(t, a2apb.TaskState_TASK_STATE_COMPLETED, "", nil)
	default:
		f.say(t, "main", "You said: ", true)
		f.say(t, "main", text+"\n", false)
		f.move(t, a2apb.TaskState_TASK_STATE_COMPLETED, "", nil)
	}
}

func (f *fakeMesh) say(t *fakeTask, agent, text string, begins bool) {
	art := &a2apb.Artifact{ArtifactId: agent + "-response", Parts: textParts(text)}
	f.append(t, &meshv1.Event{Actor: "agent:" + agent, ExecutionId: t.id + "-" + agent,
		Body: &meshv1.Event_ArtifactAppended{ArtifactAppended: &meshv1.ArtifactAppended{Artifact: art, Append: !begins}}},
		&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
			Artifact: art, Append: !begins}}}, map[string]any{"agent": agent})
}

// move changes the task's state.
func (f *fakeMesh) move(t *fakeTask, state mesh.TaskState, text string, ext map[string]any) {
	var msg *a2apb.Message
	if text != "" {
		msg = &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_AGENT, Parts: textParts(text)}
	}
	if ext == nil {
		ext = map[string]any{}
	}
	f.append(t, &meshv1.Event{Actor: "node",
		Body: &meshv1.Event_TaskMoved{TaskMoved: &meshv1.TaskMoved{State: state, Message: msg}}}, statusOf(state, msg), ext)
}

func statusOf(state mesh.TaskState, msg *a2apb.Message) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		Status: &a2apb.TaskStatus{State: state, Message: msg}}}}
}

const working = a2apb.TaskState_TASK_STATE_WORKING

// research has main ask knowledge, which says what it does.
func (f *fakeMesh) research(t *fakeTask) {
	main, child := t.id+"-main", t.id+"-knowledge"
	progress := func(id, parent, agent, state, text string, ev *meshv1.Event) {
		f.append(t, ev, statusOf(working, nil), map[string]any{"agent": agent, "execution": map[string]any{
			"id": id, "parent": parent, "agent": agent, "state": state, "text": text}})
	}
	progress(main, t.id, "main", "started", "", &meshv1.Event{Actor: "node", Body: &meshv1.Event_DispatchIssued{
		DispatchIssued: &meshv1.DispatchIssued{Child: &meshv1.Execution{Id: main, Parent: t.id, Kind: "agent", Agent: "main"}}}})
	f.move(t, working, "Researching...", map[string]any{"agent": "main"})
	progress(child, main, "knowledge", "started", "rate limits", &meshv1.Event{Actor: "agent:main", ExecutionId: main,
		Body: &meshv1.Event_DispatchIssued{DispatchIssued: &meshv1.DispatchIssued{
			Child: &meshv1.Execution{Id: child, Parent: main, Kind: "agent", Agent: "knowledge", Text: "rate limits"}}}})
	progress(child, main, "knowledge", "working", "searching", &meshv1.Event{Actor: "agent:knowledge", ExecutionId: child,
		Body: &meshv1.Event_TaskMoved{TaskMoved: &meshv1.TaskMoved{State: working}}})
	progress(child, main, "knowledge", "completed", "", &meshv1.Event{Actor: "agent:main", ExecutionId: main,
		Body: &meshv1.Event_DispatchSettled{DispatchSettled: &meshv1.DispatchSettled{
			Child: child, State: a2apb.TaskState_TASK_STATE_COMPLETED, Result: "two documents"}}})
	f.say(t, "main", "Set rate_limit in mesh.yaml.", true)
	f.move(t, a2apb.TaskState_TASK_STATE_COMPLETED, "", nil)
}

// build hands the user over to skill-builder, which asks.
func (f *fakeMesh) build(t *fakeTask) {
	f.say(t, "main", "That is one for a specialist.", true)
	f.mu.Lock()
	l := f.logs[t.key]
	l.handoff = &meshv1.Handoff{Seq: int64(len(l.events) + 1), ThreadId: t.key.ID, SourceAgentId: "main",
		TargetAgentId: "skill-builder", State: "active"}
	t.question = "name-the-skill"
	f.mu.Unlock()
	f.append(t, &meshv1.Event{Actor: "agent:main", Body: &meshv1.Event_HandoffStarted{HandoffStarted: &meshv1.HandoffStarted{
		From: "main", To: "skill-builder", Reason: "a new skill"}}},
		statusOf(working, &a2apb.Message{Parts: textParts("Connecting you with Skill Builder...")}),
		map[string]any{"agent": "main", "handoff": map[string]any{
			"source_agent_id": "main", "target_agent_id": "skill-builder", "handoff_reason": "a new skill"}})
	f.say(t, "skill-builder", "Let us build it.", true)
	f.move(t, a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, "What is it called?",
		map[string]any{"agent": "skill-builder", "step": 1.0, "steps": 2.0, "state": "naming"})
}

// finish takes the answer and gives the user back.
func (f *fakeMesh) finish(t *fakeTask, answer string) {
	f.back(t, "completed", "made "+answer)
	f.say(t, "main", "You have "+answer+" now.", true)
	f.move(t, a2apb.TaskState_TASK_STATE_COMPLETED, "", nil)
}

func (f *fakeMesh) back(t *fakeTask, outcome, summary string) {
	f.mu.Lock()
	f.logs[t.key].handoff.State = outcome
	f.mu.Unlock()
	ext := map[string]any{"agent": "skill-builder", "handoff_return": map[string]any{
		"source_agent_id": "skill-builder", "outcome": outcome, "summary": summary}}
	f.append(t, &meshv1.Event{Actor: "agent:skill-builder", Body: &meshv1.Event_HandoffEnded{HandoffEnded: &meshv1.HandoffEnded{
		Outcome: outcome, Summary: summary}}}, statusOf(working, nil), ext)
}

func (f *fakeMesh) GetHandoff(ctx context.Context, req *meshv1.GetHandoffRequest) (*meshv1.GetHandoffResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, err := f.log(mesh.ThreadKey{Tenant: keyOf(ctx).Tenant, ID: req.GetThreadId()}, false)
	if err != nil {
		return nil, err
	}
	if l.handoff == nil {
		return &meshv1.GetHandoffResponse{}, nil
	}
	return &meshv1.GetHandoffResponse{Handoff: proto.CloneOf(l.handoff)}, nil
}

// left returns the task that the message leaves the active handoff in: the one that waits for
// an answer, or nil.
func (f *fakeMesh) left(key mesh.ThreadKey, msg *a2apb.Message) *fakeTask {
	if !mesh.Says(msg, mesh.ExitWord) || f.logs[key] == nil || f.logs[key].handoff.GetState() != "active" {
		return nil
	}
	for _, t := range f.tasks {
		if t.key == key && mesh.Interrupted(t.state) {
			t.question = "leave"
			return t
		}
	}
	return nil
}

func (f *fakeMesh) thread(key mesh.ThreadKey, l *fakeLog) *meshv1.Thread {
	th := &meshv1.Thread{ThreadId: key.ID, Seq: int64(len(l.events)), ActiveAgent: "main", Created: timestamppb.New(epoch),
		Updated: l.events[len(l.events)-1].GetTime()}
	if l.handoff.GetState() == "active" {
		th.ActiveAgent = l.handoff.GetTargetAgentId()
	}
	for _, ev := range l.events {
		switch b := ev.GetBody().(type) {
		case *meshv1.Event_TaskOpened:
			x := b.TaskOpened.GetExecution()
			t := f.tasks[x.GetId()]
			state := &meshv1.ExecutionState{Execution: x, State: t.state, Started: ev.GetTime()}
			if mesh.Terminal(t.state) {
				state.Ended = th.Updated
			}
			th.Executions = append(th.Executions, state)
			if th.Title == "" {
				th.Title = x.GetText()
			}
		case *meshv1.Event_DispatchIssued:
			th.Executions = append(th.Executions, &meshv1.ExecutionState{Execution: b.DispatchIssued.GetChild(),
				State: a2apb.TaskState_TASK_STATE_COMPLETED, Usage: &meshv1.Usage{Prompt: 12, Completion: 3}})
		}
	}
	return th
}

func (f *fakeMesh) GetThread(ctx context.Context, req *meshv1.GetThreadRequest) (*meshv1.GetThreadResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, err := f.log(keyOf(ctx), false)
	if err != nil {
		return nil, err
	}
	return &meshv1.GetThreadResponse{Thread: f.thread(mesh.ThreadKey{ID: req.GetThreadId()}, l)}, nil
}

// ListThreads has one thread on a page.
func (f *fakeMesh) ListThreads(ctx context.Context, req *meshv1.ListThreadsRequest) (*meshv1.ListThreadsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []string
	for key := range f.logs {
		if key.Tenant == keyOf(ctx).Tenant && key.ID > req.GetPageToken() {
			ids = append(ids, key.ID)
		}
	}
	resp := &meshv1.ListThreadsResponse{}
	if len(ids) > 0 {
		least := ids[0]
		for _, id := range ids {
			least = min(least, id)
		}
		key := mesh.ThreadKey{Tenant: keyOf(ctx).Tenant, ID: least}
		resp.Threads = []*meshv1.Thread{f.thread(key, f.logs[key])}
		if len(ids) > 1 {
			resp.NextPageToken = least
		}
	}
	return resp, nil
}

// ReadThread has at most three events on a page.
func (f *fakeMesh) ReadThread(ctx context.Context, req *meshv1.ReadThreadRequest) (*meshv1.ReadThreadResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, err := f.log(keyOf(ctx), false)
	if err != nil {
		return nil, err
	}
	return apitest.Page(l.events, req, 3), nil
}

// FollowThread breaks the connection once, after the third event.
func (f *fakeMesh) FollowThread(req *meshv1.FollowThreadRequest, s grpc.ServerStreamingServer[meshv1.FollowThreadResponse]) error {
	f.mu.Lock()
	l, err := f.log(keyOf(s.Context()), false)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	for after := int(req.GetAfterSeq()); ; {
		f.mu.Lock()
		news, wake := l.events[after:], f.changed
		f.mu.Unlock()
		for _, ev := range news {
			after = int(ev.GetSeq())
			if err := s.Send(&meshv1.FollowThreadResponse{Event: ev}); err != nil {
				return err
			}
			if after == 3 && f.once("follow") {
				f.listener.cut(false)
			}
		}
		select {
		case <-wake:
		case <-s.Context().Done():
			return s.Context().Err()
		case <-f.stopped:
			return mesh.Errorf(mesh.Unavailable, "fake", "shutting down")
		}
	}
}
