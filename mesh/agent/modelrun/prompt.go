package modelrun

import (
	"fmt"
	"strings"
	"time"

	"agentmesh/mesh"
)

// A Prompt is the system prompt of an agent, in the order in which its parts
// are least likely to change (S3-052, S3-069), so that providers can keep the
// beginning of it in their cache.
type Prompt struct {
	// Identity says who the agent is and what its rules are.
	Identity string
	// Commands is how skills are called by command blocks, or "".
	Commands string
	// Skills lists what can be called.
	Skills string
	// User and Channel say whom the agent works for, and how that one writes; Now
	// is the time where the user lives. Only the day and the zone are in the prompt:
	// see [Clock].
	User    string
	Channel string
	Now     time.Time
}

// String returns the prompt: the same bytes for the same user on the same day.
func (p Prompt) String() string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(p.Identity))
	for _, part := range []string{p.Commands, p.Skills} {
		if part = strings.TrimSpace(part); part != "" {
			b.WriteString("\n\n" + part)
		}
	}
	var user []string
	if name := oneLine(p.User); name != "" {
		text := "The user is " + name
		if channel := oneLine(p.Channel); channel != "" {
			text += ", who writes by " + channel
		}
		user = append(user, text+".")
	}
	if !p.Now.IsZero() {
		user = append(user, fmt.Sprintf("Today is %s (time zone %s).", p.Now.Format("Monday, 2 January 2006"), p.Now.Format("MST")))
	}
	if len(user) > 0 {
		b.WriteString("\n\n" + strings.Join(user, "\n"))
	}
	return b.String()
}

// Clock is what a model is told of the time of day. It changes with every
// minute, and so belongs to llm.Request.Fresh and not into the prompt.
func Clock(now time.Time) string { return "It is " + now.Format("15:04 MST") + "." }

// oneLine keeps a name that others chose from looking like more than a name.
func oneLine(s string) string { return mesh.Clip(strings.Join(strings.Fields(s), " "), 200) }
