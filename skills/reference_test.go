package skills_test

import (
	"slices"
	"strings"
	"testing"

	"agentmesh/mesh/skill"
)

// S3-054, S3-135: the skills that prompts speak of are there, with read or
// write access as their verbs say.
func TestFS_hasTheSkillsOfEachDomain(t *testing.T) {
	c := load(t)
	for domain, actions := range map[string]string{
		"mail": "send search read draft", "tasks": "create search get update delete archive",
		"calendar": "create list update", "system": "build_skill", "workflow": "build",
	} {
		for action := range strings.FieldsSeq(actions) {
			s, ok := c.Get(domain + "." + action)
			if !ok {
				t.Errorf("there is no %s.%s", domain, action)
			} else if s.Access != skill.DefaultAccess(action) || s.RequiresApproval || s.Confirm != "" {
				t.Errorf("%s has access %q and asks %q", s.Name, s.Access, s.Confirm)
			}
		}
	}
}

// S3-089: the common commands have the flags of the quick reference.
func TestFS_hasTheFlagsOfTheQuickReference(t *testing.T) {
	c := load(t)
	for name, flags := range map[string]string{
		"tasks.create": "title due priority tags", "tasks.search": "query status limit", "tasks.get": "task_id task_ids recent limit",
		"mail.send": "to subject body", "mail.search": "query from limit", "calendar.create": "title start end attendees",
	} {
		s, ok := c.Get(name)
		for flag := range strings.FieldsSeq(flags) {
			if !ok || !slices.ContainsFunc(s.Parameters, func(p skill.Parameter) bool { return p.Name == flag }) {
				t.Errorf("%s has no flag --%s", name, flag)
			}
		}
	}
}
