package skillbuilder

import (
	"slices"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
)

// maxSimilar is how many skills the user is asked about.
const maxSimilar = 3

// A similar skill may do what the user wants.
type similar struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Own says that it is the tenant's, and can be changed.
	Own bool `json:"own,omitempty"`
}

// alike are those of the skills that may do what the purpose says: they have at least two
// of its words, and two thirds of them.
func alike(purpose string, skills []*meshv1.Skill) (out []similar) {
	g := gistOf(purpose)
	var wanted []string
	for _, w := range append([]string{g.verb, g.domain}, g.things...) {
		if w != "" && !slices.Contains(wanted, w) {
			wanted = append(wanted, w)
		}
	}
	type scored struct {
		similar
		n int
	}
	var found []scored
	for _, s := range skills {
		text := strings.Join(append([]string{strings.NewReplacer(".", " ", "_", " ").Replace(s.GetName()), s.GetDescription()}, s.GetTags()...), " ")
		has := map[string]bool{}
		for _, w := range plain(text) {
			has[w], has[base(w)] = true, true
		}
		n := 0
		for _, w := range wanted {
			if has[w] {
				n++
			}
		}
		if n >= 2 && 3*n >= 2*len(wanted) {
			found = append(found, scored{similar{s.GetName(), phrase(s.GetDescription()), s.GetTenant() != ""}, n})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return b.n - a.n })
	for _, f := range capped(found, maxSimilar) {
		out = append(out, f.similar)
	}
	return out
}

// similarAnswer reads the answer to what becomes of the similar skills: "use", "change" or
// "new", and of which; "" for anything else. A name may be left out where it is clear.
func (t talk) similarAnswer(text string) (what, name string) {
	list := t.Draft.Similar
	words := plain(text)
	for len(words) > 0 && slices.Contains(strings.Fields("please ok lets let us i want would like to id a the"), words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return "", ""
	}
	switch words[0] {
	case "new", "neither", "none":
		return "new", ""
	case "use", "take":
		what = "use"
	case "change", "edit", "update", "modify":
		what = "change"
	default:
		if isNo(text) || isDefault(text) && !isYes(text) {
			return "new", ""
		}
		return "", ""
	}
	if slices.Contains(words, "new") {
		return "new", ""
	}
	for _, s := range list {
		if strings.Contains(strings.ToLower(text), s.Name) {
			return what, s.Name
		}
	}
	if len(list) == 1 && len(words) <= 4 {
		return what, list[0].Name
	}
	return "", ""
}

// ofSimilar reports whether the text says what becomes of the similar skills.
func (t talk) ofSimilar(text string) bool {
	what, _ := t.similarAnswer(text)
	return what != "" && len(t.Draft.Similar) > 0
}

// offers reports whether the user is asked what becomes of similar skills, and of the one of
// that name; "" is that which the user means.
func (t talk) offers(what, name string) bool {
	return t.ofSimilar(what+" "+name) && (name == "" || what == "new" || slices.ContainsFunc(t.Draft.Similar, func(s similar) bool { return s.Name == name }))
}

func (t talk) takeSimilar(text string) (talk, outcome, string) {
	what, name := t.similarAnswer(text)
	i := slices.IndexFunc(t.Draft.Similar, func(s similar) bool { return s.Name == name })
	switch {
	case what == "new":
		t.Draft.Similar = nil
		return t.to(t.Step), noted, ""
	case what == "use":
		return t, adopt, name
	case what == "change" && !t.Draft.Similar[i].Own:
		t.Hint = "The skill " + name + " belongs to the mesh and cannot be changed here."
		return t, missed, ""
	case what == "change":
		return t, revise, name
	}
	t.Hint = "I did not understand that."
	return t, missed, ""
}
