package mainagent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/offline"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/text/texttest"
)

// finding O5, S4-071, S4-073: who may not create skills hears from main in one sentence
// which roles that takes, with a model and without one: control does not change hands, and
// nobody says that it does.
func TestMainLooksFirstWhetherTheUserMay(t *testing.T) {
	texttest.Fixed(t)
	const sentence = "Skill Creation Assistant works only for users with the permission skill:create, which these roles give: operator, skill-author, tenant-admin; ask the operator for one."
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	var entries strings.Builder
	for user, roles := range map[string]string{"bob": "user", "ann": "user, skill-author"} {
		entries.WriteString("- name: " + user + "\n  hash: " + auth.Hash("s3cret-of-"+user) + "\n  tenant: default\n  user: " + user + "\n  roles: [" + roles + "]\n")
	}
	if err := os.WriteFile(tokens, []byte(entries.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	const args = `{"agent":"skill-builder","reason":"a skill","summary":"wants one"}`
	for name, model := range map[string]func() llm.Model{
		"without a model": func() llm.Model { return offline.New(friday) },
		"with a model": func() llm.Model {
			return scripted.New(scripted.Call(mainToolHandoff, args), scripted.Say(sentence))
		},
	} {
		for user, may := range map[string]bool{"bob": false, "ann": true} {
			t.Run(name+", "+user, func(t *testing.T) {
				w := newWorld(t)
				w.model = model()
				m := meshtest.Start(t, w.all(), meshtest.Options{Tokens: tokens, Bearer: "s3cret-of-" + user})
				thread := mesh.NewThreadID()
				s := m.SayAs(mesh.Principal{}, thread, "I want to create a skill that sends Slack alerts")
				if connected := s.Heard("Connecting you"); connected != may || may != (s.State == input) {
					t.Errorf("ended %v, and main said that it connects: %v", s.State, connected)
				}
				if !may && (s.State != completed || strings.Count(s.Text, sentence) != 1 || strings.Contains(s.Text, "later")) {
					t.Errorf("ended %v and said %q, want %q", s.State, s.Text, sentence)
				}
			})
		}
	}
}

const mainToolHandoff = "request_handoff"
