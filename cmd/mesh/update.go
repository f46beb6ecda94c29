package main

import (
	"fmt"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
)

// An update is one event of a task's stream, as far as a person cares.
type update struct {
	// raw is the event as it came; nil when lost.
	raw *a2apb.StreamResponse
	// seq is its place in the thread, or 0 where the server does not tell.
	seq mesh.Seq
	// task and thread are the ids in it.
	task, thread string
	// snapshot says that it is the task as a whole, not a change of it.
	snapshot bool
	// resumed says that it came on a stream that goes on after another, or
	// that the next one will be such.
	resumed bool
	// state is the task's state; unspecified for output.
	state mesh.TaskState
	// agent is who speaks or acts, or "".
	agent string
	// text is what is said: output, or the message of a status.
	text string
	// reason is why a task ended, for programs.
	reason string
	// artifact is the id of the output that text belongs to, or "", and
	// begins whether text begins it.
	artifact string
	begins   bool

	execution *executionNote
	handoff   *handoffNote
	returned  *returnNote
	// step of steps is how far an agent's workflow is, and stage its name.
	step, steps int
	stage       string

	// lost says that the connection broke and is tried again.
	lost bool
}

// executionNote is what an agent that another one asked is doing.
type executionNote struct{ id, parent, agent, label, state, text string }

// handoffNote says that the user's stream went to another agent.
type handoffNote struct{ from, to, reason string }

// returnNote says that it came back, and from whom.
type returnNote struct{ from, outcome, summary string }

// decode reads an event. What it does not know it leaves out.
func decode(resp *a2apb.StreamResponse) update {
	u := update{raw: resp}
	switch p := resp.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		u.snapshot = true
		u.task, u.thread = p.Task.GetId(), p.Task.GetContextId()
		u.readStatus(p.Task.GetStatus())
		u.readExtension(p.Task.GetMetadata())
	case *a2apb.StreamResponse_StatusUpdate:
		u.task, u.thread = p.StatusUpdate.GetTaskId(), p.StatusUpdate.GetContextId()
		u.readStatus(p.StatusUpdate.GetStatus())
		u.readExtension(p.StatusUpdate.GetMetadata())
	case *a2apb.StreamResponse_ArtifactUpdate:
		art := p.ArtifactUpdate.GetArtifact()
		u.task, u.thread = p.ArtifactUpdate.GetTaskId(), p.ArtifactUpdate.GetContextId()
		u.artifact, u.begins = art.GetArtifactId(), !p.ArtifactUpdate.GetAppend()
		u.text = partsText(art.GetParts())
		u.readExtension(p.ArtifactUpdate.GetMetadata())
	case *a2apb.StreamResponse_Message:
		u.task, u.thread = p.Message.GetTaskId(), p.Message.GetContextId()
		u.state = a2apb.TaskState_TASK_STATE_COMPLETED
		u.text = partsText(p.Message.GetParts())
		u.readExtension(p.Message.GetMetadata())
	}
	return u
}

func (u *update) readStatus(s *a2apb.TaskStatus) {
	u.state = s.GetState()
	u.text = partsText(s.GetMessage().GetParts())
}

// readExtension reads what our extension adds.
func (u *update) readExtension(metadata *structpb.Struct) {
	ext := metadata.GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()
	u.seq = mesh.Seq(ext["seq"].GetNumberValue())
	u.agent = ext["agent"].GetStringValue()
	u.step, u.steps = int(ext["step"].GetNumberValue()), int(ext["steps"].GetNumberValue())
	u.stage = ext["state"].GetStringValue()
	u.reason = ext["reason"].GetStringValue()
	if e := ext["execution"].GetStructValue().GetFields(); e != nil {
		u.execution = &executionNote{
			id: e["id"].GetStringValue(), parent: e["parent"].GetStringValue(),
			agent: e["agent"].GetStringValue(), label: e["label"].GetStringValue(),
			state: e["state"].GetStringValue(), text: e["text"].GetStringValue(),
		}
	}
	if h := ext["handoff"].GetStructValue().GetFields(); h != nil {
		u.handoff = &handoffNote{from: h["source_agent_id"].GetStringValue(),
			to: h["target_agent_id"].GetStringValue(), reason: h["handoff_reason"].GetStringValue()}
	}
	if r := ext["handoff_return"].GetStructValue().GetFields(); r != nil {
		u.returned = &returnNote{from: r["source_agent_id"].GetStringValue(),
			outcome: r["outcome"].GetStringValue(), summary: r["summary"].GetStringValue()}
	}
}

// partsText returns parts as text: text verbatim, data as JSON, files by name.
func partsText(parts []*a2apb.Part) string {
	var b strings.Builder
	for _, p := range parts {
		switch c := p.GetContent().(type) {
		case *a2apb.Part_Text:
			b.WriteString(c.Text)
		case *a2apb.Part_Data:
			data, err := protojson.Marshal(c.Data)
			if err != nil {
				data = []byte("[data that is not JSON]")
			}
			separate(&b)
			b.Write(data)
		case *a2apb.Part_Url:
			separate(&b)
			b.WriteString("[file " + fileName(p) + c.Url + "]")
		case *a2apb.Part_Raw:
			separate(&b)
			fmt.Fprintf(&b, "[file %s%d bytes]", fileName(p), len(c.Raw))
		}
	}
	return b.String()
}

// fileName returns "NAME (TYPE): ", as far as they are known.
func fileName(p *a2apb.Part) string {
	name := p.GetFilename()
	if t := p.GetMediaType(); t != "" {
		name = strings.TrimSpace(name + " (" + t + ")")
	}
	if name == "" {
		return ""
	}
	return name + ": "
}

// separate begins a new line, unless b is at the beginning of one.
func separate(b *strings.Builder) {
	if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
		b.WriteByte('\n')
	}
}
