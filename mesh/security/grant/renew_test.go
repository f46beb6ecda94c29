package grant_test

import (
	"slices"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/grant"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// An agent that waited for the user has the grant again that it had, for as
// long as it had it, whatever time went by.
func TestARenewedGrantIsTheFirstOneAtALaterTime(t *testing.T) {
	parent := full()
	x := mesh.Execution{ID: child, Parent: run, Agent: "mail", Skills: []string{"mail.send"}, Deadline: now.Add(5 * time.Minute)}
	first, err := grant.Narrow(&parent, x, x.Agent, x.Skills, now)
	if err != nil {
		t.Fatal(err)
	}
	later := now.Add(48 * time.Hour) // the parent has been renewed by then
	parent.Expires = later.Add(time.Hour).Unix()
	again, err := grant.Renew(&parent, x, now, later)
	if err != nil {
		t.Fatal(err)
	}
	if want := later.Add(5 * time.Minute).Unix(); again.Expires != want {
		t.Errorf("it ends at %d, want %d", again.Expires, want)
	}
	again.Expires = first.Expires
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("(-first +renewed)\n%s", diff)
	}
}

// Whatever parent and execution are, a renewed grant has nothing that the first
// one did not have, lasts no longer, and never outlives the parent's.
func TestARenewedGrantNeverExceedsTheFirst(t *testing.T) {
	skills := []string{"mail.send", "mail.*", "tasks.search", "tasks.*", "*", "calendar.create"}
	rapid.Check(t, func(t *rapid.T) {
		parent := full()
		parent.Skills = rapid.SliceOfN(rapid.SampledFrom(skills), 0, 3).Draw(t, "parent's skills")
		parent.Depth = rapid.IntRange(0, 3).Draw(t, "depth")
		x := mesh.Execution{ID: child, Parent: run, Agent: rapid.SampledFrom([]string{"mail", "main", "orchestrator"}).Draw(t, "agent"),
			Skills: rapid.SliceOfN(rapid.SampledFrom(skills), 0, 3).Draw(t, "skills")}
		if n := rapid.IntRange(0, 7200_000).Draw(t, "ms"); n > 0 {
			x.Deadline = now.Add(time.Duration(n) * time.Millisecond)
		}
		first, firstErr := grant.Narrow(&parent, x, x.Agent, x.Skills, now)
		later := now.Add(time.Duration(rapid.IntRange(0, 100_000).Draw(t, "later")) * time.Second)
		parent.Expires = later.Add(time.Duration(rapid.IntRange(1, 7200).Draw(t, "left")) * time.Second).Unix()
		again, err := grant.Renew(&parent, x, now, later)
		if (err == nil) != (firstErr == nil) || mesh.CodeOf(err) != mesh.CodeOf(firstErr) {
			t.Fatalf("first: %v, renewed: %v", firstErr, err)
		}
		if err != nil {
			return
		}
		if again.Expires > parent.Expires {
			t.Fatalf("it ends at %d, the parent's at %d", again.Expires, parent.Expires)
		}
		had, has := time.Unix(first.Expires, 0).Sub(now), time.Unix(again.Expires, 0).Sub(later)
		if !x.Deadline.IsZero() && has > max(had, x.Deadline.Sub(now), time.Second)+time.Second { // whole seconds
			t.Fatalf("it lasts %v, and %v at first", has, had)
		}
		for _, s := range again.Skills {
			if !slices.Contains(first.Skills, s) || !parent.AllowsSkill(s) {
				t.Fatalf("%s is new", s)
			}
		}
		again.Expires = first.Expires
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("(-first +renewed)\n%s", diff)
		}
	})
}

func TestAGrantIsNotRenewedUnderOneThatIsOver(t *testing.T) {
	parent := full()
	x := mesh.Execution{ID: child, Parent: run, Agent: "mail", Skills: []string{"mail.send"}}
	if _, err := grant.Renew(&parent, x, now, now.Add(2*time.Hour)); !mesh.IsCode(err, mesh.Unauthenticated) {
		t.Errorf("got %v", err)
	}
}
