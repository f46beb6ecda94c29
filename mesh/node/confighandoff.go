package node

import (
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/handoff"
)

// Handoff says what goes along with a handoff, and how long its session may rest.
type Handoff struct {
	// Session is how long after the user's last word, or its agent's last work, a session is
	// parked, 1m to 720h; -1 is never. The default is 1h.
	Session time.Duration `yaml:"session"`
	// RecentMessages is how many of the last messages go along word by word, 0 to 20, where the
	// agent that hands over does not ask for fewer. Nil leaves it to that agent, and is 0, the
	// summary alone, where it does not say.
	RecentMessages *int `yaml:"recent_messages"`
}

// fillHandoff sets defaults of what is about handoffs, and checks it.
func (c *Config) fillHandoff() error {
	const op = "node.Config"
	switch s := c.Handoff.Session; {
	case s == 0:
		c.Handoff.Session = handoff.DefaultSession
	case s > 0 && s < handoff.MinSession || s > handoff.MaxSession:
		return mesh.InvalidField(op, "handoff.session", "must be %v to %v, and is %v; leave it out for %v, or make it -1 for never",
			handoff.MinSession, handoff.MaxSession, s, handoff.DefaultSession)
	}
	return checkRecent("handoff.recent_messages", c.Handoff.RecentMessages)
}

func checkRecent(field string, n *int) error {
	if n != nil && (*n < 0 || *n > handoff.MaxRecent) {
		return mesh.InvalidField("node.Config", field, "must be 0 to %d, and is %d; leave it out to leave it to the agent that hands over", handoff.MaxRecent, *n)
	}
	return nil
}

// handoffs are the settings of handoffs.
func (c *Config) handoffs() handoff.Settings {
	set := handoff.Settings{Session: c.Handoff.Session, Recent: c.Handoff.RecentMessages, RecentFor: map[string]int{}}
	for name, a := range c.Agents {
		if a.RecentMessages != nil {
			set.RecentFor[name] = *a.RecentMessages
		}
	}
	return set
}
