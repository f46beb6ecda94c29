package node

import (
	"reflect"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/limit"
)

// maxAgentTime bounds how long an agent may have a user's stream.
const maxAgentTime = 24 * time.Hour

// agentLimits are how long agents may take, and say nothing.
func (c *Config) agentLimits() call.Limits {
	all := call.Limits{Time: c.Limits.AgentTime, Silence: c.Limits.AgentSilence, Return: c.Limits.AgentReturn, Agents: map[string]call.Limits{}}
	for name, a := range c.Agents {
		all.Agents[name] = call.Limits{Time: a.Time, Silence: a.Silence}
	}
	return all
}

// output is what the log takes of one execution.
func (c *Config) output() limit.Output {
	all := limit.Output{Events: c.Limits.OutputEvents, Bytes: c.Limits.OutputBytes, Agents: map[string]limit.Output{}}
	for name, a := range c.Agents {
		all.Agents[name] = limit.Output{Events: a.OutputEvents, Bytes: a.OutputBytes}
	}
	return all
}

// Least of what the log takes of one execution: less is no answer.
const (
	leastOutputEvents = 10
	leastOutputBytes  = 16 << 10
)

// checkOutput checks what the log takes of one execution, as set below the field.
func checkOutput(at string, events, bytes int64) error {
	for _, o := range []struct {
		name         string
		n, least, is int64
	}{{"output_events", events, leastOutputEvents, limit.DefaultOutputEvents}, {"output_bytes", bytes, leastOutputBytes, limit.DefaultOutputBytes}} {
		if o.n != 0 && o.n != limit.Unlimited && o.n < o.least {
			return mesh.InvalidField("node.Config", at+"."+o.name, "must be at least %d, and is %d; leave it out for %d, or make it -1 for no limit", o.least, o.n, o.is)
		}
	}
	return nil
}

// ForBuiltIn reports whether there are settings that built-in agents alone read.
func (a AgentConfig) ForBuiltIn() bool {
	return a.ToolMode != "" || a.SkillInterface != "" || !reflect.ValueOf(a.Use).IsZero() || !reflect.ValueOf(a.Orchestration).IsZero()
}

// ForRegistered reports whether there are settings of how a registered agent is called.
func (a AgentConfig) ForRegistered() bool { return a.calledBy() != (call.Interface{}) }

func (a AgentConfig) calledBy() call.Interface {
	return call.Interface{Binding: a.Binding, Version: a.Version}
}

// calledBy is by which interfaces agents are called, by name.
func (c *Config) calledBy() map[string]call.Interface {
	all := map[string]call.Interface{}
	for name, a := range c.Agents {
		all[name] = a.calledBy()
	}
	return all
}

func checkTimes(timeField string, most time.Duration, silenceField string, silence time.Duration) error {
	const op = "node.Config"
	if most < 0 || most > maxAgentTime {
		return mesh.InvalidField(op, timeField, "must be at most %v, and is %v; leave it out for 30m", maxAgentTime, most)
	}
	if silence != 0 && silence < time.Second {
		return mesh.InvalidField(op, silenceField, "must be at least a second, and is %v; leave it out for 2m, or make it as long as the agent's time for never", silence)
	}
	return nil
}
