package grant_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/grant"

	"github.com/google/go-cmp/cmp"
)

const (
	thread = "550e8400-e29b-41d4-a716-446655440000"
	turn   = mesh.ExecutionID("550e8400e29b41d4a716446655440000-00000000000000aa")
	run    = mesh.ExecutionID("550e8400e29b41d4a716446655440000-00000000000000bb")
	child  = mesh.ExecutionID("550e8400e29b41d4a716446655440000-00000000000000cc")
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// full returns a grant in which everything is set.
func full() mesh.Grant {
	return mesh.Grant{
		Tenant: "acme", User: "alice@example.com", Thread: thread, Execution: run, Parent: turn, Turn: turn,
		Agent: "orchestrator", Chain: []mesh.Actor{{Agent: "main"}, {Agent: "orchestrator"}}, Skills: []string{"mail.*", "tasks.search"},
		ID: "t-1", Holder: "acme", Capabilities: []mesh.Capability{mesh.CapHandoff}, Depth: 2, Expires: now.Add(time.Hour).Unix(),
	}
}

func signer(t testing.TB, seed byte) *grant.Signer {
	t.Helper()
	s, err := grant.NewSigner(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func verifier(t testing.TB, s *grant.Signer, at time.Time) *grant.Verifier {
	t.Helper()
	v, err := grant.NewVerifier(s.Public(), func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestACheckedGrantIsTheOneThatWasIssued(t *testing.T) {
	s := signer(t, 1)
	for name, g := range map[string]mesh.Grant{
		"with everything": full(),
		"with the least":  {Tenant: "acme", User: "alice", Thread: thread, Execution: turn, Expires: now.Unix() + 1},
		"with odd text":   {Tenant: "acme", User: "Zoë <z>\n", Thread: thread, Execution: turn, Expires: now.Unix() + 1},
	} {
		token := s.Issue(g)
		got, err := verifier(t, s, now).Check(token)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(&g, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%s: the token does not fit into a header: %q", name, token)
		}
	}
}

// The test does not trust one byte of the token to be unimportant.
// Who issued a token knows it. Others check the signature, once.
func TestATokenPassesInAProcessThatDidNotIssueIt(t *testing.T) {
	s := signer(t, 1)
	token := s.Issue(full())
	v, other := verifier(t, s, now), verifier(t, signer(t, 2), now)
	for _, when := range []string{"known", "unknown", "checked before"} {
		if _, err := other.Check(token); err == nil {
			t.Errorf("%s: a verifier of another signer's grants lets it pass", when)
		}
		if when == "unknown" {
			grant.Forget()
		}
		got, err := v.Check(token)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if diff := cmp.Diff(full(), *got); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
		got.Depth, got.Chain = 99, append(got.Chain, mesh.Actor{Agent: "intruder"})
	}
	if _, err := verifier(t, s, now.Add(2*time.Hour)).Check(token); err == nil {
		t.Error("a token that was checked before passes after its end")
	}
}

func TestATokenWithAnyCharacterChangedIsRefused(t *testing.T) {
	s := signer(t, 1)
	v := verifier(t, s, now)
	token := s.Issue(full())
	for i := range token {
		for _, c := range []byte{'A', 'B', '_', '.', '=', '\n', 0} {
			if token[i] == c {
				continue
			}
			forged := token[:i] + string(c) + token[i+1:]
			if g, err := v.Check(forged); !mesh.IsCode(err, mesh.Unauthenticated) || g != nil {
				t.Fatalf("with %q at %d: %v, %v; want unauthenticated", c, i, g, err)
			}
		}
	}
}

func TestOnlyWholeTokensOfThisSignerPass(t *testing.T) {
	s, other := signer(t, 1), signer(t, 2)
	token := s.Issue(full())
	parts := strings.Split(token, ".")
	payload, sig := parts[1], parts[2]
	key := parts[0] + "."
	otherPayload := strings.Split(s.Issue(mesh.Grant{Tenant: "umbrella", User: "alice", Thread: thread, Execution: turn, Expires: now.Unix() + 9}), ".")[1]
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		t.Fatal(err)
	}
	// The node's key over the payload without the prefix that says what it is.
	bare := ed25519.Sign(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)), raw)
	v := verifier(t, s, now)
	for name, forged := range map[string]string{
		"nothing":                         "",
		"a dot":                           ".",
		"the payload alone":               key + payload,
		"a payload without signature":     key + payload + ".",
		"a signature without payload":     key + "." + sig,
		"another signer's":                other.Issue(full()),
		"another grant's payload":         otherPayload + key + "." + sig,
		"a third part":                    token + "." + sig,
		"no key":                          payload + "." + sig,
		"a ticket":                        s.Ticket(full(), now),
		"padding":                         token + "=",
		"a line end":                      token + "\n",
		"a line end inside":               token[:9] + "\r\n" + token[9:],
		"a space before":                  " " + token,
		"a signature of something else":   key + payload + "." + base64.RawURLEncoding.EncodeToString(bare),
		"spare bits that are set":         token[:len(token)-1] + nextDigit(token[len(token)-1]),
		"a signature cut short":           token[:len(token)-2],
		"more than a header holds":        strings.Repeat("A", grant.MaxToken) + key + "." + sig,
		"standard instead of url base 64": strings.NewReplacer("-", "+", "_", "/").Replace(token) + "+",
	} {
		if g, err := v.Check(forged); !mesh.IsCode(err, mesh.Unauthenticated) || g != nil || mesh.DetailOf(err) == "" {
			t.Errorf("%s: %v, %v; want unauthenticated with a detail", name, g, err)
		}
	}
	if _, err := v.Check(token); err != nil {
		t.Errorf("the token itself: %v", err)
	}
}

// nextDigit returns the base64url digit whose last bit is set beside c's, whose
// last four are spare in the last digit of 64 bytes.
func nextDigit(c byte) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(digits[strings.IndexByte(digits, c)|1])
}

func TestAGrantEndsInTheSecondItSays(t *testing.T) {
	s := signer(t, 1)
	g := full()
	token := s.Issue(g)
	end := time.Unix(g.Expires, 0)
	if _, err := verifier(t, s, end.Add(-time.Nanosecond)).Check(token); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	_, err := verifier(t, s, end).Check(token)
	if !mesh.IsCode(err, mesh.Unauthenticated) || !strings.Contains(mesh.DetailOf(err), "expired at 2026-11-20T13:00:00Z") {
		t.Errorf("at its end: %v, want unauthenticated: expired at ...", err)
	}
	g.Expires = 0
	if _, err := verifier(t, s, now).Check(s.Issue(g)); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("without an end: %v, want unauthenticated", err)
	}
}

// S4-013: a grant is bound to a tenant and a thread of that tenant.
func TestAGrantForNobodyOrNothingIsRefused(t *testing.T) {
	s := signer(t, 1)
	for name, change := range map[string]func(*mesh.Grant){
		"no tenant":                 func(g *mesh.Grant) { g.Tenant = "" },
		"a tenant that is no name":  func(g *mesh.Grant) { g.Tenant = "a/b" },
		"no user":                   func(g *mesh.Grant) { g.User = "" },
		"no thread":                 func(g *mesh.Grant) { g.Thread = "" },
		"a thread in upper case":    func(g *mesh.Grant) { g.Thread = strings.ToUpper(thread) },
		"no execution":              func(g *mesh.Grant) { g.Execution = "" },
		"another thread's":          func(g *mesh.Grant) { g.Thread = "c56a4180-65aa-42ec-a945-5fd21dec0538" },
		"a depth of less than zero": func(g *mesh.Grant) { g.Depth = -1 },
	} {
		g := full()
		change(&g)
		if _, err := verifier(t, s, now).Check(s.Issue(g)); !mesh.IsCode(err, mesh.Unauthenticated) {
			t.Errorf("%s: %v, want unauthenticated", name, err)
		}
	}
}

func TestAPayloadOfAnotherVersionIsRefused(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	sign := func(payload string) string {
		sig := ed25519.Sign(key, []byte("agentmesh grant v2\x00"+payload))
		id, _, _ := strings.Cut(signer(t, 1).Issue(full()), ".")
		return id + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "." + base64.RawURLEncoding.EncodeToString(sig)
	}
	form := `{"v":%s,"ten":"acme","usr":"alice","thr":"` + thread + `","exe":"` + string(turn) + `","exp":9999999999}`
	v := verifier(t, signer(t, 1), now)
	if _, err := v.Check(sign(fmt.Sprintf(form, "2"))); err != nil {
		t.Fatalf("version 2, by hand: %v", err)
	}
	for name, payload := range map[string]string{
		"version 1": fmt.Sprintf(form, "1"), "version 0": fmt.Sprintf(form, "0"), "no number": fmt.Sprintf(form, `"2"`),
		"no JSON": "grant", "nothing": "", "a list": "[]",
	} {
		if _, err := v.Check(sign(payload)); !mesh.IsCode(err, mesh.Unauthenticated) {
			t.Errorf("%s: %v, want unauthenticated", name, err)
		}
	}
}

func TestKeysOfTheWrongLengthAreRefused(t *testing.T) {
	if _, err := grant.NewSigner(make([]byte, 31)); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("NewSigner: %v, want invalid", err)
	}
	if _, err := grant.NewVerifier(nil, nil); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("NewVerifier: %v, want invalid", err)
	}
}

// What is dry stays so, in the token and below it, and has nobody act for it outside of the mesh.
func TestWhatIsDryStaysSo(t *testing.T) {
	parent := full()
	for name, child := range map[string]mesh.Execution{"of the parent": {ID: child}, "of its own": {ID: child, Dry: true}} {
		parent.Dry = !child.Dry
		g, err := grant.Narrow(&parent, child, "mail", nil, now)
		if err != nil || !g.Dry || g.Depth != 0 || len(g.Capabilities) > 0 {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
		s := signer(t, 1)
		if got, err := verifier(t, s, now).Check(s.Issue(g)); err != nil || !got.Dry {
			t.Errorf("%s: checked %+v, %v", name, got, err)
		}
	}
}

// Without a clock of its own, a verifier has the machine's.
func TestAVerifierWithoutAClockUsesThePresent(t *testing.T) {
	s := signer(t, 1)
	v, err := grant.NewVerifier(s.Public(), nil)
	if err != nil {
		t.Fatal(err)
	}
	g := full()
	for end, valid := range map[time.Duration]bool{time.Hour: true, -time.Hour: false} {
		g.Expires = time.Now().Add(end).Unix()
		if _, err := v.Check(s.Issue(g)); (err == nil) != valid {
			t.Errorf("ending in %v: %v", end, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	s := signer(f, 1)
	v := verifier(f, s, now)
	g := full()
	token := s.Issue(g)
	for _, seed := range []string{token, "", ".", "e30.e30", token[:len(token)-1], "A." + token, token + "\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := v.Check(text)
		switch {
		case text == token:
			if diff := cmp.Diff(&g, got); diff != "" || err != nil {
				t.Errorf("the token itself: %v\n%s", err, diff)
			}
		case !mesh.IsCode(err, mesh.Unauthenticated) || got != nil:
			t.Errorf("forged %q: %v, %v", text, got, err)
		}
	})
}

func ExampleNarrow() {
	parent := full()
	g, err := grant.Narrow(&parent, mesh.Execution{ID: child}, "mail", []string{"mail.send"}, now)
	fmt.Println(g.Agents(), g.Skills, g.Depth, err)
	_, err = grant.Narrow(&g, mesh.Execution{ID: run}, "main", nil, now)
	fmt.Println(mesh.DetailOf(err))
	// Output:
	// [main orchestrator mail] [mail.send] 1 <nil>
	// the agents would call each other in a cycle: main -> orchestrator -> mail -> main; ask another agent, or answer
}

func TestNarrowKeepsWhoseWorkItIsAndNeverAdds(t *testing.T) {
	parent := full()
	before := full()
	got, err := grant.Narrow(&parent, mesh.Execution{ID: child, Parent: run}, "mail", []string{"mail.*", "tasks.search"}, now)
	if err != nil {
		t.Fatal(err)
	}
	want := full()
	want.Execution, want.Parent, want.Agent = child, run, "mail"
	want.ID, want.Holder, want.Chain, want.Depth = "", "", append(want.Chain, mesh.Actor{Agent: "mail", Execution: child}), 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("child (-want +got):\n%s", diff)
	}
	got.Chain[0].Agent, got.Skills[0], got.Capabilities[0] = "x", "x", "x"
	if diff := cmp.Diff(before, parent); diff != "" {
		t.Errorf("changing the child changed the parent:\n%s", diff)
	}
	if _, err := verifier(t, signer(t, 1), now).Check(signer(t, 1).Issue(want)); err != nil {
		t.Errorf("the child's grant does not pass: %v", err)
	}
}

func TestNarrowEndsTheChildNoLaterThanItsParent(t *testing.T) {
	parent := full()
	for name, tt := range map[string]struct {
		deadline time.Time
		want     int64
	}{
		"with its parent without a deadline": {time.Time{}, parent.Expires},
		"at its deadline":                    {now.Add(time.Minute), now.Add(time.Minute).Unix()},
		"after a deadline within a second":   {now.Add(1500 * time.Millisecond), now.Unix() + 2},
		"with its parent before a deadline":  {now.Add(24 * time.Hour), parent.Expires},
	} {
		g, err := grant.Narrow(&parent, mesh.Execution{ID: child, Deadline: tt.deadline}, "mail", nil, now)
		if err != nil || g.Expires != tt.want {
			t.Errorf("%s: %d, %v; want %d", name, g.Expires, err, tt.want)
		}
	}
}

func TestNarrowNeverWidensTheBudget(t *testing.T) {
	parent := full()
	parent.Budget = mesh.Budget{Calls: 10, Tokens: 1000}
	for name, tt := range map[string]struct{ asked, want mesh.Budget }{
		"nothing of its own": {mesh.Budget{}, mesh.Budget{Calls: 10, Tokens: 1000}},
		"less":               {mesh.Budget{Calls: 3, Tokens: 1, Cost: 5}, mesh.Budget{Calls: 3, Tokens: 1, Cost: 5}},
		"more":               {mesh.Budget{Calls: 11, Tokens: 1 << 40}, mesh.Budget{Calls: 10, Tokens: 1000}},
	} {
		g, err := grant.Narrow(&parent, mesh.Execution{ID: child, Budget: tt.asked}, "mail", nil, now)
		if err != nil || g.Budget != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", name, g.Budget, err, tt.want)
		}
		if got, err := verifier(t, signer(t, 1), now).Check(signer(t, 1).Issue(g)); err != nil || got.Budget != tt.want {
			t.Errorf("%s: the grant says %+v, %v", name, got.Budget, err)
		}
	}
}

func TestNarrowRefuses(t *testing.T) {
	tests := map[string]struct {
		change func(*mesh.Grant)
		child  mesh.Execution
		agent  string
		skills []string
		code   mesh.Code
		says   string
	}{
		"an agent of the chain":       {child: mesh.Execution{ID: child}, agent: "main", code: mesh.Denied, says: "main -> orchestrator -> main"},
		"the agent itself":            {child: mesh.Execution{ID: child}, agent: "orchestrator", code: mesh.Denied, says: "orchestrator -> orchestrator"},
		"a name that is none":         {child: mesh.Execution{ID: child}, agent: "Mail Agent", code: mesh.Invalid, says: "name of an agent"},
		"all skills":                  {child: mesh.Execution{ID: child}, agent: "mail", skills: []string{"*"}, code: mesh.Denied, says: "the skill * "},
		"a whole domain for a skill":  {child: mesh.Execution{ID: child}, agent: "mail", skills: []string{"tasks.*"}, code: mesh.Denied, says: "tasks.*"},
		"another skill of the domain": {child: mesh.Execution{ID: child}, agent: "mail", skills: []string{"mail.send", "tasks.archive"}, code: mesh.Denied, says: "tasks.archive"},
		"another domain":              {child: mesh.Execution{ID: child}, agent: "mail", skills: []string{"mailbox.send"}, code: mesh.Denied, says: "mailbox.send"},
		"a star within a name":        {child: mesh.Execution{ID: child}, agent: "mail", skills: []string{"mail.s*"}, code: mesh.Invalid, says: "mail.s*"},
		"a star before the dot":       {child: mesh.Execution{ID: child}, agent: "mail", skills: []string{"*.send"}, code: mesh.Invalid, says: "*.send"},
		"an empty skill":              {child: mesh.Execution{ID: child}, agent: "mail", skills: []string{""}, code: mesh.Invalid, says: `""`},
		"too many skills":             {child: mesh.Execution{ID: child}, agent: "mail", skills: slices.Repeat([]string{"mail.send"}, grant.MaxSkills+1), code: mesh.Invalid, says: "at most 100"},
		"without depth":               {change: func(g *mesh.Grant) { g.Depth = 0 }, child: mesh.Execution{ID: child}, agent: "mail", code: mesh.Denied, says: "depth is used up by main -> orchestrator"},
		"after the parent's end":      {change: func(g *mesh.Grant) { g.Expires = now.Unix() }, child: mesh.Execution{ID: child}, agent: "mail", code: mesh.Unauthenticated, says: "expired"},
		"after the child's deadline":  {child: mesh.Execution{ID: child, Deadline: now}, agent: "mail", code: mesh.Timeout, says: "over before it begins"},
		"an execution elsewhere":      {child: mesh.Execution{ID: mesh.NewExecutionID(mesh.NewThreadID())}, agent: "mail", code: mesh.Invalid, says: thread},
		"an execution that is none":   {child: mesh.Execution{ID: "e1"}, agent: "mail", code: mesh.Invalid, says: "execution"},
		"somebody else's child":       {child: mesh.Execution{ID: child, Parent: turn}, agent: "mail", code: mesh.Denied, says: "below itself"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			parent := full()
			if tt.change != nil {
				tt.change(&parent)
			}
			g, err := grant.Narrow(&parent, tt.child, tt.agent, tt.skills, now)
			if !mesh.IsCode(err, tt.code) || !strings.Contains(mesh.DetailOf(err), tt.says) {
				t.Errorf("got %v, want %v saying %q", err, tt.code, tt.says)
			}
			if diff := cmp.Diff(mesh.Grant{}, g); diff != "" {
				t.Errorf("a refusal came with a grant:\n%s", diff)
			}
		})
	}
}

// The longest grants that Narrow makes still pass Check.
func TestTheLargestGrantFitsIntoAToken(t *testing.T) {
	g := full()
	g.Skills = nil
	for i := range grant.MaxSkills {
		g.Skills = append(g.Skills, fmt.Sprintf("%s.%02d", strings.Repeat("d", 97), i))
	}
	g.Depth = 8
	for i := range 8 {
		var err error
		parent := g
		g, err = grant.Narrow(&parent, mesh.Execution{ID: mesh.NewExecutionID(thread)}, fmt.Sprintf("agent-%d", i), parent.Skills, now)
		if err != nil {
			t.Fatal(err)
		}
	}
	token := signer(t, 1).Issue(g)
	if _, err := verifier(t, signer(t, 1), now).Check(token); err != nil {
		t.Errorf("token of %d bytes: %v", len(token), err)
	}
}

// A ticket is for the grant that was asked for, under an id of its own, is good for a
// minute give or take one, and is no grant; redeemed twice it is the same one.
func TestATicketIsGoodForAMinuteAndForOneGrant(t *testing.T) {
	s := signer(t, 1)
	first, second := s.Ticket(full(), now), s.Ticket(full(), now)
	got, err := verifier(t, s, now).CheckTicket(first)
	if err != nil {
		t.Fatal(err)
	}
	want := full()
	want.ID = got.ID
	if diff := cmp.Diff(&want, got); diff != "" || got.ID == "" || first == second {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if s.Issue(*got) != s.Issue(*got) {
		t.Error("redeemed twice, it is two grants")
	}
	for after, ok := range map[time.Duration]bool{
		-time.Hour: false, -61 * time.Second: false, -time.Minute: true, time.Minute: true, 2 * time.Minute: true, 121 * time.Second: false, time.Hour: false,
	} {
		if _, err := verifier(t, s, now.Add(after)).CheckTicket(first); (err == nil) != ok || err != nil && mesh.FieldOf(err) != "mesh-ticket" {
			t.Errorf("after %v: %v", after, err)
		}
	}
	for name, token := range map[string]string{"a grant": s.Issue(full()), "another mesh's": signer(t, 2).Ticket(full(), now), "nothing": ""} {
		if _, err := verifier(t, s, now).CheckTicket(token); !mesh.IsCode(err, mesh.Unauthenticated) {
			t.Errorf("%s passes as a ticket: %v", name, err)
		}
	}
	over := full()
	over.Expires = now.Unix()
	if _, err := verifier(t, s, now).CheckTicket(s.Ticket(over, now)); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("for a grant that is over: %v", err)
	}
}
