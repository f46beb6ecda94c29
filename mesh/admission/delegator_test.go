package admission

import (
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// shelf is skills of tenants that change while a test runs.
type shelf struct {
	Skills
	of map[mesh.TenantID]*skill.Catalog
}

func (s *shelf) For(t mesh.TenantID) *skill.Catalog { return s.of[t] }

// put changes the access of the tenant's mail.send.
func (s *shelf) put(t *testing.T, tenant mesh.TenantID, access string) {
	t.Helper()
	sk, err := skill.Parse("", []byte("---\nname: mail.send\ndescription: Sends.\nhandler: mail.send\naccess: "+access+"\n---\n# Send\n"))
	if err != nil {
		t.Fatal(err)
	}
	s.of[tenant].Put(sk)
}

// C1 row 6, S0-003: an agent that has others do its work logs no call of a skill,
// nor a question whether it may make one; where it may read, only those of skills
// with the access read, as the files of its tenant are at that moment. What it
// grants to others stays whole.
func TestAnAgentThatDelegatesCallsOnlyWhatReads(t *testing.T) {
	t.Parallel()
	skills := &shelf{of: map[mesh.TenantID]*skill.Catalog{"acme": new(skill.Catalog), "globex": new(skill.Catalog)}}
	skills.put(t, "acme", "write")
	skills.put(t, "globex", "read") // is nothing to acme
	none, reads := newLibrary(t, WithSkills(skills), WithDelegators(false, "main", "orchestrator")), newLibrary(t, WithSkills(skills), WithDelegators(true, "main", "orchestrator"))
	for _, step := range []struct {
		what   string
		access string // of mail.send from here on; "" as before
		l      *library
		agent  string
		skill  string
		words  []string // of the refusal
	}{
		{"main, which may not read", "read", none, "main", "mail.send", []string{"main calls no skills itself", "dispatch an agent"}},
		{"the orchestrator, which may not read", "", none, "orchestrator", "mail.send", []string{"calls no skills itself"}},
		{"another agent", "write", none, "mailer", "mail.send", nil},
		{"a skill that writes", "", reads, "orchestrator", "mail.send", []string{"only skills with the access read", `"mail.send" is none`, "dispatch an agent"}},
		{"a skill that reads", "read", reads, "orchestrator", "mail.send", nil},
		{"a skill that reads, by main", "", reads, "main", "mail.send", nil},
		{"a skill that reads no more", "write", reads, "main", "mail.send", []string{"only skills with the access read"}},
		{"a skill that nobody knows", "", reads, "main", "mail.other", []string{"only skills with the access read"}},
		{"a skill that is not granted", "", reads, "main", "docs.write", []string{"is not granted"}},
		{"another agent, where some may read", "", reads, "mailer", "mail.send", nil},
	} {
		t.Run(step.what, func(t *testing.T) {
			if step.access != "" {
				skills.put(t, "acme", step.access)
			}
			g := step.l.run(t, step.l.post(t), step.agent, "mail.*")
			for kind, body := range map[string]mesh.Body{
				"call": mesh.SkillCalled{Call: "1", Skill: step.skill}, "question": mesh.ApprovalAsked{Call: "2", Skill: step.skill, Text: "May I?"},
			} {
				_, err := step.l.add(t.Context(), g, &mesh.Event{Execution: g.Execution, Body: body})
				if step.words == nil && err != nil {
					t.Errorf("the %s is refused: %v", kind, err)
				} else if step.words != nil {
					wantCode(t, err, mesh.Denied, step.words...)
				}
			}
			if child := step.l.child(t, g, 0); !child.AllowsSkill("mail.send") {
				t.Errorf("it grants only %v", child.Skills)
			}
		})
	}
}
