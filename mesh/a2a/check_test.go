package a2a_test

import (
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

type badRequest struct {
	change func(*a2apb.SendMessageRequest)
	code   mesh.Code
	field  string
	reason string
}

func badRequests() map[string]badRequest {
	many := make([]*a2apb.Part, a2a.MaxParts+1)
	for i := range many {
		many[i] = a2a.TextPart("x")
	}
	return map[string]badRequest{
		"no message":     {func(r *a2apb.SendMessageRequest) { r.Message = nil }, mesh.Invalid, "message", ""},
		"no message id":  {func(r *a2apb.SendMessageRequest) { r.Message.MessageId = "" }, mesh.Invalid, "message.message_id", ""},
		"message id":     {func(r *a2apb.SendMessageRequest) { r.Message.MessageId = "a\nb" }, mesh.Invalid, "message.message_id", ""},
		"long id":        {func(r *a2apb.SendMessageRequest) { r.Message.MessageId = strings.Repeat("a", 300) }, mesh.Invalid, "message.message_id", ""},
		"task id :":      {func(r *a2apb.SendMessageRequest) { r.Message.TaskId = "a:b" }, mesh.Invalid, "message.task_id", ""},
		"reference id":   {func(r *a2apb.SendMessageRequest) { r.Message.ReferenceTaskIds = []string{"ok", "a/b"} }, mesh.Invalid, "message.reference_task_ids[1]", ""},
		"agent's role":   {func(r *a2apb.SendMessageRequest) { r.Message.Role = a2apb.Role_ROLE_AGENT }, mesh.Invalid, "message.role", ""},
		"no role":        {func(r *a2apb.SendMessageRequest) { r.Message.Role = 0 }, mesh.Invalid, "message.role", ""},
		"no parts":       {func(r *a2apb.SendMessageRequest) { r.Message.Parts = nil }, mesh.Invalid, "message.parts", ""},
		"too many parts": {func(r *a2apb.SendMessageRequest) { r.Message.Parts = many }, mesh.Invalid, "message.parts", ""},
		"hollow part":    {func(r *a2apb.SendMessageRequest) { r.Message.Parts = append(r.Message.Parts, &a2apb.Part{}) }, mesh.Invalid, "message.parts[1]", ""},
		"only blanks": {func(r *a2apb.SendMessageRequest) {
			r.Message.Parts = []*a2apb.Part{a2a.TextPart(""), a2a.TextPart(" \n")}
		}, mesh.Invalid, "message.parts", ""},
		"too long": {func(r *a2apb.SendMessageRequest) {
			r.Message.Parts[0] = a2a.TextPart(strings.Repeat("x", a2a.MaxMessage))
		}, mesh.Exhausted, "message", ""},
		"no UUID":          {func(r *a2apb.SendMessageRequest) { r.Message.ContextId = "abc" }, mesh.Invalid, "message.context_id", ""},
		"upper case UUID":  {func(r *a2apb.SendMessageRequest) { r.Message.ContextId = strings.ToUpper(thread) }, mesh.Invalid, "message.context_id", ""},
		"another thread":   {func(r *a2apb.SendMessageRequest) { r.Message.ContextId = thread2 }, mesh.Invalid, "message.context_id", ""},
		"negative history": {func(r *a2apb.SendMessageRequest) { r.Configuration.HistoryLength = proto.Int32(-1) }, mesh.Invalid, "configuration.history_length", ""},
		"push configuration": {func(r *a2apb.SendMessageRequest) {
			r.Configuration.TaskPushNotificationConfig = &a2apb.TaskPushNotificationConfig{}
		}, mesh.Precondition, "", a2a.ReasonPushNotSupported},
		"foreign tenant": {func(r *a2apb.SendMessageRequest) { r.Tenant = "other" }, mesh.NotFound, "tenant", ""},
	}
}

func TestARequestThatIsNotValidNamesTheFieldAndNeverReachesTheService(t *testing.T) {
	service := newShelf()
	client := serve(t, service)
	ctx := mesh.WithCall(t.Context(), mesh.Call{Thread: thread})
	for name, tt := range badRequests() {
		t.Run(name, func(t *testing.T) {
			req := hello()
			req.Configuration = &a2apb.SendMessageConfiguration{}
			tt.change(req)
			_, unary := client.SendMessage(ctx, req)
			stream, err := client.SendStreamingMessage(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			_, streamed := stream.Recv()
			for _, err := range []error{unary, streamed} {
				e := errorOf(t, err)
				if e.Code != tt.code || e.Field != tt.field || e.Reason != tt.reason || e.Detail == "" {
					t.Errorf("got %v (%s) %q, want %v (%s) %q with a detail", e.Code, e.Field, e.Reason, tt.code, tt.field, tt.reason)
				}
			}
		})
	}
	if service.sent != 0 {
		t.Errorf("%d of the messages reached the service", service.sent)
	}
}

func TestAMessageIsAcceptedInAnyKindOfPart(t *testing.T) {
	client := serve(t, newShelf())
	for name, part := range map[string]*a2apb.Part{
		"text": a2a.TextPart("hi"),
		"raw":  {Content: &a2apb.Part_Raw{Raw: []byte{0}}},
		"url":  {Content: &a2apb.Part_Url{Url: "https://example.com/x"}},
		"null": {Content: &a2apb.Part_Data{}},
	} {
		req := hello()
		req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
		req.Message.Parts = []*a2apb.Part{part}
		if _, err := client.SendMessage(t.Context(), req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A2A v1.0 §4.1.4 leaves message ids to their senders.
func TestAMessageIDMayBeAnyText(t *testing.T) {
	client := serve(t, newShelf())
	for _, id := range []string{"urn:uuid:550e8400-e29b-41d4-a716-446655440000", "https://example.com/m/1", "nº 1"} {
		req := hello()
		req.Message.MessageId = id
		req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
		if _, err := client.SendMessage(t.Context(), req); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestOnlyVersion1IsSpoken(t *testing.T) {
	service := a2a.NewServer(newShelf())
	for version, ok := range map[string]bool{"": true, "1.0": true, "1.7": true, "1": true, "0.3": false, "2.0": false, "10.0": false} {
		ctx := mesh.WithCall(t.Context(), mesh.Call{Version: version})
		_, err := service.GetTask(ctx, &a2apb.GetTaskRequest{Id: ""})
		e := errorOf(t, err)
		if refused := e.Reason == a2a.ReasonVersionNotSupported; refused == ok {
			t.Errorf("version %q: got %v", version, err)
		}
	}
}

func TestOperationsThatAreNotOfferedSaySo(t *testing.T) {
	client := serve(t, newShelf())
	ctx := t.Context()
	calls := map[string]struct {
		call   func() error
		reason string
	}{
		"list": {func() error { _, err := client.ListTasks(ctx, &a2apb.ListTasksRequest{}); return err }, a2a.ReasonUnsupported},
		"extended": {func() error {
			_, err := client.GetExtendedAgentCard(ctx, &a2apb.GetExtendedAgentCardRequest{})
			return err
		}, a2a.ReasonUnsupported},
		"create push": {func() error {
			_, err := client.CreateTaskPushNotificationConfig(ctx, &a2apb.TaskPushNotificationConfig{})
			return err
		}, a2a.ReasonPushNotSupported},
		"get push": {func() error {
			_, err := client.GetTaskPushNotificationConfig(ctx, &a2apb.GetTaskPushNotificationConfigRequest{})
			return err
		}, a2a.ReasonPushNotSupported},
		"list push": {func() error {
			_, err := client.ListTaskPushNotificationConfigs(ctx, &a2apb.ListTaskPushNotificationConfigsRequest{})
			return err
		}, a2a.ReasonPushNotSupported},
		"delete push": {func() error {
			_, err := client.DeleteTaskPushNotificationConfig(ctx, &a2apb.DeleteTaskPushNotificationConfigRequest{})
			return err
		}, a2a.ReasonPushNotSupported},
	}
	for name, tt := range calls {
		if e := errorOf(t, tt.call()); e.Code != mesh.Precondition || e.Reason != tt.reason || e.Detail == "" {
			t.Errorf("%s: got %v %q, want a precondition %q", name, e, e.Reason, tt.reason)
		}
	}
}

func TestAnAgentThatDoesNotStreamRefusesStreams(t *testing.T) {
	service := newShelf()
	service.card = &a2apb.AgentCard{}
	client := serve(t, service)
	stream, err := client.SendStreamingMessage(t.Context(), hello())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); errorOf(t, err).Reason != a2a.ReasonUnsupported {
		t.Errorf("got %v", err)
	}
	if service.sent != 0 {
		t.Error("the message reached the service")
	}
}

func TestWhoeverCallsWithoutTheInterceptorsIsRefused(t *testing.T) {
	_, err := a2a.NewServer(newShelf()).GetTask(t.Context(), &a2apb.GetTaskRequest{Id: taskID})
	if !mesh.IsCode(err, mesh.Unknown) || err == nil {
		t.Errorf("got %v, want an internal error", err)
	}
}

func TestAMessageBeyondTheLimitIsRefused(t *testing.T) {
	req := hello()
	req.Message.Parts = a2a.NewMessage(a2apb.Role_ROLE_USER, strings.Repeat("x", a2a.MaxMessage)).Parts
	if _, err := serve(t, newShelf()).SendMessage(t.Context(), req); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("got %v, want Exhausted", err)
	}
}
