package skillbuilder

import (
	"fmt"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/session"
	"agentmesh/mesh/skill"
)

// Whatever a user says within the bounds, with as many skills set aside as may be, can be kept.
func TestTheLargestSessionCanBeKept(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"a", `"`, `\`, "<", "é", "\u2060", "👍"} {
		for what, grow := range map[string]func(d *draft, n int){
			"steps":    func(d *draft, n int) { d.Steps = append(d.Steps, fmt.Sprint(n, strings.Repeat(c, maxPhrase-2))) },
			"triggers": func(d *draft, n int) { d.Triggers = append(d.Triggers, fmt.Sprint(n, strings.Repeat(c, maxPhrase-2))) },
			"inputs": func(d *draft, n int) {
				d.Inputs = append(d.Inputs, skill.Parameter{Name: fmt.Sprint("input_", n), Type: "string", Description: strings.Repeat(c, maxPhrase)})
			},
		} {
			full := at(t, "ok").Draft
			full.Steps, full.Triggers, full.Inputs = nil, nil, nil
			for n := range 10 * maxSteps {
				next := full
				if grow(&next, n); !next.fits() {
					break
				}
				full = next
			}
			one := talk{Session: session.Session[draft]{Step: Generating, Draft: full}}.written("ann", "2026-11-20")
			one.Draft.Trial = strings.Repeat(c, maxTrial/len(c))
			s := one.Session
			for range session.MaxParked {
				s.Parked = append(s.Parked, session.Parked[draft]{Step: one.Step, Draft: one.Draft})
			}
			for n := range session.MaxLater {
				s.Later = append(s.Later, fmt.Sprint(n, strings.Repeat(c, maxPhrase-2)))
			}
			s.Draft.Passed = &passed{Words: strings.Repeat(c, maxSaid/len(c)), Answers: []string{strings.Repeat(c, maxSaid/len(c))}}
			data, err := machine.Encode(s)
			if err != nil || len(data) > mesh.MaxState {
				t.Errorf("%s of %q: %d bytes are to be kept, and the mesh keeps %d: %v", what, c, len(data), mesh.MaxState, err)
			}
		}
	}
}
