package memory_test

import (
	"strings"
	"testing"

	"agentmesh/mesh/skill/skilltest"
	"agentmesh/skills/memory"

	"github.com/google/go-cmp/cmp"
)

// Whether agents' results are remembered is each user's own choice, and off until then.
func TestSettings_areTheUsersOwn(t *testing.T) {
	state := new(skilltest.State)
	p := start(t, state, t.TempDir()).as("ann")
	learns := func(want bool) {
		t.Helper()
		s, err := memory.SettingsOf(t.Context(), skilltest.Of(state, "ann"))
		if err != nil || s.Learn != want {
			t.Errorf("learn is %v, %v", s.Learn, err)
		}
		if r := p.Call("memory.settings", "", args{}); !cmp.Equal(r.Metadata, args{"learn": want}) {
			t.Errorf("shown as %+v", r)
		}
	}
	learns(false)
	p.Call("memory.settings", "k1", args{"learn": "true"})
	learns(true)
	p.Call("memory.settings", "k2", args{"learn": true})
	learns(true)
	if r := p.Call("memory.settings", "", args{"learn": "perhaps"}); !r.Failed() || !strings.Contains(r.Content, "'learn'") {
		t.Errorf("a setting that is neither true nor false: %+v", r)
	}
	learns(true)
	if id := p.save(t, "k3", args{"content": "The user likes tea"}); id == "" {
		t.Error("nothing was saved beside the settings")
	}
	p.Call("memory.settings", "k4", args{"learn": "false"})
	learns(false)
	for name, had := range map[string][]byte{"none": nil, "some": []byte(`{"learn":false}`)} {
		got, err := memory.Merge("bob", "settings", had, []byte(`{"learn":true}`))
		if want := string(had); err != nil || name == "some" && string(got) != want || name == "none" && string(got) != `{"learn":true}` {
			t.Errorf("given to who had %s: %s, %v", name, got, err)
		}
	}
}
