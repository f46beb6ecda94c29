package a2a

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// Bounds of a request.
const (
	MaxMessage    = mesh.MaxMessage // bytes of one message
	MaxParts      = 100             // parts of one message
	MaxID         = 256             // bytes of an id that a client makes
	MaxReferences = 100             // reference_task_ids of one message
	MaxModes      = 100             // accepted_output_modes of one message
)

// admit checks what all operations have in common: who calls, in which
// version, for which tenant, and whether with the extensions that the card requires (A2A
// v1.0 §3.3.4). The tenant in a request routes and never grants (§8.3.2): one that is not
// the caller's does not exist, whether it does or not.
func (s *server) admit(ctx context.Context, op, tenant string) (mesh.Call, error) {
	call, ok := mesh.CallFrom(ctx)
	if !ok {
		return call, mesh.Errorf(mesh.Unknown, op, "the server does not know who is calling")
	}
	version := call.Version
	if version == "" && s.strict {
		version = impliedVersion
	}
	if !supported(version) {
		return call, versionError(op, version)
	}
	if tenant != "" && mesh.TenantID(tenant) != call.Principal.Tenant {
		return call, &mesh.Error{Code: mesh.NotFound, Op: op, Field: "tenant", Detail: "Tenant not found; leave it out, or send the one that the agent card names"}
	}
	for _, x := range s.service.Capabilities().GetExtensions() {
		if x.GetRequired() && !slices.Contains(call.Extensions, x.GetUri()) {
			return call, extensionRequired(op, x.GetUri())
		}
	}
	return call, nil
}

// admitStream is admit for a stream, which the card may not offer.
func (s *server) admitStream(ctx context.Context, op, tenant string) (mesh.Call, error) {
	call, err := s.admit(ctx, op, tenant)
	if err == nil && !s.service.Capabilities().GetStreaming() {
		err = UnsupportedOperation(op, "This agent does not stream; use SendMessage and GetTask")
	}
	return call, err
}

func (s *server) checkSend(call mesh.Call, req *a2apb.SendMessageRequest) error {
	const op = "a2a.Send"
	c := req.GetConfiguration()
	if c.GetTaskPushNotificationConfig() != nil && s.pusher == nil {
		return pushNotSupported(op)
	}
	if err := checkHistory(op, "configuration.history_length", historyOf(c)); err != nil {
		return err
	}
	if err := checkModes(op, c.GetAcceptedOutputModes()); err != nil {
		return err
	}
	m := req.GetMessage()
	if m == nil {
		return mesh.InvalidField(op, "message", "is missing; send a message with message_id, role and parts")
	}
	if n := proto.Size(req); n > MaxMessage {
		return &mesh.Error{Code: mesh.Exhausted, Op: op, Field: "message",
			Detail: fmt.Sprintf("message is %d bytes long, and the limit is %d; send less, or upload files and send parts with their urls", n, MaxMessage)}
	}
	if err := s.checkIDs(op, call, m); err != nil {
		return err
	}
	if m.GetRole() != a2apb.Role_ROLE_USER {
		return mesh.InvalidField(op, "message.role", "must be ROLE_USER, and is %v", m.GetRole())
	}
	return checkParts(op, m.GetParts())
}

// checkModes bounds what the client says it can take. It is a wish (A2A v1.0 §3.2.2), by
// which nothing is refused: clients of some frameworks always say the same.
func checkModes(op string, modes []string) error {
	const field = "configuration.accepted_output_modes"
	if len(modes) > MaxModes {
		return mesh.InvalidField(op, field, "are %d; the limit is %d", len(modes), MaxModes)
	}
	for i, m := range modes {
		at := fmt.Sprintf("%s[%d]", field, i)
		if strings.TrimSpace(m) == "" {
			return mesh.InvalidField(op, at, "is empty; name a media type such as text/plain")
		}
		if err := checkText(op, at, m); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) checkIDs(op string, call mesh.Call, m *a2apb.Message) error {
	if m.GetMessageId() == "" {
		return mesh.InvalidField(op, "message.message_id", "is empty; give every message an id of its own, such as a UUID")
	}
	if err := checkText(op, "message.message_id", m.GetMessageId()); err != nil {
		return err
	}
	if err := checkID(op, "message.task_id", m.GetTaskId()); err != nil {
		return err
	}
	if n := len(m.GetReferenceTaskIds()); n > MaxReferences {
		return mesh.InvalidField(op, "message.reference_task_ids", "are %d; the limit is %d", n, MaxReferences)
	}
	for i, id := range m.GetReferenceTaskIds() {
		if err := checkID(op, fmt.Sprintf("message.reference_task_ids[%d]", i), id); err != nil {
			return err
		}
	}
	return s.checkContext(op, call, m.GetContextId())
}

func checkTaskID(op, id string) error {
	if id == "" {
		return mesh.InvalidField(op, "id", "is empty; name the task")
	}
	return checkID(op, "id", id)
}

// checkID keeps ids of tasks plain, as those of this mesh are, so that they fit
// into the paths of every binding.
func checkID(op, field, id string) error {
	if strings.ContainsAny(id, "/:") {
		return mesh.InvalidField(op, field, "must not contain '/' or ':', and is %q", clip(id))
	}
	return checkText(op, field, id)
}

// checkText bounds what a client makes up as it likes, such as a message id.
func checkText(op, field, id string) error {
	if len(id) > MaxID {
		return mesh.InvalidField(op, field, "is %d bytes long; the limit is %d", len(id), MaxID)
	}
	if strings.ContainsFunc(id, func(r rune) bool { return r < ' ' }) {
		return mesh.InvalidField(op, field, "must not contain control characters, and is %q", clip(id))
	}
	return nil
}

func checkHistory(op, field string, length *int32) error {
	if length != nil && *length < 0 {
		return mesh.InvalidField(op, field, "must be 0 or more, and is %d", *length)
	}
	return nil
}

func checkParts(op string, parts []*a2apb.Part) error {
	switch n := len(parts); {
	case n == 0:
		return mesh.InvalidField(op, "message.parts", "is empty; send at least one part")
	case n > MaxParts:
		return mesh.InvalidField(op, "message.parts", "has %d parts; the limit is %d", n, MaxParts)
	}
	empty := true
	for i, p := range parts {
		switch c := p.GetContent().(type) {
		case nil:
			return mesh.InvalidField(op, fmt.Sprintf("message.parts[%d]", i), "must have one of text, raw, url and data")
		case *a2apb.Part_Text:
			empty = empty && strings.TrimSpace(c.Text) == ""
		default:
			empty = false
		}
	}
	if empty {
		return mesh.InvalidField(op, "message.parts", "is empty; say something")
	}
	return nil
}

// clip shortens what a client sent for an error message.
func clip(s string) string { return mesh.Clip(s, 48) }
