package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
)

// finding U4: a user has one's own sums, who may read the tenant those of all its users, which is
// recorded, and an operator those of all tenants.
func TestWhoMayKnowWhatWasUsed(t *testing.T) {
	now := time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)
	log := threadlog.New(mem.Open(), threadlog.WithClock(func() time.Time { return now }))
	s := NewThreads(log, nil, nil, Tickets{}, "main")
	recorded := 0
	s.readByRole = func(context.Context, string) { recorded++ }
	var asked tasks.Sums
	s.WithSums(func(_ context.Context, q tasks.Sums) (map[string]tasks.Sum, error) {
		asked = q
		return map[string]tasks.Sum{"x": {Prompt: 1}, "y": {Prompt: 2}, "z": {Nanos: 1e9}}, nil
	})
	call := func(role mesh.Role, req *meshv1.ListUsageRequest) (*meshv1.ListUsageResponse, error) {
		p := mesh.Principal{Tenant: "acme", User: "ann", Roles: []mesh.Role{role}}
		return s.ListUsage(mesh.WithCall(t.Context(), mesh.Call{Principal: p}), req)
	}
	for name, tt := range map[string]struct {
		role    mesh.Role
		req     *meshv1.ListUsageRequest
		want    string // tenant, user, all, recorded; or the code
		records int
	}{
		"one's own":                {mesh.RoleUser, &meshv1.ListUsageRequest{}, "acme ann false", 0},
		"one's own, by name":       {mesh.RoleUser, &meshv1.ListUsageRequest{UserId: "ann", By: "thread"}, "acme ann false", 0},
		"a colleague's":            {mesh.RoleUser, &meshv1.ListUsageRequest{UserId: "bob"}, mesh.Denied.String(), 0},
		"all tenants', as a user":  {mesh.RoleUser, &meshv1.ListUsageRequest{By: "tenant"}, mesh.Denied.String(), 0},
		"the tenant's":             {mesh.RoleTenantAdmin, &meshv1.ListUsageRequest{By: "user"}, "acme ann true", 1},
		"one user's":               {mesh.RoleAuditor, &meshv1.ListUsageRequest{UserId: "bob"}, "acme bob false", 1},
		"all tenants', as admin":   {mesh.RoleTenantAdmin, &meshv1.ListUsageRequest{By: "tenant"}, mesh.Denied.String(), 0},
		"all tenants'":             {mesh.RoleOperator, &meshv1.ListUsageRequest{By: "tenant"}, " ann true", 1},
		"all tenants', of a user":  {mesh.RoleOperator, &meshv1.ListUsageRequest{By: "tenant", UserId: "bob"}, mesh.Invalid.String(), 0},
		"by what is not":           {mesh.RoleUser, &meshv1.ListUsageRequest{By: "moon"}, mesh.Invalid.String(), 0},
		"too many":                 {mesh.RoleUser, &meshv1.ListUsageRequest{Limit: 1001}, mesh.Invalid.String(), 0},
		"at no time":               {mesh.RoleUser, &meshv1.ListUsageRequest{Since: &timestamppb.Timestamp{Nanos: -1}}, mesh.Invalid.String(), 0},
		"of days that end earlier": {mesh.RoleUser, &meshv1.ListUsageRequest{Since: timestamppb.New(now.AddDate(0, 0, 1))}, mesh.Invalid.String(), 0},
	} {
		recorded = 0
		_, err := call(tt.role, tt.req)
		got := fmt.Sprint(asked.Tenant, " ", asked.User, " ", asked.All)
		if err != nil {
			got = mesh.CodeOf(err).String()
		}
		if got != tt.want || recorded != tt.records {
			t.Errorf("%s: %s, recorded %d times, %v; want %s", name, got, recorded, err, tt.want)
		}
	}
	resp, err := call(mesh.RoleUser, &meshv1.ListUsageRequest{By: "agent", Limit: 2})
	if err != nil || len(resp.GetSums()) != 2 || resp.GetSums()[0].GetKey() != "z" || resp.GetSums()[1].GetKey() != "y" || resp.GetLeftOut() != 1 ||
		resp.GetTotal().GetUsage().GetPrompt() != 3 || resp.GetTotal().GetUsage().GetCost() != 1 {
		t.Errorf("returned is %v, %v", resp, err)
	}
	if first, last := asked.First.Format(time.DateOnly), asked.Last.Format(time.DateOnly); first != "2026-03-01" || last != "2026-03-30" {
		t.Errorf("the days are %s to %s", first, last)
	}
}
