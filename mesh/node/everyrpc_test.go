package node_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/text/texttest"
)

// secretWord is what owners say, and nobody else hears.
const secretWord = "xyzzy-of-the-owner"

// guarded starts a mesh with users of two tenants, which is also called by MCP.
func guarded(t *testing.T) *testMesh {
	t.Helper()
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.MCP.Offer, cfg.Egress.Allow = "tokens", adminsFile(t), true, []string{"127.0.0.1"}
	return start(t, cfg, map[string]run{"main": greeter, "builder": builder})
}

// of are the headers of a user.
func of(user string, more ...string) []string {
	return append([]string{"authorization", "Bearer secret-of-tenant-" + user}, more...)
}

// S4-013, S4-014, S4-052, S4-066, S4-068: whichever way a caller tries whatever RPC, a
// thread, task, agent or skill of another tenant looks exactly like one that does not
// exist, and another tenant exactly like one that does not.
func TestForeignThingsLookUnknownToEveryRPC(t *testing.T) {
	texttest.Fixed(t)
	everyRPC(t, "b")
}

// part of T3: so do those of a colleague who did not share them.
func TestAColleaguesThingsLookUnknownToEveryRPC(t *testing.T) {
	texttest.Fixed(t)
	everyRPC(t, "eve")
}

// occupied has the owner, whose token it is, have a thread with a task that asks, with a
// webhook, and, in a tenant of its own, an agent and a skill.
func occupied(t *testing.T, m *testMesh, owner string) things {
	t.Helper()
	conn := m.raw(t)
	// The agent is the first of any list: who reads the first alone has seen it.
	x := things{thread: mesh.NewThreadID(), agent: "another", skill: "workflows.theirs", kind: "tasks"}
	stream, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(as(plain(t), owner, "thread-id", x.thread), say("make a skill "+secretWord))
	x.task = hear(t, stream, err).task.GetId()
	if _, err := a2apb.NewA2AServiceClient(conn).CreateTaskPushNotificationConfig(as(plain(t), owner),
		&a2apb.TaskPushNotificationConfig{TaskId: x.task, Id: "c", Url: "https://127.0.0.1:9/" + secretWord}); err != nil {
		t.Fatal(err)
	}
	if owner == "eve" { // colleagues have agents and skills together
		x.agent, x.skill = "nobody", "workflows.none"
		return x
	}
	joinAs(as(plain(t), owner), t, conn, x.agent, &tap{name: secretWord}, true)
	if _, err = meshv1.NewSkillServiceClient(conn).CreateSkill(as(plain(t), owner), &meshv1.CreateSkillRequest{Source: source(x.skill)}); err != nil {
		t.Fatal(err)
	}
	return x
}

// everyRPC has a's user try everything with what is the owner's, whose token it is.
func everyRPC(t *testing.T, owner string) {
	t.Helper()
	m := guarded(t)
	theirs := occupied(t, m, owner)
	none := theirs
	none.thread, none.agent, none.skill = mesh.NewThreadID(), "nobody", "workflows.none"
	none.task = string(mesh.NewExecutionID(none.thread))
	all := ways(t, m)
	if len(all) < 180 {
		t.Errorf("only %d ways were tried", len(all))
	}
	for _, w := range all {
		t.Run(w.name, func(t *testing.T) {
			for what, headers := range map[string]func(x things) []string{
				"in the request":      func(things) []string { return of("a") },
				"and in the metadata": func(x things) []string { return of("a", "thread-id", x.thread) },
			} {
				a, b := w.call(t, theirs, headers(theirs)), w.call(t, none, headers(none))
				same(t, what, theirs.unnamed(a), none.unnamed(b))
				useless := slices.Contains([]string{"UNKNOWN", "INVALID_ARGUMENT", "UNIMPLEMENTED", "none"}, a.code) && w.ask.own != codes.Unknown
				if useless || strings.Contains(a.text, secretWord) {
					t.Errorf("%s: %s", what, a.text)
				}
			}
			a, b := w.call(t, theirs, of("a", "tenant-id", "b")), w.call(t, theirs, of("a", "tenant-id", "zz"))
			if same(t, "tenant in the metadata", a, b); a.code == "OK" {
				t.Errorf("a call for tenant b with a's token went through")
			}
		})
	}

	// And the owner's task is as it was.
	next := say("x.y")
	next.Message.TaskId = theirs.task
	stream, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(as(plain(t), owner), next)
	if s := hear(t, stream, err); s.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("the owner's task ended %v: %v", s.state, s.status)
	}
}

// unnamed is what was told, without the names that the caller chose. Of what went well,
// only that it did: it has times in it.
func (x things) unnamed(g told) told {
	if g.code == "OK" {
		return told{code: "OK"}
	}
	g.text = strings.NewReplacer(x.thread, "THREAD", x.task, "TASK", x.agent, "AGENT", x.skill, "SKILL",
		strings.ReplaceAll(x.skill, ".", "-"), "SKILL").Replace(g.text)
	return g
}

// same compares what was told of two things.
func same(t *testing.T, what string, a, b told) {
	t.Helper()
	if a != b {
		t.Errorf("%s: the answers differ:\nforeign: %s\nunknown: %s", what, a.text, b.text)
	}
}

// A worker is an agent at work, with what it was called with and what it got for that.
type worker struct {
	ticket, grant, secret string
	things                things
	end                   func()
}

// atWork has a new agent work in a thread of a's user until its end. Who registers it, by
// whose token, says whether it is trusted.
func (m *testMesh) atWork(t *testing.T, name, by string) worker {
	t.Helper()
	called, release := make(chan metadata.MD, 1), make(chan struct{})
	w := worker{secret: joinAs(as(plain(t), by), t, m.raw(t), name, &thief{try: func(md metadata.MD) { called <- md; <-release }}, true)}
	conn := m.raw(t)
	heard := make(chan error, 1)
	ctx, cancel := context.WithTimeout(as(context.Background(), "a", "agent", name), 10*time.Minute)
	go func() {
		_, err := a2apb.NewA2AServiceClient(conn).SendMessage(ctx, say("work"))
		heard <- err
	}()
	ended := false
	w.end = func() {
		if !ended {
			ended = true
			close(release)
			if err := <-heard; err != nil {
				t.Errorf("the turn of %s: %v", name, err)
			}
			cancel()
		}
	}
	t.Cleanup(w.end)
	md := <-called
	w.ticket = one(md, "mesh-ticket")
	w.things = things{thread: one(md, "thread-id"), task: one(md, "execution-id"), agent: name, skill: "workflows.mine", kind: name}
	w.grant = w.redeem(t, m)
	return w
}

func (w worker) redeem(t *testing.T, m *testMesh) string {
	t.Helper()
	ctx := metadata.NewOutgoingContext(plain(t), metadata.Pairs("mesh-ticket", w.ticket, "mesh-holder", w.secret))
	res, err := meshv1.NewGrantServiceClient(m.raw(t)).RedeemTicket(ctx, &meshv1.RedeemTicketRequest{})
	if err != nil {
		t.Fatal(rpc.FromStatus(err))
	}
	return res.GetGrant()
}

// under are the headers of who calls with the grant, as the holder of the secret.
func (w worker) under(grant, secret string) []string {
	return []string{"mesh-grant", grant, "mesh-holder", secret}
}

// A caller tries all ways with the same headers about the same things.
type caller struct {
	headers []string
	things  things
	want    func(ask) codes.Code
}

// is wants a code, but of methods that look for a proof of their own, which refuse it.
func is(c codes.Code) func(ask) codes.Code { return func(ask) codes.Code { return c } }

// working is what an agent at work is told, and when that is over.
func working(trust, over bool) func(ask) codes.Code {
	return func(a ask) codes.Code {
		switch {
		case a.agents == open || a.agents == ticket:
			return codes.Unauthenticated
		case a.agents == never || a.agents == trusted && !trust:
			return codes.PermissionDenied
		case over && a.dead != 0:
			return a.dead
		case over:
			return codes.FailedPrecondition
		}
		return a.own
	}
}

// parts of T1, T2 and T6: whichever way whatever RPC is tried, agents at work may do what
// the table of requests says, in their own thread, as long as they work; and who has what
// is another's, or is over, or was never good, is refused.
func TestEveryRPCUnderEveryCredential(t *testing.T) {
	texttest.Fixed(t)
	m := guarded(t)
	conn := m.raw(t)
	if _, err := meshv1.NewSkillServiceClient(conn).CreateSkill(as(plain(t), "a"), &meshv1.CreateSkillRequest{Source: source("workflows.mine")}); err != nil {
		t.Fatal(err)
	}
	theirs := occupied(t, m, "eve")
	none := theirs
	none.thread = mesh.NewThreadID()
	none.task = string(mesh.NewExecutionID(none.thread))

	guest, friend, gone, other := m.atWork(t, "guest", "a"), m.atWork(t, "friend", "admin"), m.atWork(t, "gone", "admin"), m.atWork(t, "other", "admin")
	gone.end()
	other.end()
	forged := m.forge(t, friend)
	revokeHere(t, m)

	callers := map[string]caller{
		"an agent that nobody trusts":        {guest.under(guest.grant, guest.secret), guest.things, working(false, false)},
		"an agent that is trusted":           {friend.under(friend.grant, friend.secret), friend.things, working(true, false)},
		"an agent whose work is over":        {gone.under(gone.grant, gone.secret), gone.things, working(true, true)},
		"a grant without its holder":         {[]string{"mesh-grant", friend.grant}, friend.things, is(codes.Unauthenticated)},
		"a grant with another's secret":      {friend.under(friend.grant, guest.secret), friend.things, is(codes.Unauthenticated)},
		"a grant with its user's token":      {append(of("a"), "mesh-grant", friend.grant), friend.things, is(codes.Unauthenticated)},
		"a ticket in place of a grant":       {friend.under(friend.ticket, friend.secret), friend.things, is(codes.Unauthenticated)},
		"a grant in place of a ticket":       {[]string{"mesh-ticket", friend.grant, "mesh-holder", friend.secret}, friend.things, is(codes.Unauthenticated)},
		"a ticket with another's secret":     {[]string{"mesh-ticket", friend.ticket, "mesh-holder", guest.secret}, friend.things, is(codes.Unauthenticated)},
		"a grant of another mesh":            {friend.under(forged["another key"], friend.secret), friend.things, is(codes.Unauthenticated)},
		"a grant for an agent of all":        {friend.under(forged["another audience"], friend.secret), friend.things, is(codes.Unauthenticated)},
		"a grant that has expired":           {friend.under(forged["expired"], friend.secret), friend.things, is(codes.Unauthenticated)},
		"a token that nobody has":            {of("nobody"), theirs, is(codes.Unauthenticated)},
		"a token that has expired":           {of("expired"), theirs, is(codes.Unauthenticated)},
		"a token that does not count yet":    {of("early"), theirs, is(codes.Unauthenticated)},
		"a token that was disabled":          {of("disabled"), theirs, is(codes.Unauthenticated)},
		"a token of a user who was revoked":  {of("revoked"), theirs, is(codes.Unauthenticated)},
		"nobody":                             {nil, theirs, is(codes.Unauthenticated)},
		"who says to be a user":              {[]string{"user-id", "eve", "tenant-id", "a"}, theirs, is(codes.Unauthenticated)},
		"an agent's secret without a grant":  {[]string{"mesh-holder", friend.secret}, friend.things, is(codes.Unauthenticated)},
		"a ticket for what is already begun": {[]string{"mesh-ticket", friend.ticket, "mesh-holder", friend.secret}, friend.things, ticketOnly},
	}
	for _, w := range ways(t, m) {
		t.Run(w.name, func(t *testing.T) {
			for who, c := range callers {
				got := w.call(t, c.things, c.headers)
				want := code.Code(c.want(w.ask)).String()
				if got.code != want {
					t.Errorf("%s: %s, want %s", who, got.text, want)
				}
			}
			for who, a := range map[string]worker{"trusted": friend, "not trusted": guest} {
				x, y := w.call(t, theirs, a.under(a.grant, a.secret)), w.call(t, none, a.under(a.grant, a.secret))
				same(t, "another's thread, to an agent at work that is "+who, theirs.unnamed(x), none.unnamed(y))
				if strings.Contains(x.text, secretWord) {
					t.Errorf("another's thread is told to an agent: %s", x.text)
				}
			}
		})
	}
}

// ticketOnly is what a ticket is good for: to be redeemed, again too while the work goes on.
func ticketOnly(a ask) codes.Code {
	if a.agents == ticket {
		return codes.OK
	}
	return codes.Unauthenticated
}

// forge makes grants that are as the agent's, but for something.
func (m *testMesh) forge(t *testing.T, w worker) map[string]string {
	t.Helper()
	key, err := grant.LoadOrCreateKey(filepath.Join(m.data, "grant.key"))
	if err != nil {
		t.Fatal(err)
	}
	another, err := grant.NewSigner([]byte(strings.Repeat("x", 32)))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := grant.NewVerifier(key.Public(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	is, err := verifier.Check(w.grant)
	if err != nil {
		t.Fatal(err)
	}
	all, expired := *is, *is
	all.Holder, expired.Expires = "", time.Now().Add(-time.Hour).Unix()
	return map[string]string{"another key": another.Issue(*is), "another audience": key.Issue(all), "expired": key.Issue(expired)}
}

// revokeHere revokes the user of that name, and returns when all nodes know.
func revokeHere(t *testing.T, m *testMesh) {
	t.Helper()
	conns := m.raw(t)
	if _, err := meshv1.NewAccessServiceClient(conns).RevokeUser(as(plain(t), "admin"), &meshv1.RevokeUserRequest{UserId: "revoked"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		for _, conn := range conns {
			if _, err := meshv1.NewAccessServiceClient(conn).GetAccess(as(plain(t), "revoked"), &meshv1.GetAccessRequest{}); err == nil {
				return fmt.Errorf("a node takes the token")
			}
		}
		return nil
	})
}
