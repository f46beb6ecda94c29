package agent

import (
	"context"
	"math"
	"strings"
	"unicode"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/thread"

	meshv1 "agentmesh/gen/mesh/v1"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// Names of extension data that only agents read.
const (
	keyRecent   = "recent_messages" // in the handoff: what was said last before
	keyMaxCalls = "max_tool_calls"  // number: see Invocation.MaxToolCalls
	keyChannel  = "channel"         // string: see Invocation.Channel
)

// A SkillCall in a message asks for one skill by name, without a model.
type SkillCall = mesh.SkillCall

// skillCall reads the skill call in a message; nil if there is none. Only a message that
// the node sends for the user has one: another agent cannot speak for the user, and has
// its own calls to make. It may have one tried that is not made.
func skillCall(m *a2apb.Message, g *mesh.Grant) (*SkillCall, error) {
	if !g.Direct() && !g.Dry {
		return nil, nil
	}
	return mesh.SkillCallOf(m.GetMetadata())
}

// invocation returns what the agent is told of the message, without Resumed.
func (r *Runtime) invocation(call mesh.Call, g *mesh.Grant, m *a2apb.Message) (*Invocation, error) {
	view, err := meshclient.New(r.node, call)
	if err != nil {
		return nil, err
	}
	inv := &Invocation{
		Message: addressed(m, g), Execution: g.Execution, Thread: g.Key(), User: g.User, Grant: g, Mesh: view.HeldBy(r.secret, r.keys),
	}
	ext := a2a.Extension(m.GetMetadata()).GetFields()
	if inv.SkillCall, err = skillCall(m, g); err != nil {
		return nil, err
	}
	if g.Direct() { // else another agent says so, which is not the mesh
		if inv.Handoff, err = handoff(a2a.KeyHandoff, ext[a2a.KeyHandoff]); err != nil {
			return nil, err
		}
		if inv.Returned, err = handoff(a2a.KeyHandoffReturn, ext[a2a.KeyHandoffReturn]); err != nil {
			return nil, err
		}
		if inv.Parked, err = handoff(a2a.KeyHandoffParked, ext[a2a.KeyHandoffParked]); err != nil {
			return nil, err
		}
		inv.RecentMessages = recent(ext[a2a.KeyHandoff].GetStructValue().GetFields()[keyRecent].GetListValue())
		inv.Resume = resume(ext[a2a.KeyResume].GetStructValue())
		inv.Channel = channel(ext[keyChannel].GetStringValue())
	}
	inv.MaxToolCalls = int(min(max(ext[keyMaxCalls].GetNumberValue(), 0), math.MaxInt32))
	return inv, nil
}

// Requested returns the skill call that the execution is for, as the thread's log has
// it: what the user asked for and approved is what was logged, and not what somebody
// says who calls the agent. It is nil for an execution that is for none.
func (inv *Invocation) Requested(ctx context.Context) (call *SkillCall, err error) {
	if inv.SkillCall == nil && !inv.GoesOn() {
		return nil, nil
	}
	err = inv.Mesh.Transcript(ctx, func(t *thread.Transcript, _ bool) bool {
		call, _ = skillCall(t.Party(inv.Execution).Mission, inv.Grant) // one that is wrong was refused when it came
		return true
	})
	return call, mesh.Wrap("agent.Requested", err)
}

// channel returns the name of a channel, or "" if it is none: it becomes part of a
// system prompt.
func channel(name string) string {
	const most = 40
	name = strings.TrimSpace(name)
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" -_.", r)
	}
	if len(name) > most || strings.ContainsFunc(name, odd) {
		return ""
	}
	return name
}

// addressed returns a message like m that carries the ids of its task. It
// shares all else with m.
func addressed(m *a2apb.Message, g *mesh.Grant) *a2apb.Message {
	return &a2apb.Message{
		MessageId: m.MessageId, ContextId: g.Thread, TaskId: string(g.Execution), Role: m.Role,
		Parts: m.Parts, Metadata: m.Metadata, Extensions: m.Extensions, ReferenceTaskIds: m.ReferenceTaskIds,
	}
}

// handoff reads a handoff from metadata; nil if there is none.
func handoff(key string, v *structpb.Value) (*meshv1.Handoff, error) {
	if v.GetStructValue() == nil {
		return nil, nil
	}
	data, err := v.MarshalJSON()
	if err == nil {
		h := new(meshv1.Handoff)
		if err = (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, h); err == nil {
			return h, nil
		}
	}
	e := mesh.InvalidField("agent.handoff", "message.metadata."+mesh.ExtensionURI+"."+key, "is not a handoff")
	e.Err = err
	return nil, e
}

// resume reads what the node says of a session that was left; nil if it says nothing.
func resume(s *structpb.Struct) *Resume {
	f := s.GetFields()
	if f["agent"].GetStringValue() == "" {
		return nil
	}
	number := func(key string) int { return int(min(max(f[key].GetNumberValue(), 0), math.MaxInt32)) }
	return &Resume{
		Agent: f["agent"].GetStringValue(), Name: f["name"].GetStringValue(),
		Reason: f["handoff_reason"].GetStringValue(), Summary: f["context_summary"].GetStringValue(),
		Step: number(a2a.KeyStep), Steps: number(a2a.KeySteps), State: f[a2a.KeyState].GetStringValue(),
		Parked: f["parked"].GetBoolValue(), Offered: f["offered"].GetBoolValue(),
	}
}

func recent(list *structpb.ListValue) []HistoryItem {
	var out []HistoryItem
	for _, v := range list.GetValues() {
		f := v.GetStructValue().GetFields()
		out = append(out, HistoryItem{
			Role: f["role"].GetStringValue(), Agent: f["agent"].GetStringValue(), Text: f["text"].GetStringValue(),
		})
	}
	return out
}
