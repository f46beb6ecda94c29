package agenttest

import (
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
)

// Thread is the one that a node has.
const Thread = "550e8400-e29b-41d4-a716-446655440000"

const (
	// States of tasks.
	Working       = a2apb.TaskState_TASK_STATE_WORKING
	Completed     = a2apb.TaskState_TASK_STATE_COMPLETED
	Failed        = a2apb.TaskState_TASK_STATE_FAILED
	Canceled      = a2apb.TaskState_TASK_STATE_CANCELED
	InputRequired = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
)

// NewGrant returns a grant for a new execution, good for an hour.
func NewGrant() *mesh.Grant {
	return &mesh.Grant{
		Tenant: "acme", User: "alice", Thread: Thread, Execution: mesh.NewExecutionID(Thread), Agent: "fake",
		Skills: []string{"*"}, Expires: time.Now().Add(time.Hour).Unix(),
	}
}

// Message is one of the user.
func Message(text string) *a2apb.Message {
	return a2a.NewMessage(a2apb.Role_ROLE_USER, text)
}

// At is that many seconds after a fixed time.
func At(sec int) time.Time { return time.Date(2026, 1, 2, 3, 4, sec, 0, time.UTC) }

// Said is output of an execution, at a time.
func Said(exec mesh.ExecutionID, sec int, id, text string, more bool) *mesh.Event {
	return &mesh.Event{Execution: exec, Time: At(sec), Body: mesh.ArtifactAppended{
		Artifact: &a2apb.Artifact{ArtifactId: id, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}}, Append: more,
	}}
}

// Dispatch is that an execution dispatches another one of the agent.
func Dispatch(from, child mesh.ExecutionID, name string) *mesh.Event {
	return &mesh.Event{Execution: from, Body: mesh.DispatchIssued{Child: mesh.Execution{ID: child, Parent: from, Agent: name}}}
}

// Opened is the beginning of a turn.
func Opened(id mesh.ExecutionID) *mesh.Event {
	return &mesh.Event{Execution: id, Body: mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn}}}
}

// Posted is a message of the user to a turn, at a time.
func Posted(id mesh.ExecutionID, sec int, text string) *mesh.Event {
	return &mesh.Event{Execution: id, Time: At(sec), Body: mesh.MessagePosted{Message: Message(text)}}
}

// TurnEvents is one turn of six events that the agent of the name answered.
func TurnEvents(name, question, answer string) []*mesh.Event {
	turn, leg := mesh.NewExecutionID(Thread), mesh.NewExecutionID(Thread)
	return []*mesh.Event{
		Opened(turn), Posted(turn, 1, question), Dispatch(turn, leg, name),
		{Execution: leg, Body: mesh.ModelReplied{Text: answer}}, Said(leg, 2, "response", answer, false),
		{Execution: turn, Body: mesh.TaskMoved{State: Completed}},
	}
}

// Replied is a reply of the model of an execution.
func Replied(id mesh.ExecutionID, text string, uses ...mesh.ToolUse) *mesh.Event {
	return &mesh.Event{Execution: id, Body: mesh.ModelReplied{Text: text, Tools: uses}}
}

// SkillReturned is the end of a call of a skill.
func SkillReturned(id mesh.ExecutionID, call, content string) *mesh.Event {
	return &mesh.Event{Execution: id, Body: mesh.SkillReturned{Call: call, Content: content}}
}

// ToolReturned is the end of a call of another tool.
func ToolReturned(id mesh.ExecutionID, call, content string, bad bool) *mesh.Event {
	return &mesh.Event{Execution: id, Body: mesh.ToolReturned{Call: call, Name: "x", Content: content, Failed: bad}}
}
