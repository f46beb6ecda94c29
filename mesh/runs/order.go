package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/skilltools"
)

// An order is a call of a skill with its ids found out.
type order struct {
	call    mesh.Call // of the user, to the agent that runs skills
	key     mesh.ThreadKey
	message *a2apb.Message
	named   bool // there is a request id
}

// maxRequestID bounds a request id, in bytes.
const maxRequestID = 256

// order checks the request and finds its ids. Equal requests with a request id
// have equal ids.
func (r *Runner) order(call mesh.Call, source string, req *meshv1.RunSkillRequest) (*order, error) {
	const op = "runs.order"
	id := req.GetRequestId()
	if len(id) > maxRequestID || !utf8.ValidString(id) {
		return nil, mesh.InvalidField(op, "request_id", "must be UTF-8 text of at most %d bytes", maxRequestID)
	}
	own, message := mesh.NewThreadID(), mesh.NewEventID()
	if id != "" {
		own, message = derive(call.Principal, source, id)
	}
	thread, err := threadOf(call, req.GetThreadId(), own)
	if err != nil {
		return nil, err
	}
	md, err := agent.SkillCall{Skill: req.GetName(), Arguments: req.GetArguments().AsMap(), Source: source, Approved: req.GetApproved()}.Metadata()
	if err != nil {
		return nil, err
	}
	o := &order{named: id != "", key: mesh.ThreadKey{Tenant: call.Principal.Tenant, ID: thread}}
	o.call = mesh.Call{Principal: call.Principal, Traceparent: call.Traceparent, Thread: thread, Agent: r.Agent}
	o.message = &a2apb.Message{
		MessageId: message, ContextId: thread, Role: a2apb.Role_ROLE_USER, Metadata: md,
		Parts: []*a2apb.Part{a2a.TextPart(inWords(req))},
	}
	if n := mesh.LoggedSize(o.message.GetParts(), proto.Size(o.message)); n > mesh.MaxLogged {
		return nil, mesh.InvalidField(op, "arguments", "make a message of %d bytes, and the limit is %d; give less, or a file", n, mesh.MaxLogged)
	}
	return o, nil
}

// threadOf is the thread that the request or its metadata names, or else own.
func threadOf(call mesh.Call, named, own string) (string, error) {
	if named == "" {
		if call.Thread != "" {
			return call.Thread, nil
		}
		return own, nil
	}
	id, err := mesh.ParseThreadID(named)
	if err != nil {
		return "", mesh.InvalidField("runs.threadOf", "thread_id", "must be a UUID v4, or empty for a thread of its own")
	}
	if call.Thread != "" && call.Thread != id {
		return "", mesh.InvalidField("runs.threadOf", "thread_id", "is not the thread-id of the call; send one of them, or both the same")
	}
	return id, nil
}

// derive returns the thread and the message that a request id stands for.
func derive(p mesh.Principal, source, id string) (thread, message string) {
	sum := sha256.Sum256(fmt.Appendf(nil, "agentmesh run %q %q %q %q", p.Tenant, p.User, source, id))
	u := uuid.UUID(sum[:16])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80 // version 4, variant 10
	return u.String(), "run-" + hex.EncodeToString(sum[16:])
}

// inWords is what people read of the call in its thread.
func inWords(req *meshv1.RunSkillRequest) string {
	const most = 1000
	text := "Run the skill " + req.GetName() + "."
	if len(req.GetArguments().GetFields()) > 0 {
		args, err := json.Marshal(req.GetArguments().AsMap())
		if err != nil { // a number that is none, which the skill refuses
			return text
		}
		text += " Arguments: " + mesh.Clip(string(args), most)
	}
	return text
}

// same reports whether the message makes the same call of a skill.
func (o *order) same(m *a2apb.Message) bool {
	return proto.Equal(a2a.Extension(m.GetMetadata()), a2a.Extension(o.message.GetMetadata()))
}

// answer is what a caller is told of the task of its run.
func answer(t *a2apb.Task) *meshv1.RunSkillResponse {
	res := &meshv1.RunSkillResponse{State: t.GetStatus().GetState(), ThreadId: t.GetContextId(), TaskId: t.GetId()}
	said, did := a2a.TextOf(t.GetStatus().GetMessage()), a2a.TaskText(t)
	switch {
	case res.State == a2apb.TaskState_TASK_STATE_COMPLETED && did != "":
		res.Content = did
	case resting(res.State) && said != "":
		res.Content = said
	case resting(res.State):
		res.Content = did
	default:
		res.Content = "The skill is still running. The run goes on as task " + t.GetId() + "; ask for that later."
	}
	for _, a := range t.GetArtifacts() {
		if a.GetName() == skilltools.ResultData {
			res.Files, res.Metadata = resultData(a)
		}
		for _, p := range a.GetParts() {
			if p.GetUrl() != "" || p.GetRaw() != nil {
				res.Parts = append(res.Parts, p)
			}
		}
	}
	return res
}

// resultData reads the artifact with a skill's files and metadata.
func resultData(a *a2apb.Artifact) (files []string, metadata *structpb.Struct) {
	for _, p := range a.GetParts() {
		data := p.GetData().GetStructValue().GetFields()
		for _, f := range data["files"].GetListValue().GetValues() {
			files = append(files, f.GetStringValue())
		}
		if md := data["metadata"].GetStructValue(); md != nil {
			metadata = md
		}
	}
	return files, metadata
}
