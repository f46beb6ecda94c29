package api

import (
	"context"
	"sync"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"
)

// A runner notes who had which skill run, and knows the runs of acme.
type runner struct {
	mu  sync.Mutex
	ran []string
}

func (r *runner) RunSkill(ctx context.Context, req *meshv1.RunSkillRequest) (*meshv1.RunSkillResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	call, _ := mesh.CallFrom(ctx)
	r.ran = append(r.ran, string(call.Principal.Tenant)+"/"+call.Principal.User+" "+req.GetName())
	if req.GetRequestId() == "taken" {
		return nil, mesh.InvalidField("runner", "request_id", "was used for another call")
	}
	return &meshv1.RunSkillResponse{State: a2apb.TaskState_TASK_STATE_COMPLETED, Content: "Sent.", Files: []string{"outbox/1.eml"},
		ThreadId: req.GetThreadId(), Metadata: req.GetArguments()}, nil
}

func (r *runner) ListSkillRuns(ctx context.Context, _ *meshv1.ListSkillRunsRequest) (*meshv1.ListSkillRunsResponse, error) {
	call, _ := mesh.CallFrom(ctx)
	if call.Principal.Tenant != "acme" {
		return &meshv1.ListSkillRunsResponse{}, nil
	}
	return &meshv1.ListSkillRunsResponse{Runs: []*meshv1.SkillRun{{Skill: "workflows.secret", Status: "completed"}}}, nil
}

func TestASkillRunsForItsCaller(t *testing.T) {
	n := serve(t)
	args, err := structpb.NewStruct(map[string]any{"to": "ann@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	thread := mesh.NewThreadID()
	res, err := n.skills.RunSkill(as(t, "reader"), &meshv1.RunSkillRequest{Name: "mail.send", Arguments: args, ThreadId: thread})
	if err != nil || res.GetContent() != "Sent." || res.GetThreadId() != thread || res.GetMetadata().GetFields()["to"].GetStringValue() != "ann@example.com" {
		t.Errorf("RunSkill = %v, %v", res, err)
	}
	_, err = n.skills.RunSkill(as(t, "bob"), &meshv1.RunSkillRequest{Name: "mail.send", RequestId: "taken"})
	wantCode(t, err, mesh.Invalid, "request_id")
	// What is not there, and agents, do not get as far as the runner.
	_, err = n.skills.RunSkill(as(t, "reader"), &meshv1.RunSkillRequest{Name: "mail.absent"})
	wantCode(t, err, mesh.NotFound, "mail.absent")
	_, err = n.skills.RunSkill(as(t, "mailer"), &meshv1.RunSkillRequest{Name: "mail.send"})
	wantCode(t, err, mesh.Denied, "agents do not call this")
	if diff := cmp.Diff([]string{"acme/reader mail.send", "globex/bob mail.send"}, n.runner.ran); diff != "" {
		t.Errorf("what ran (-want +got):\n%s", diff)
	}
}

func TestRunsAreListedForUsersAlone(t *testing.T) {
	n := serve(t)
	res, err := n.skills.ListSkillRuns(as(t, "reader"), &meshv1.ListSkillRunsRequest{})
	if err != nil || len(res.GetRuns()) != 1 || res.GetRuns()[0].GetSkill() != "workflows.secret" {
		t.Errorf("acme's runs are %v, %v", res, err)
	}
	if res, err := n.skills.ListSkillRuns(as(t, "bob"), &meshv1.ListSkillRunsRequest{}); err != nil || len(res.GetRuns()) != 0 {
		t.Errorf("globex's runs are %v, %v", res, err)
	}
	_, err = n.skills.ListSkillRuns(as(t, "worker"), &meshv1.ListSkillRunsRequest{})
	wantCode(t, err, mesh.Denied, "agents do not call this")
}

func TestWithoutARunnerNothingRuns(t *testing.T) {
	n := serve(t)
	s := NewSkills(n.library, nil)
	ctx := mesh.WithCall(t.Context(), mesh.Call{Principal: callers["reader"]})
	_, err := s.RunSkill(ctx, &meshv1.RunSkillRequest{Name: "mail.send"})
	wantCode(t, err, mesh.Unsupported)
	_, err = s.ListSkillRuns(ctx, &meshv1.ListSkillRunsRequest{})
	wantCode(t, err, mesh.Unsupported)
}
