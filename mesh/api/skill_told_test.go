package api

import (
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"agentmesh/mesh/skill"
)

// A skill is told in the same words to everyone as long as it is there, and a skill
// that came in its place in its own.
func TestASkillIsToldOnceAndForgottenWithIt(t *testing.T) {
	var to telling
	remembered := func() (n int) {
		to.told.Range(func(any, any) bool { n++; return true })
		return n
	}
	tell := func(s *skill.Skill) {
		t.Helper()
		for _, texts := range []bool{true, false} {
			p, bytes := to.of(s, texts)
			if again, _ := to.of(s, texts); again != p || bytes != proto.Size(p) || !proto.Equal(p, skillProto(s, texts)) {
				t.Errorf("with texts %v: %v of %d bytes, and again %v", texts, p, bytes, again)
			}
		}
	}
	old := &skill.Skill{Name: "a.b", Body: "Old.", Tags: []string{"x"}}
	tell(old)
	tell(&skill.Skill{Name: "a.b", Body: "New.", Tags: []string{"x"}})
	for deadline := time.Now().Add(time.Minute); remembered() != 2 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		runtime.GC()
	}
	if n := remembered(); n != 2 {
		t.Errorf("%d tellings are kept, of one skill", n)
	}
	tell(old)
}
