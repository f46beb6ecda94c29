package edge

import (
	"fmt"
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// takes refuses a message with a part of a media type that who gets it does not take (A2A
// v1.0 §3.1.1): the agent that is addressed or has the conversation, and else the main
// agent, unless another one names the type, to which it can hand over. Text and parts that
// name no type are not judged, nor are they by agents that say nothing, nor is audio that is
// made text.
func (e *Edge) takes(s *thread.State, in *intake, t *thread.Execution) error {
	judged := func(p *a2apb.Part) bool {
		_, text := p.GetContent().(*a2apb.Part_Text)
		return !text && p.GetMediaType() != "" && !(e.Hear != nil && mesh.IsAudio(p))
	}
	if !slices.ContainsFunc(in.msg.GetParts(), judged) {
		return nil
	}
	who := e.receiver(s, in, t)
	target, known := e.judge(in.key.Tenant, who)
	if !known {
		return nil
	}
	modes := target.InputModes()
	if who == e.Main && in.call.Agent == "" {
		for _, a := range e.Directory.List(in.key.Tenant, registry.Filter{Live: true}) {
			if a.SaysInput() {
				modes = append(modes, a.InputModes()...)
			}
		}
	}
	for i, p := range in.msg.GetParts() {
		if judged(p) && !slices.ContainsFunc(modes, func(m string) bool { return registry.Accepts(m, p.GetMediaType()) }) {
			slices.Sort(modes)
			err := a2a.ContentTypeNotSupported("edge.Send", fmt.Sprintf("message.parts[%d].media_type", i), p.GetMediaType(), slices.Compact(modes))
			if mesh.IsAudio(p) {
				err.Detail += "; " + text.NobodyHears()
			}
			return err
		}
	}
	return nil
}

// judge returns the agent, and whether it can be known what it takes; of one that is away
// its turn tells.
func (e *Edge) judge(tenant mesh.TenantID, name string) (registry.Entry, bool) {
	a, err := e.Directory.Resolve(tenant, name)
	return a, err == nil && a.SaysInput()
}
