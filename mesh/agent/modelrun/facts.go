package modelrun

import (
	"context"
	"sync"

	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/thread"

	"google.golang.org/protobuf/types/known/structpb"
)

// facts returns what the tools know, found out when somebody asks and once.
func facts(tools llm.Tools) func(context.Context) (*llm.Facts, error) {
	var mu sync.Mutex
	var known *llm.Facts
	return func(ctx context.Context) (*llm.Facts, error) {
		mu.Lock()
		defer mu.Unlock()
		if known != nil {
			return known, nil
		}
		f := new(llm.Facts)
		if k, ok := tools.(llm.Knower); ok {
			if err := k.Know(ctx, f); err != nil {
				return nil, err
			}
		}
		known = f
		return f, nil
	}
}

// keyMission is the name of what a message wants of the agent, in its parts.
const keyMission = "mission"

// MissionData is the mission as extension data of the message that says it.
func MissionData(m llm.Mission) map[string]*structpb.Value {
	text := structpb.NewStringValue
	f := map[string]*structpb.Value{"text": text(m.Text)}
	if m.Context != "" {
		f["context"] = text(m.Context)
	}
	if len(m.Results) > 0 {
		results := &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for id, r := range m.Results {
			results.Fields[id] = text(r)
		}
		f["results"] = structpb.NewStructValue(results)
	}
	if len(m.Answers) > 0 {
		answers := &structpb.ListValue{}
		for _, a := range m.Answers {
			answers.Values = append(answers.Values, text(a))
		}
		f["answers"] = structpb.NewListValue(answers)
	}
	if m.Help {
		f["help"] = structpb.NewBoolValue(true)
	}
	return map[string]*structpb.Value{keyMission: structpb.NewStructValue(&structpb.Struct{Fields: f})}
}

// missionOf is what another agent asked the execution for; nil where the user did,
// whatever the message says.
func missionOf(ctx context.Context, inv *agent.Invocation) (*llm.Mission, error) {
	if inv.Grant.Direct() {
		return nil, nil
	}
	message := inv.Message
	if inv.GoesOn() {
		err := inv.Mesh.Transcript(ctx, func(t *thread.Transcript, _ bool) bool {
			message = t.Party(inv.Grant.Execution).Mission
			return message != nil
		})
		if err != nil {
			return nil, err
		}
	}
	f := a2a.Extension(message.GetMetadata()).GetFields()[keyMission].GetStructValue().GetFields()
	m := &llm.Mission{Text: f["text"].GetStringValue(), Context: f["context"].GetStringValue(), Results: map[string]string{}, Help: f["help"].GetBoolValue()}
	for id, r := range f["results"].GetStructValue().GetFields() {
		m.Results[id] = r.GetStringValue()
	}
	for _, a := range f["answers"].GetListValue().GetValues() {
		m.Answers = append(m.Answers, a.GetStringValue())
	}
	if m.Text == "" { // an agent of another mesh says it in words alone
		m.Text = a2a.TextOf(message)
	}
	return m, nil
}
