package limit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
)

func party(of string) limit.Party {
	tenant, user, _ := strings.Cut(of, "/")
	return limit.Party{Tenant: mesh.TenantID(tenant), User: user}
}

// finding T7: whoever's tenant holds the fewest places is next, then whose user does, then
// who came first; a share keeps out whose is full, and nobody else.
func TestALineServesWhoHoldsTheFewest(t *testing.T) {
	tests := map[string]struct {
		line        limit.Line[string]
		holds, wait string // NAME=TENANT/USER
		want        string
	}{
		"one user, as they came":     {limit.Line[string]{Most: 2}, "", "a=t/u b=t/u c=t/u", "a b"},
		"users of a tenant in turns": {limit.Line[string]{Most: 4}, "", "a=t/u b=t/u c=t/u d=t/v", "a d b c"},
		"tenants before users":       {limit.Line[string]{Most: 4}, "", "a=t/u b=t/v c=t/w d=s/u e=s/u", "a d b e"},
		"what is held counts":        {limit.Line[string]{Most: 5}, "x=t/u y=t/u z=s/u", "a=t/u b=t/v c=s/u", "c b"},
		"no more than there are":     {limit.Line[string]{Most: 1}, "x=t/u", "a=s/u", ""},
		"shares of users":            {limit.Line[string]{Most: 9, User: 2}, "x=t/u", "a=t/u b=t/u c=t/v", "c a"},
		"shares of tenants":          {limit.Line[string]{Most: 9, Tenant: 2}, "x=t/u", "a=t/u b=t/v c=s/u", "c b"},
		"places for all":             {limit.Line[string]{}, "x=t/u", "a=t/u b=t/u", "a b"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := &tt.line
			for _, f := range strings.Fields(tt.holds) {
				name, of, _ := strings.Cut(f, "=")
				l.Hold(name, party(of))
			}
			for _, f := range strings.Fields(tt.wait) {
				name, of, _ := strings.Cut(f, "=")
				l.Wait(name, party(of), l.Come())
			}
			want := strings.Fields(tt.want)
			if got := l.First(100); !slices.Equal(got, want) {
				t.Errorf("first are %v, want %v", got, want)
			}
			var got []string
			for k, ok := l.Next(); ok; k, ok = l.Next() {
				got = append(got, k)
			}
			if !slices.Equal(got, want) {
				t.Errorf("one after the other come %v, want %v", got, want)
			}
		})
	}
}

// The place that is told is that at which one comes, where places come free one by one and
// nobody holds one for longer than others.
func TestThePlaceInALineIsThatAtWhichOneComes(t *testing.T) {
	for name, users := range map[string][]string{
		"one user": {"t/u"}, "users": {"t/u", "t/u", "t/v"}, "tenants": {"t/u", "s/u"}, "one tenant has more users": {"t/u", "t/v", "s/u"},
	} {
		t.Run(name, func(t *testing.T) {
			var l limit.Line[int]
			l.Most = 1
			l.Hold(-1, party("x/y"))
			for i := range 12 {
				l.Wait(i, party(users[i%len(users)]), l.Come())
			}
			told := map[int]int{}
			for i := range 12 {
				told[i] = l.Place(i)
			}
			l.Most = 13 // who has come holds its place
			for at := 1; at <= 12; at++ {
				k, _ := l.Next()
				if told[k] < at {
					t.Errorf("who comes as number %d was told of place %d", at, told[k])
				}
				if users[0] == users[len(users)-1] && told[k] != at {
					t.Errorf("of one user, number %d was told of place %d", at, told[k])
				}
			}
		})
	}
}

// Who leaves is gone from wherever it was; who comes again keeps its place; and who came
// earlier waits before who was put into the line earlier.
func TestALineForgetsWhoLeaves(t *testing.T) {
	var l limit.Line[string]
	l.Most = 1
	first, second := l.Come(), l.Come()
	l.Hold("held", party("t/u"))
	l.Wait("late", party("t/u"), second)
	l.Wait("early", party("t/u"), first)
	l.Wait("late", party("t/u"), 0)
	l.Wait("held", party("t/u"), l.Come())
	if got := fmt.Sprint(l.Place("early"), l.Place("late"), l.Place("held"), l.Place("nobody"), l.Waiting(), l.Held()); got != "1 2 0 0 2 1" {
		t.Errorf("places: %s", got)
	}
	l.Leave("early")
	l.Leave("nobody")
	l.Leave("held")
	if k, ok := l.Next(); k != "late" || !ok || l.Waiting() != 0 || !l.Holds("late") || l.Free(party("s/u")) {
		t.Errorf("next is %q, %d wait", k, l.Waiting())
	}
	l.Leave("late")
	if _, ok := l.Next(); ok || l.Held() != 0 || !l.Free(party("t/u")) {
		t.Error("somebody is left")
	}
}
