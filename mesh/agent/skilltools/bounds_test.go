package skilltools

import (
	"testing"
	"time"

	"agentmesh/mesh/limit"
)

// S3-049: while the one call that the breaker lets through runs, no other does,
// however long a call may take.
func TestTheProbeTimeFollowsTheTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		0: limit.DefaultProbe, 30 * time.Second: 45 * time.Second, time.Minute: 90 * time.Second, time.Hour: 90 * time.Minute,
	} {
		if got := limit.ProbeTime(timeout); got != want {
			t.Errorf("with a timeout of %v it is %v, want %v", timeout, got, want)
		}
	}
	if limit.DefaultProbe < 45*time.Second {
		t.Errorf("by default it is %v", limit.DefaultProbe)
	}
}

// docs/skills.md and the bounds of providers have these numbers.
func TestHowManySkillsAreShown(t *testing.T) {
	if maxListed != 24 || maxDirect != 127 {
		t.Errorf("%d skills are described in full, %d have a tool each; want 24 and 127", maxListed, maxDirect)
	}
}
