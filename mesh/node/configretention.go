package node

import (
	"strconv"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/retention"
)

// Retention says which conversations are deleted by themselves; by default none are.
type Retention struct {
	RetentionRule `yaml:",inline"`
	// Tenants have rules of their own, which hold in place of the one for all: one without
	// an age and a count keeps everything.
	Tenants map[string]RetentionRule `yaml:"tenants"`
}

// A RetentionRule is for the conversations of a tenant.
type RetentionRule struct {
	// Age is how long one stays after its last event, as "365d" or "36h"; "" is for ever.
	Age string `yaml:"age"`
	// Count is how many stay, of more the longest untouched go; 0 is any number.
	Count int `yaml:"count"`
	// FinishedOnly keeps those that wait for their user; by default they are kept. Those on
	// which an agent is at work always are.
	FinishedOnly *bool `yaml:"finished_only"`
}

// Bounds of RetentionRule.Age.
const (
	minAge = time.Hour
	maxAge = 100 * 366 * 24 * time.Hour
)

// ParseAge reads how old something is: days, as "90d", or a duration, as "36h".
func ParseAge(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n > 0 && n <= maxAge.Hours()/24 {
			return time.Duration(n * 24 * float64(time.Hour)), nil
		}
	} else if d, err := time.ParseDuration(s); err == nil && d > 0 && d <= maxAge {
		return d, nil
	}
	return 0, mesh.Errorf(mesh.Invalid, "node.ParseAge", "must be days such as 90d, or a duration such as 36h")
}

// rule checks the rule at the field.
func (r RetentionRule) rule(field string) (out retention.Rule, err error) {
	if r.Age != "" {
		if out.Age, err = ParseAge(r.Age); err != nil || out.Age < minAge {
			return out, invalid(field+".age", "must be days such as 365d or a duration such as 36h, of an hour to a hundred years; leave it out to keep conversations of any age")
		}
	}
	if r.Count < 0 {
		return out, invalid(field+".count", "must be a number of conversations, or 0 for any, and is %d", r.Count)
	}
	out.Count, out.Waiting = r.Count, !on(r.FinishedOnly)
	if out.Age == 0 && out.Count == 0 {
		out = retention.Rule{}
	}
	return out, nil
}

// rules are the rules of all tenants that have one of their own, and that of the others.
func (r Retention) rules() (of map[mesh.TenantID]retention.Rule, others retention.Rule, err error) {
	if others, err = r.rule("retention"); err != nil {
		return nil, others, err
	}
	of = map[mesh.TenantID]retention.Rule{}
	for name, own := range r.Tenants {
		tenant, field := mesh.TenantID(name), "retention.tenants."+name
		if err := tenant.Validate(); err != nil {
			return nil, others, invalid("retention.tenants", "must have the names of tenants, and has %q", mesh.Clip(name, 48))
		}
		if of[tenant], err = own.rule(field); err != nil {
			return nil, others, err
		}
	}
	return of, others, nil
}

// fillRetention checks the rules.
func (c *Config) fillRetention() error {
	_, _, err := c.Retention.rules()
	return err
}
