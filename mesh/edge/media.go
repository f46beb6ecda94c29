package edge

import (
	"fmt"
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh/a2a"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/thread"
)

// takes refuses a message with a part of a media type that who gets it does not take (A2A
// v1.0 §3.1.1): the agent that is addressed or has the conversation, and else the mesh,
// whose agents hand a conversation to one another. Parts that name no type, and agents
// that say nothing of what they take, are not judged.
func (e *Edge) takes(s *thread.State, in *intake, t *thread.Execution) error {
	if !slices.ContainsFunc(in.msg.GetParts(), func(p *a2apb.Part) bool { return p.GetMediaType() != "" }) {
		return nil
	}
	var agents []registry.Entry
	who := in.call.Agent
	if t != nil && t.Agent != e.Main {
		who = t.Agent
	}
	if who = s.ActiveAgent(who); who == "" {
		agents = e.Directory.List(in.key.Tenant, registry.Filter{Live: true})
	} else if one, err := e.Directory.Resolve(in.key.Tenant, who); err == nil { // of one that is away its turn tells
		agents = []registry.Entry{one}
	}
	var modes []string
	for _, a := range agents {
		takes := a.InputModes()
		if len(takes) == 0 {
			return nil
		}
		modes = append(modes, takes...)
	}
	for i, p := range in.msg.GetParts() {
		if p.GetMediaType() != "" && len(modes) > 0 && !slices.ContainsFunc(modes, func(m string) bool { return accepts(m, p) }) {
			slices.Sort(modes)
			return a2a.ContentTypeNotSupported("edge.Send", fmt.Sprintf("message.parts[%d].media_type", i), p.GetMediaType(), slices.Compact(modes))
		}
	}
	return nil
}

// accepts reports whether the mode of a card is the part's media type: the same, or one of
// which it is a case. Cards of older agents say "text". A text of whatever kind can be read
// as a plain one (RFC 2046 §4.1.4).
func accepts(mode string, p *a2apb.Part) bool {
	mode, kind := bareType(mode), bareType(p.GetMediaType())
	major, rest, _ := strings.Cut(mode, "/")
	_, text := p.GetContent().(*a2apb.Part_Text)
	switch {
	case mode == kind, major == "*", rest == "*" && strings.HasPrefix(kind, major+"/"):
		return true
	case mode == "text" || mode == "text/plain":
		return kind == "text/plain" || kind == "text" || text && strings.HasPrefix(kind, "text/")
	}
	return false
}

// bareType is a media type without its parameters.
func bareType(s string) string {
	s, _, _ = strings.Cut(s, ";")
	return strings.ToLower(strings.TrimSpace(s))
}
