package offline

import (
	"encoding/json"
	"slices"

	"agentmesh/mesh"
)

// carryOut makes the calls that the page of a skill says. It fails where the page is for a model
// to read, and where a call does: others take an execution that has ended well for one that has
// done what it was for.
func carryOut(t *turn) reply {
	p := t.about.Page
	_, steps := pageOf(p.Metadata)
	if len(steps) == 0 {
		return reply{text: needsModel(p.Skill), failed: mesh.ReasonNeedsModel}
	}
	t.steps = steps
	r, w := t.work()
	if w == nil || len(r.calls) == 0 && !r.ask && !r.declined && slices.ContainsFunc(w.all(), func(s *step) bool { return !w.did(s) }) {
		r.failed = mesh.ReasonSkill
	}
	return r
}

// needsModel says that only a model can carry the skill out.
func needsModel(skill string) string {
	return say("The skill %s has steps that only a language model can carry out, which I am not, so nothing was done. "+
		"Set MESH_LLM_URL, MESH_LLM_KEY and MESH_LLM_MODEL to have it carried out, or write each of its steps as a command, such as: tasks.search --status overdue.", skill).text
}

// pageOf reports whether the metadata of a result says that it is a page to be carried out, and
// its steps, if rules can take them.
func pageOf(metadata string) (is bool, steps []*step) {
	var m struct {
		Is    bool    `json:"requires_interpretation"`
		Steps []*step `json:"steps"`
	}
	if metadata == "" || json.Unmarshal([]byte(metadata), &m) != nil {
		return false, nil
	}
	for _, s := range m.Steps {
		s.part = partStep
	}
	return m.Is, m.Steps
}

// expand takes the steps of a page, which the call of the step has brought, in its place: they
// come next. Without such steps the call has failed.
func (w *work) expand(j *job, s *step, c *call) {
	is, steps := pageOf(c.metadata)
	if !is || c.failed {
		return
	}
	if bad := w.t.known(steps); len(steps) == 0 || bad != "" {
		c.result, c.failed, s.part = needsModel(s.Skill), true, partForModel
		return
	}
	s.part = partPage
	j.steps = slices.Insert(j.steps, slices.Index(j.steps, s)+1, steps...)
}

// known finds the skills of steps, and returns the name of the first that there is not; "" if all
// are there.
func (t *turn) known(steps []*step) string {
	for _, s := range steps {
		i := slices.IndexFunc(t.skills, func(k skill) bool { return k.Name == s.Skill })
		if i < 0 {
			return s.Skill
		}
		if s.skill = &t.skills[i]; s.Arguments == nil {
			s.Arguments = map[string]any{}
		}
	}
	return ""
}
