package agent

import (
	"math"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"

	meshv1 "agentmesh/gen/mesh/v1"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// Names of extension data that only agents read.
const (
	keyRecent   = "recent_messages" // in the handoff: what was said last before
	keyMaxCalls = "max_tool_calls"  // number: see Invocation.MaxToolCalls
)

// invocation returns what the agent is told of the message, without Resumed.
func (r *Runtime) invocation(call mesh.Call, g *mesh.Grant, m *a2apb.Message) (*Invocation, error) {
	view, err := NewMesh(r.node, call)
	if err != nil {
		return nil, err
	}
	inv := &Invocation{
		Message: addressed(m, g), Execution: g.Execution, Thread: g.Key(), User: g.User, Grant: g, Mesh: view,
	}
	ext := a2a.Extension(m.GetMetadata()).GetFields()
	if inv.Handoff, err = handoff(a2a.KeyHandoff, ext[a2a.KeyHandoff]); err != nil {
		return nil, err
	}
	if inv.Returned, err = handoff(a2a.KeyHandoffReturn, ext[a2a.KeyHandoffReturn]); err != nil {
		return nil, err
	}
	inv.MaxToolCalls = int(min(max(ext[keyMaxCalls].GetNumberValue(), 0), math.MaxInt32))
	inv.RecentMessages = recent(ext[a2a.KeyHandoff].GetStructValue().GetFields()[keyRecent].GetListValue())
	return inv, nil
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
