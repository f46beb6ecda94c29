package api

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

func TestStateIsKeptUnderAGrantWithVersions(t *testing.T) {
	n := serve(t)
	ctx := as(t, "mailer")
	put := func(key, data string, version int64) (int64, error) {
		res, err := n.state.PutState(ctx, &meshv1.PutStateRequest{Kind: "mail", Key: key, Data: []byte(data), Version: version})
		return res.GetVersion(), err
	}
	if v, err := put("draft", "one", 0); err != nil || v != 1 {
		t.Fatalf("PutState = %d, %v", v, err)
	}
	if v, err := put("draft", "two", 1); err != nil || v != 2 {
		t.Fatalf("PutState = %d, %v", v, err)
	}
	_, err := put("draft", "late", 1)
	wantCode(t, err, mesh.Conflict)
	got, err := n.state.GetState(ctx, &meshv1.GetStateRequest{Kind: "mail", Key: "draft"})
	if err != nil || string(got.GetValue().GetData()) != "two" || got.GetValue().GetVersion() != 2 || got.GetValue().GetKey() != "draft" {
		t.Errorf("GetState = %v, %v", got, err)
	}
	_, err = n.state.DeleteState(ctx, &meshv1.DeleteStateRequest{Kind: "mail", Key: "draft", Version: 1})
	wantCode(t, err, mesh.Conflict)
	if _, err := n.state.DeleteState(ctx, &meshv1.DeleteStateRequest{Kind: "mail", Key: "draft", Version: 2}); err != nil {
		t.Fatal(err)
	}
	_, err = n.state.GetState(ctx, &meshv1.GetStateRequest{Kind: "mail", Key: "draft"})
	wantCode(t, err, mesh.NotFound)
}

func TestStateIsListedInPages(t *testing.T) {
	n := serve(t)
	ctx := as(t, "mailer")
	for i := range 105 {
		_, err := n.state.PutState(ctx, &meshv1.PutStateRequest{Kind: "mail", Key: fmt.Sprintf("k%03d", i), Data: []byte{byte(i)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	page, err := n.state.ListState(ctx, &meshv1.ListStateRequest{Kind: "mail"})
	if err != nil || len(page.GetValues()) != defaultPage || !page.GetMore() {
		t.Fatalf("ListState = %d values, more %v, %v", len(page.GetValues()), page.GetMore(), err)
	}
	rest, err := n.state.ListState(ctx, &meshv1.ListStateRequest{Kind: "mail", Prefix: "k10", After: "k101", Limit: 1000})
	if err != nil || len(rest.GetValues()) != 3 || rest.GetMore() || rest.GetValues()[0].GetKey() != "k102" || rest.GetValues()[0].GetData()[0] != 102 {
		t.Errorf("ListState = %v, %v", rest, err)
	}
	_, err = n.state.ListState(ctx, &meshv1.ListStateRequest{Kind: "mail", Limit: 1001})
	wantCode(t, err, mesh.Invalid, "limit")
}

func TestAGrantReachesItsOwnKindsOfStateOnly(t *testing.T) {
	n := serve(t)
	for _, tt := range []struct {
		user, kind string
		code       mesh.Code // NotFound: allowed, and nothing there
		says       string
	}{
		{"alice", "mail", mesh.Unauthenticated, "grant"},
		{"root", "mail", mesh.Unauthenticated, "grant"},
		{"mailer", "mailer", mesh.NotFound, ""},
		{"mailer", "mail", mesh.NotFound, ""},
		{"mailer", "calendar", mesh.NotFound, ""},
		{"mailer", "tasks", mesh.Denied, "calendar, mail, agent/mailer"},
		{"mailer", "mail.send", mesh.Denied, "kind"},
		{"mailer", "", mesh.Invalid, "kind"},
		{"mailer", registrationKind, mesh.Denied, ""},
		{"hired", "mail", mesh.NotFound, ""},
		{"hired", "mailer", mesh.Denied, "it reaches mail"},
		{"idle", "idle", mesh.NotFound, ""},
		{"idle", "agent/idle", mesh.NotFound, ""},
		{"idle", "agent/mailer", mesh.Denied, "it reaches agent/idle"},
		{"worker", "agent/mailer", mesh.Denied, ""},
		{"idle", "mail", mesh.Denied, "it reaches agent/idle"},
		{"worker", "tasks", mesh.NotFound, ""},
		{"worker", registrationKind, mesh.NotFound, ""}, // the user's own, not the operator's
	} {
		t.Run(tt.user+" "+tt.kind, func(t *testing.T) {
			ctx := as(t, tt.user)
			_, err := n.state.GetState(ctx, &meshv1.GetStateRequest{Kind: tt.kind, Key: "k"})
			wantCode(t, err, tt.code, tt.says)
			if tt.code == mesh.NotFound {
				return
			}
			_, err = n.state.PutState(ctx, &meshv1.PutStateRequest{Kind: tt.kind, Key: "k"})
			wantCode(t, err, tt.code, tt.says)
			_, err = n.state.DeleteState(ctx, &meshv1.DeleteStateRequest{Kind: tt.kind, Key: "k"})
			wantCode(t, err, tt.code, tt.says)
			_, err = n.state.ListState(ctx, &meshv1.ListStateRequest{Kind: tt.kind})
			wantCode(t, err, tt.code, tt.says)
		})
	}
}

// What a value's place is made of is not the caller's to fill.
func TestKindsAndKeysOfCallersAreBounded(t *testing.T) {
	n := serve(t)
	for _, key := range []string{"", strings.Repeat("k", 257), "a\x00", "a\xff"} {
		if utf8.ValidString(key) { // else it is no message
			_, err := n.state.PutState(as(t, "worker"), &meshv1.PutStateRequest{Kind: "mail", Key: key})
			wantCode(t, err, mesh.Invalid, "key")
		}
	}
	for kind, want := range map[string]mesh.Code{strings.Repeat("k", 64): mesh.NotFound, strings.Repeat("k", 75): mesh.Invalid, "a/b": mesh.Invalid, "agent/x": mesh.Denied, "a b": mesh.Invalid} {
		_, err := n.state.GetState(as(t, "worker"), &meshv1.GetStateRequest{Kind: kind, Key: strings.Repeat("k", 256)})
		wantCode(t, err, want)
	}
}

// Whoever may call a skill shares its breaker, under the skill's name, and
// reaches no other.
func TestBreakersAreReachedByWhoMayCallTheirSkill(t *testing.T) {
	n := serve(t)
	for _, tt := range []struct {
		user, key string
		code      mesh.Code
	}{
		{"mailer", "mail.send", mesh.NotFound},
		{"mailer", "mail.read", mesh.Denied},
		{"mailer", "calendar.create", mesh.NotFound},
		{"mailer", "tasks.search", mesh.Denied},
		{"hired", "mail.send", mesh.NotFound},
		{"idle", "mail.send", mesh.Denied},
		{"worker", "tasks.search", mesh.NotFound},
		{"breaker", "mail.send", mesh.Denied}, // though state of its name is its own elsewhere
		{"breaker", "breaker.reset", mesh.NotFound},
		{"alice", "mail.send", mesh.Unauthenticated},
	} {
		t.Run(tt.user+" "+tt.key, func(t *testing.T) {
			ctx := as(t, tt.user)
			_, err := n.state.GetState(ctx, &meshv1.GetStateRequest{Kind: state.KindBreaker, Key: tt.key})
			wantCode(t, err, tt.code)
			if tt.code == mesh.NotFound {
				return
			}
			_, err = n.state.PutState(ctx, &meshv1.PutStateRequest{Kind: state.KindBreaker, Key: tt.key})
			wantCode(t, err, tt.code)
			_, err = n.state.DeleteState(ctx, &meshv1.DeleteStateRequest{Kind: state.KindBreaker, Key: tt.key})
			wantCode(t, err, tt.code)
		})
	}
	if _, err := n.kv.Put(t.Context(), state.Key{Tenant: "acme", Kind: state.KindBreaker, Name: "mail.send"}, []byte("open"), 0); err != nil {
		t.Fatal(err)
	}
	// part of T1: agents read breakers, and write none.
	for _, user := range []string{"mailer", "worker", "hired"} {
		_, err := n.state.PutState(as(t, user), &meshv1.PutStateRequest{Kind: state.KindBreaker, Key: "mail.send", Data: []byte("open"), Version: -1})
		wantCode(t, err, mesh.Denied, "kind")
		_, err = n.state.DeleteState(as(t, user), &meshv1.DeleteStateRequest{Kind: state.KindBreaker, Key: "mail.send", Version: -1})
		wantCode(t, err, mesh.Denied, "kind")
		if res, err := n.state.GetState(as(t, user), &meshv1.GetStateRequest{Kind: state.KindBreaker, Key: "mail.send"}); err != nil || string(res.GetValue().GetData()) != "open" {
			t.Errorf("%s reads %v, %v", user, res, err)
		}
	}
	for user, want := range map[string]mesh.Code{"mailer": mesh.Denied, "breaker": mesh.Denied, "mailer-b": mesh.Denied} {
		_, err := n.state.ListState(as(t, user), &meshv1.ListStateRequest{Kind: state.KindBreaker})
		wantCode(t, err, want)
	}
	all, err := n.state.ListState(as(t, "worker"), &meshv1.ListStateRequest{Kind: state.KindBreaker})
	if err != nil || len(all.GetValues()) != 1 {
		t.Errorf("who may call all skills sees %v, %v", all, err)
	}
	_, err = n.state.GetState(as(t, "mailer-b"), &meshv1.GetStateRequest{Kind: state.KindBreaker, Key: "mail.send"})
	wantCode(t, err, mesh.NotFound) // another tenant's
}
