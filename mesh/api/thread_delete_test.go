package api

import (
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// finding R9: of the threads that are old, those go that the caller may read and that no
// policy protects; of others it is not even told that there are any.
func TestWhoDeletesOldThreadsDeletesTheirOwn(t *testing.T) {
	l := newLibrary(t)
	ctx := user(t, mesh.RoleUser, mesh.RoleDeleter)
	var mine []string
	for i := range 5 {
		l.key.ID = mesh.NewThreadID()
		turn := l.post(t)
		mine = append(mine, l.key.ID)
		if i == 0 {
			continue // an agent is at work on it
		}
		if err := l.decide(t.Context(), &mesh.Event{Execution: turn, Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_COMPLETED}}); err != nil {
			t.Fatal(err)
		}
	}
	l.permits = func(_ mesh.Principal, a mesh.Action, name string) error {
		if a == mesh.ActDeleteThread && name == mine[1] {
			return mesh.Errorf(mesh.Denied, "test", "it is protected")
		}
		return nil
	}
	soon := timestamppb.New(time.Now().Add(time.Hour))
	call, _ := mesh.CallFrom(ctx)
	call.Principal.User = "eve"
	if resp, err := l.DeleteThreads(mesh.WithCall(ctx, call), &meshv1.DeleteThreadsRequest{Before: soon}); err != nil || resp.GetDeleted()+resp.GetAtWork() != 0 {
		t.Errorf("another user's: %v, %v", resp, err)
	}
	if resp, err := l.DeleteThreads(ctx, &meshv1.DeleteThreadsRequest{Before: timestamppb.New(time.Now().Add(-time.Hour))}); err != nil || resp.GetDeleted()+resp.GetAtWork() != 0 {
		t.Errorf("those that are not old: %v, %v", resp, err)
	}
	if resp, err := l.DeleteThreads(ctx, &meshv1.DeleteThreadsRequest{Before: soon, CountOnly: true}); err != nil || resp.GetDeleted() != 3 || resp.GetAtWork() != 1 {
		t.Errorf("counted: %v, %v", resp, err)
	}
	req := &meshv1.DeleteThreadsRequest{Before: soon, PageSize: 2}
	first, err := l.DeleteThreads(ctx, req)
	if err != nil || first.GetDeleted() != 2 || first.GetAtWork() != 1 || first.GetNextPageToken() == "" {
		t.Fatalf("the first page: %v, %v", first, err)
	}
	req.PageToken = first.GetNextPageToken()
	if last, err := l.DeleteThreads(ctx, req); err != nil || last.GetDeleted() != 1 || last.GetNextPageToken() != "" {
		t.Errorf("the last page: %v, %v", last, err)
	}
	list, err := l.ListThreads(ctx, &meshv1.ListThreadsRequest{})
	if err != nil || len(list.GetThreads()) != 2 {
		t.Errorf("left are %v, %v", list.GetThreads(), err)
	}
}

func TestBadRequestsToDeleteThreadsAreRefused(t *testing.T) {
	l := newLibrary(t)
	now := timestamppb.Now()
	for field, req := range map[string]*meshv1.DeleteThreadsRequest{
		"before":     {},
		"page_size":  {Before: now, PageSize: 1001},
		"page_token": {Before: now, PageToken: "-"},
	} {
		if _, err := l.DeleteThreads(user(t, mesh.RoleDeleter), req); !mesh.IsCode(err, mesh.Invalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
