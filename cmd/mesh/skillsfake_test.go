package main

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/mem"
)

const sendPage = `---
name: mail.send
description: Sends a mail.
handler: mail.send
confirm: Send this mail?
tags: [mail, post]
parameters:
  - name: to
    type: array
    required: true
  - name: subject
  - name: timeout
---
# Send a mail

    mail.send --to <address> ... --subject <text>
`

// fakeSkills is a library as that of a mesh: skills of all tenants, one of them
// broken, and a folder for those of each.
func fakeSkills(t testing.TB) *skill.Library {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	l, err := skill.OpenLibrary(skill.LibraryOptions{TenantDir: t.TempDir(), Shared: []fs.FS{fstest.MapFS{
		"mail/SKILL.md":  file("---\ndomain: mail\ndescription: Electronic mail\n---\nMail.\n"),
		"mail/send.md":   file(sendPage),
		"mail/broken.md": file("---\nname: mail.broken\n---\nNobody knows what for.\n"),
		"tasks/search.md": file("---\nname: tasks.search\ndescription: Finds tasks.\nhandler: tasks.search\nschedule: \"0 9 * * 1-5\"\ntimezone: Europe/Oslo\n" +
			"parameters:\n  - name: status\n  - name: limit\n    type: integer\n  - name: tags\n    type: array\n  - name: done\n    type: flag\n---\n# Search tasks\n"),
		"tasks/slow.md":                            file("---\nname: tasks.slow\ndescription: Takes long.\nhandler: x\n---\nSlow.\n"),
		"tasks/fail.md":                            file("---\nname: tasks.fail\ndescription: Does not work.\nhandler: x\n---\nFails.\n"),
		"github/list.md":                           file("---\nname: github.list\ndescription: Lists issues.\nhandler: mcp:github\n---\nIssues.\n"),
		"workflows/pdf-forms/SKILL.md":             file("---\nname: pdf-forms\ndescription: Fills forms.\n---\n# Forms\n"),
		"workflows/pdf-forms/references/fields.md": file("The fields.\n"),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fakeBreakers are circuits of skills that fail: one of each state, and one that
// is healthy again.
func fakeBreakers(t testing.TB) *state.KV {
	kv := state.New(mem.Open())
	for name, data := range map[string]string{
		"mail.send":    `{"state":"open","failures":5,"opened_at":"2020-02-01T09:00:00Z"}`,
		"github.list":  `{"state":"half_open","failures":7,"opened_at":"2020-02-01T09:00:00Z","probe_until":"2020-02-01T09:02:45Z"}`,
		"tasks.fail":   `{"state":"closed","failures":1}`,
		"tasks.search": `{"state":"closed","failures":0}`,
	} {
		if _, err := kv.Put(t.Context(), state.Key{Tenant: mesh.DefaultTenant, Kind: "breaker", Name: name}, []byte(data), 0); err != nil {
			t.Fatal(err)
		}
	}
	return kv
}

// runsSkill begins the text of a task of the fake mesh that runs a skill.
const runsSkill = "run a skill: "

// A fakeRunner runs skills as turns of the fake mesh.
type fakeRunner struct{ mesh *fakeMesh }

// RunSkill opens a task under the request id, or finds the one that it opened,
// and waits until it ends or asks, or its patience does.
func (r fakeRunner) RunSkill(ctx context.Context, req *meshv1.RunSkillRequest) (*meshv1.RunSkillResponse, error) {
	call, _ := mesh.CallFrom(ctx)
	call.Thread, call.Extensions = req.GetThreadId(), []string{mesh.ExtensionURI}
	if call.Thread == "" {
		call.Thread = "550e8400-e29b-41d4-a716-4466554400ff" // of all runs that name none
	}
	ctx = mesh.WithCall(ctx, call)
	line, err := protojson.Marshal(req)
	if err != nil {
		return nil, err
	}
	t, err := r.mesh.accept(ctx, &a2apb.Message{MessageId: req.GetRequestId(), ContextId: call.Thread, Parts: textParts(runsSkill + string(line))})
	if err != nil {
		return nil, err
	}
	r.mesh.mu.Lock() // who waits for another call sees it
	close(r.mesh.changed)
	r.mesh.changed = make(chan struct{})
	r.mesh.mu.Unlock()
	waiting, cancel := context.WithTimeout(ctx, r.patience(ctx, req))
	defer cancel()
	err = r.mesh.await(waiting, func() bool { return mesh.Terminal(t.state) || mesh.Interrupted(t.state) })
	if err != nil && waiting.Err() == nil || ctx.Err() != nil {
		return nil, err
	}
	r.mesh.mu.Lock()
	defer r.mesh.mu.Unlock()
	res := &meshv1.RunSkillResponse{State: t.state, ThreadId: t.key.ID, TaskId: t.id}
	for _, u := range r.mesh.logs[t.key].updates {
		art := u.GetArtifactUpdate().GetArtifact()
		switch {
		case taskOf(u) != t.id:
		case art.GetName() == skilltools.ResultData:
			readResult(art, res)
		case art != nil:
			res.Content += partsText(art.GetParts())
		default:
			res.Content += partsText(u.GetStatusUpdate().GetStatus().GetMessage().GetParts())
		}
	}
	return res, nil
}

// patience ends before the caller's deadline. Without one it is short the first
// time, so that who wants to wait longer has to come again.
func (r fakeRunner) patience(ctx context.Context, req *meshv1.RunSkillRequest) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline) / 2
	}
	if r.mesh.once("patience " + req.GetRequestId()) {
		return time.Millisecond
	}
	return testTime
}

// skill runs a skill: mail.send asks, tasks.slow does not end, tasks.fail fails,
// and all others tell their arguments.
func (f *fakeMesh) skill(ctx context.Context, t *fakeTask, plan, text string) {
	var req meshv1.RunSkillRequest
	if err := protojson.Unmarshal([]byte(strings.TrimPrefix(plan, runsSkill)), &req); err != nil {
		panic(err)
	}
	s, _ := f.library.For(t.key.Tenant).Get(req.GetName())
	asks := s.Confirm != "" && !req.GetApproved()
	switch {
	case asks && plan == text:
		f.mu.Lock()
		t.question = plan
		f.mu.Unlock()
		f.move(t, a2apb.TaskState_TASK_STATE_INPUT_REQUIRED,
			skill.Question(s, &skill.Call{Skill: s.Name, Args: req.GetArguments().AsMap()}), nil)
		return
	case asks && mesh.AnswerOf(text) != mesh.AnswerYes:
		f.move(t, a2apb.TaskState_TASK_STATE_FAILED, "Failed to execute 'mail.send': the user did not allow it.", nil)
		return
	case s.Action == "slow":
		f.plan(ctx, t, "slow", "slow")
		return
	case s.Action == "fail":
		f.move(t, a2apb.TaskState_TASK_STATE_FAILED, "Failed to execute 'tasks.fail': the disk is full.", nil)
		return
	}
	args, err := jsonLine(req.GetArguments())
	if err != nil {
		panic(err)
	}
	f.say(t, "worker", s.Name+" "+args, true)
	data, err := structpb.NewStruct(map[string]any{"files": []any{"outbox/1.eml"}, "metadata": map[string]any{"count": 1}})
	if err != nil {
		panic(err)
	}
	f.append(t, &meshv1.Event{Actor: "agent:worker"}, &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{
		ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{Artifact: &a2apb.Artifact{ArtifactId: "data", Name: skilltools.ResultData,
			Parts: []*a2apb.Part{{Content: &a2apb.Part_Data{Data: structpb.NewStructValue(data)}}}}}}}, map[string]any{"agent": "worker"})
	f.move(t, a2apb.TaskState_TASK_STATE_COMPLETED, "", nil)
}

// ListSkillRuns has at most two runs on a page.
func (r fakeRunner) ListSkillRuns(_ context.Context, req *meshv1.ListSkillRunsRequest) (*meshv1.ListSkillRunsResponse, error) {
	at := func(minutes int) *timestamppb.Timestamp {
		return timestamppb.New(epoch.Add(time.Duration(minutes) * time.Minute))
	}
	all := []*meshv1.SkillRun{
		{Skill: "tasks.search", Due: at(120), Started: at(120), Status: "running", ThreadId: thread},
		{Skill: "tasks.search", Due: at(60), Started: at(60), Ended: at(61), Status: "completed", Detail: "3 tasks are late", ThreadId: thread},
		{Skill: "mail.send", Due: at(30), Status: "missed", Detail: "no mesh ran at the time"},
		{Skill: "tasks.search", Due: at(0), Started: at(0), Ended: at(2), Status: "failed", Detail: "the disk is full", ThreadId: thread},
	}
	res := &meshv1.ListSkillRunsResponse{}
	for i, run := range all {
		switch {
		case req.GetName() != "" && run.GetSkill() != req.GetName(), req.GetPageToken() != "" && i <= int(req.GetPageToken()[0]-'0'):
		case len(res.GetRuns()) == min(2, int(req.GetPageSize())):
			if res.NextPageToken == "" {
				res.NextPageToken = string(rune('0' + i - 1))
			}
		default:
			res.Runs = append(res.Runs, run)
		}
	}
	return res, nil
}
