package api

import (
	"fmt"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/state"

	"github.com/google/go-cmp/cmp"
)

// circuit writes a circuit as an agent's breaker does.
func (n *node) circuit(t *testing.T, tenant mesh.TenantID, skill, data string) {
	t.Helper()
	if _, err := n.kv.Put(t.Context(), state.Key{Tenant: tenant, Kind: "breaker", Name: skill}, []byte(data), state.AnyVersion); err != nil {
		t.Fatal(err)
	}
}

// breakersOf lists the breakers that the user is shown, as "skill state failures".
func (n *node) breakersOf(t *testing.T, user string) []string {
	t.Helper()
	res, err := n.skills.ListBreakers(as(t, user), &meshv1.ListBreakersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, b := range res.GetBreakers() {
		out = append(out, fmt.Sprint(b.GetSkill(), " ", b.GetState(), " ", b.GetFailures()))
	}
	return out
}

// S3-047, S3-048, S3-049, S3-051: an operator sees which skills are stopped, from
// when on they are tried again, and can have them called again at once.
func TestAnOperatorSeesAndResetsBreakers(t *testing.T) {
	n := serve(t)
	if got := n.breakersOf(t, "reader"); len(got) != 0 {
		t.Errorf("where nothing failed, it shows %v", got)
	}
	res, err := n.skills.ResetBreaker(as(t, "alice"), &meshv1.ResetBreakerRequest{Name: "mail.send"})
	if err != nil || res.GetBefore() != nil {
		t.Errorf("reset where there is nothing: %v, %v", res, err)
	}

	b := limit.NewBreaker(circuits{n.kv, "acme"}, limit.BreakerOptions{Fresh: -1})
	for i := range limit.DefaultFailures {
		done, err := b.Allow(t.Context(), "mail.send")
		if err != nil {
			t.Fatal(err)
		}
		done(t.Context(), limit.Failure)
		state := "closed"
		if i == limit.DefaultFailures-1 {
			state = "open"
		}
		if diff := cmp.Diff([]string{fmt.Sprintf("mail.send %s %d", state, i+1)}, n.breakersOf(t, "reader")); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	if got := n.breakersOf(t, "bob"); len(got) != 0 {
		t.Errorf("another tenant is shown %v", got)
	}
	list, err := n.skills.ListBreakers(as(t, "reader"), &meshv1.ListBreakersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	opened, next := list.GetBreakers()[0].GetOpenedAt().AsTime(), list.GetBreakers()[0].GetNextProbe().AsTime()
	if time.Since(opened).Abs() > time.Minute || next.Sub(opened) != limit.DefaultOpen {
		t.Errorf("opened at %v and tried again at %v", opened, next)
	}

	_, err = n.skills.ResetBreaker(as(t, "reader"), &meshv1.ResetBreakerRequest{Name: "mail.send"})
	wantCode(t, err, mesh.Denied, "breaker.reset")
	_, err = b.Allow(t.Context(), "mail.send")
	wantCode(t, err, mesh.Unavailable)
	res, err = n.skills.ResetBreaker(as(t, "alice"), &meshv1.ResetBreakerRequest{Name: "mail.send"})
	if err != nil || res.GetBefore().GetState() != "open" || res.GetBefore().GetFailures() != limit.DefaultFailures {
		t.Errorf("reset: %v, %v", res, err)
	}
	done, err := b.Allow(t.Context(), "mail.send")
	if err != nil {
		t.Fatalf("after the reset: %v", err)
	}
	done(t.Context(), limit.Failure) // counts from the beginning
	if diff := cmp.Diff([]string{"mail.send closed 1"}, n.breakersOf(t, "reader")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestBreakersAreShownForSkillsOfTheTenantAlone(t *testing.T) {
	n := serve(t)
	open := `{"state":"open","failures":5,"opened_at":"2026-01-01T00:00:00Z"}`
	for _, name := range []string{"one", "two"} {
		if _, err := n.skills.CreateSkill(as(t, "alice"), &meshv1.CreateSkillRequest{Source: template(name)}); err != nil {
			t.Fatal(err)
		}
	}
	n.circuit(t, "acme", "mail.send", `{"state":"half_open","failures":7,"opened_at":"2026-01-01T00:00:00Z","probe_until":"2026-01-01T00:01:45Z"}`)
	n.circuit(t, "acme", "workflows.one", open)
	n.circuit(t, "acme", "workflows.two", `{"state":"closed","failures":-3}`)
	n.circuit(t, "acme", "workflows.gone", open)
	n.circuit(t, "acme", "mail.*", "\xff")
	n.circuit(t, "globex", "mail.send", `{"state":"closed","failures":9999999999}`)
	if diff := cmp.Diff([]string{"mail.send half_open 7", "workflows.one open 5"}, n.breakersOf(t, "reader")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"mail.send closed 2147483647"}, n.breakersOf(t, "bob")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	first, err := n.skills.ListBreakers(as(t, "reader"), &meshv1.ListBreakersRequest{PageSize: 1})
	if err != nil || len(first.GetBreakers()) != 1 || first.GetNextPageToken() == "" {
		t.Fatalf("the first page: %v, %v", first, err)
	}
	last, err := n.skills.ListBreakers(as(t, "reader"), &meshv1.ListBreakersRequest{PageSize: 1, PageToken: first.GetNextPageToken()})
	if err != nil || len(last.GetBreakers()) != 1 || last.GetBreakers()[0].GetSkill() != "workflows.one" || last.GetNextPageToken() != "" {
		t.Errorf("the last page: %v, %v", last, err)
	}
	for field, req := range map[string]*meshv1.ListBreakersRequest{
		"page_size": {PageSize: -1}, "page_token": {PageToken: "%%"},
	} {
		_, err := n.skills.ListBreakers(as(t, "reader"), req)
		wantCode(t, err, mesh.Invalid)
		if mesh.FieldOf(err) != field {
			t.Errorf("%v: the field is %q", err, mesh.FieldOf(err))
		}
	}
	_, err = n.skills.ListBreakers(as(t, "reader"), &meshv1.ListBreakersRequest{PageSize: maxBreakerPage + 1})
	wantCode(t, err, mesh.Invalid, "page_size")
}

// An agent sees the breakers of its skills as state, and resets none as users do.
func TestAgentsAndMeshesWithoutThemHaveNoBreakers(t *testing.T) {
	n := serve(t)
	for _, agent := range []string{"worker", "mailer"} {
		_, err := n.skills.ListBreakers(as(t, agent), &meshv1.ListBreakersRequest{})
		wantCode(t, err, mesh.Denied)
		_, err = n.skills.ResetBreaker(as(t, agent), &meshv1.ResetBreakerRequest{Name: "mail.send"})
		wantCode(t, err, mesh.Denied)
	}
	for _, name := range []string{"", "mail.absent", "mail.*"} {
		_, err := n.skills.ResetBreaker(as(t, "alice"), &meshv1.ResetBreakerRequest{Name: name})
		wantCode(t, err, mesh.NotFound)
	}
	without := NewSkills(n.library, n.runner)
	ctx := mesh.WithCall(t.Context(), mesh.Call{Principal: callers["alice"]})
	_, err := without.ListBreakers(ctx, &meshv1.ListBreakersRequest{})
	wantCode(t, err, mesh.Unsupported)
	_, err = without.ResetBreaker(ctx, &meshv1.ResetBreakerRequest{Name: "mail.send"})
	wantCode(t, err, mesh.Unsupported)
}
