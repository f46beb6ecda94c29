package v03

import (
	"encoding/base64"
	"maps"
	"strings"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
)

// The messages of v1.0 as those of v0.3. States and roles have the same numbers
// in both. What is returned shares all that did not change.

// valueKey holds data that is no object, which v0.3 cannot say; the part's
// metadata then has wrappedKey. The SDKs of A2A do the same.
const (
	valueKey   = "value"
	wrappedKey = "data_part_compat"
)

func each[In, Out any](in []In, f func(In) Out) []Out {
	if len(in) == 0 {
		return nil
	}
	out := make([]Out, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func toEvent(r *a2apb.StreamResponse) *legacypb.StreamResponse {
	switch p := r.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		return &legacypb.StreamResponse{Payload: &legacypb.StreamResponse_Task{Task: toTask(p.Task)}}
	case *a2apb.StreamResponse_Message:
		return &legacypb.StreamResponse{Payload: &legacypb.StreamResponse_Msg{Msg: toMessage(p.Message)}}
	case *a2apb.StreamResponse_StatusUpdate:
		u := p.StatusUpdate
		return &legacypb.StreamResponse{Payload: &legacypb.StreamResponse_StatusUpdate{StatusUpdate: &legacypb.TaskStatusUpdateEvent{
			TaskId: u.TaskId, ContextId: u.ContextId, Status: toStatus(u.Status),
			Final: final(u.GetStatus().GetState()), Metadata: u.Metadata,
		}}}
	case *a2apb.StreamResponse_ArtifactUpdate:
		u := p.ArtifactUpdate
		return &legacypb.StreamResponse{Payload: &legacypb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &legacypb.TaskArtifactUpdateEvent{
			TaskId: u.TaskId, ContextId: u.ContextId, Artifact: toArtifact(u.Artifact),
			Append: u.Append, LastChunk: u.LastChunk, Metadata: u.Metadata,
		}}}
	}
	return &legacypb.StreamResponse{}
}

func toSendResponse(r *a2apb.SendMessageResponse) *legacypb.SendMessageResponse {
	switch p := r.GetPayload().(type) {
	case *a2apb.SendMessageResponse_Task:
		return &legacypb.SendMessageResponse{Payload: &legacypb.SendMessageResponse_Task{Task: toTask(p.Task)}}
	case *a2apb.SendMessageResponse_Message:
		return &legacypb.SendMessageResponse{Payload: &legacypb.SendMessageResponse_Msg{Msg: toMessage(p.Message)}}
	}
	return &legacypb.SendMessageResponse{}
}

func toTask(t *a2apb.Task) *legacypb.Task {
	return &legacypb.Task{
		Id: t.GetId(), ContextId: t.GetContextId(), Status: toStatus(t.GetStatus()),
		Artifacts: each(t.GetArtifacts(), toArtifact), History: each(t.GetHistory(), toMessage), Metadata: t.GetMetadata(),
	}
}

func toStatus(s *a2apb.TaskStatus) *legacypb.TaskStatus {
	out := &legacypb.TaskStatus{State: legacypb.TaskState(s.GetState()), Timestamp: s.GetTimestamp()}
	if m := s.GetMessage(); m != nil {
		out.Update = toMessage(m)
	}
	return out
}

func toMessage(m *a2apb.Message) *legacypb.Message {
	return &legacypb.Message{
		MessageId: m.GetMessageId(), ContextId: m.GetContextId(), TaskId: m.GetTaskId(), Role: legacypb.Role(m.GetRole()),
		Parts: toParts(m.GetParts()), Metadata: m.GetMetadata(), Extensions: m.GetExtensions(), ReferenceTaskIds: m.GetReferenceTaskIds(),
	}
}

func toArtifact(a *a2apb.Artifact) *legacypb.Artifact {
	return &legacypb.Artifact{
		ArtifactId: a.GetArtifactId(), Name: a.GetName(), Description: a.GetDescription(),
		Parts: toParts(a.GetParts()), Metadata: a.GetMetadata(), Extensions: a.GetExtensions(),
	}
}

// toParts leaves out parts without content, which an agent may send and v0.3
// has no form for.
func toParts(parts []*a2apb.Part) []*legacypb.Part {
	out := make([]*legacypb.Part, 0, len(parts))
	for _, p := range parts {
		if part := toPart(p); part != nil {
			out = append(out, part)
		}
	}
	return out
}

func toPart(p *a2apb.Part) *legacypb.Part {
	switch c := p.GetContent().(type) {
	case *a2apb.Part_Text:
		return &legacypb.Part{Part: &legacypb.Part_Text{Text: c.Text}, Metadata: p.Metadata}
	case *a2apb.Part_Url:
		f := &legacypb.FilePart{MimeType: p.MediaType, Name: p.Filename, File: &legacypb.FilePart_FileWithUri{FileWithUri: c.Url}}
		return &legacypb.Part{Part: &legacypb.Part_File{File: f}, Metadata: p.Metadata}
	case *a2apb.Part_Raw:
		// The peers of v0.3 have base64 in here, also where bytes could be.
		text := base64.StdEncoding.AppendEncode(nil, c.Raw)
		f := &legacypb.FilePart{MimeType: p.MediaType, Name: p.Filename, File: &legacypb.FilePart_FileWithBytes{FileWithBytes: text}}
		return &legacypb.Part{Part: &legacypb.Part_File{File: f}, Metadata: p.Metadata}
	case *a2apb.Part_Data:
		data, metadata := c.Data.GetStructValue(), p.Metadata
		if data == nil {
			value := c.Data
			if value.GetKind() == nil {
				value = structpb.NewNullValue()
			}
			data = &structpb.Struct{Fields: map[string]*structpb.Value{valueKey: value}}
			fields := maps.Clone(metadata.GetFields())
			if fields == nil {
				fields = map[string]*structpb.Value{}
			}
			fields[wrappedKey] = structpb.NewBoolValue(true)
			metadata = &structpb.Struct{Fields: fields}
		}
		return &legacypb.Part{Part: &legacypb.Part_Data{Data: &legacypb.DataPart{Data: data}}, Metadata: metadata}
	}
	return nil
}

// The messages of v0.3 as those of v1.0.

// fromSend translates a message to send, which is not waited for if early is set and it
// has no configuration. v0.3 has a number for history_length, where 0 means all.
func fromSend(r *legacypb.SendMessageRequest, early bool) *a2apb.SendMessageRequest {
	out := &a2apb.SendMessageRequest{Metadata: r.GetMetadata()}
	if early {
		out.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	}
	if m := r.GetRequest(); m != nil {
		out.Message = fromMessage(m)
	}
	if c := r.GetConfiguration(); c != nil {
		out.Configuration = &a2apb.SendMessageConfiguration{
			AcceptedOutputModes: c.GetAcceptedOutputModes(),
			HistoryLength:       fromLength(c.GetHistoryLength()),
			ReturnImmediately:   !c.GetBlocking(),
		}
		if p := c.GetPushNotification(); p != nil {
			out.Configuration.TaskPushNotificationConfig = fromPush(out.GetMessage().GetTaskId(), p)
		}
	}
	return out
}

func fromLength(n int32) *int32 {
	if n == 0 {
		return nil
	}
	return &n
}

func fromMessage(m *legacypb.Message) *a2apb.Message {
	return &a2apb.Message{
		MessageId: m.GetMessageId(), ContextId: m.GetContextId(), TaskId: m.GetTaskId(), Role: a2apb.Role(m.GetRole()),
		Parts: each(m.GetParts(), fromPart), Metadata: m.GetMetadata(), Extensions: m.GetExtensions(), ReferenceTaskIds: m.GetReferenceTaskIds(),
	}
}

// fromPart translates a part. One without content stays one, for v1.0 to
// refuse.
func fromPart(p *legacypb.Part) *a2apb.Part {
	out := &a2apb.Part{Metadata: p.GetMetadata()}
	switch c := p.GetPart().(type) {
	case *legacypb.Part_Text:
		out.Content = &a2apb.Part_Text{Text: c.Text}
	case *legacypb.Part_File:
		out.MediaType, out.Filename = c.File.GetMimeType(), c.File.GetName()
		switch f := c.File.GetFile().(type) {
		case *legacypb.FilePart_FileWithUri:
			out.Content = &a2apb.Part_Url{Url: f.FileWithUri}
		case *legacypb.FilePart_FileWithBytes:
			out.Content = &a2apb.Part_Raw{Raw: fromFile(f.FileWithBytes)}
		}
	case *legacypb.Part_Data:
		data := c.Data.GetData()
		if data == nil {
			data = &structpb.Struct{}
		}
		out.Content = &a2apb.Part_Data{Data: structpb.NewStructValue(data)}
		value, wrapped := data.GetFields()[valueKey]
		if wrapped && p.GetMetadata().GetFields()[wrappedKey].GetBoolValue() {
			out.Content = &a2apb.Part_Data{Data: value}
			fields := maps.Clone(p.GetMetadata().GetFields())
			delete(fields, wrappedKey)
			if out.Metadata = nil; len(fields) > 0 {
				out.Metadata = &structpb.Struct{Fields: fields}
			}
		}
	}
	return out
}

// fromFile returns the bytes of a file, which the peers of v0.3 send as base64
// and the proto means as they are.
func fromFile(sent []byte) []byte {
	if raw, err := base64.StdEncoding.AppendDecode(nil, sent); err == nil {
		return raw
	}
	return sent
}

// Push notification configs. In v0.3 they may have several schemes, of which
// v1.0 keeps the first.

func fromPush(task string, c *legacypb.PushNotificationConfig) *a2apb.TaskPushNotificationConfig {
	auth := c.GetAuthentication()
	return &a2apb.TaskPushNotificationConfig{TaskId: task, Id: c.GetId(), Url: c.GetUrl(), Token: c.GetToken(),
		Authentication: fromAuthentication(auth.GetSchemes(), auth.GetCredentials())}
}

// fromAuthentication takes credentials without a scheme for a bearer token: in v0.3 the
// schemes may be none. Without credentials there is nothing to prove.
func fromAuthentication(schemes []string, credentials string) *a2apb.AuthenticationInfo {
	switch {
	case len(schemes) > 0 && schemes[0] != "":
		return &a2apb.AuthenticationInfo{Scheme: schemes[0], Credentials: credentials}
	case credentials != "":
		return &a2apb.AuthenticationInfo{Scheme: "Bearer", Credentials: credentials}
	}
	return nil
}

func toPush(c *a2apb.TaskPushNotificationConfig) *legacypb.TaskPushNotificationConfig {
	config := &legacypb.PushNotificationConfig{Id: c.GetId(), Url: c.GetUrl(), Token: c.GetToken()}
	if auth := c.GetAuthentication(); auth != nil {
		config.Authentication = &legacypb.AuthenticationInfo{Schemes: []string{auth.GetScheme()}, Credentials: auth.GetCredentials()}
	}
	return &legacypb.TaskPushNotificationConfig{Name: pushName(c.GetTaskId(), c.GetId()), PushNotificationConfig: config}
}

func toPushList(r *a2apb.ListTaskPushNotificationConfigsResponse) *legacypb.ListTaskPushNotificationConfigResponse {
	return &legacypb.ListTaskPushNotificationConfigResponse{Configs: each(r.GetConfigs(), toPush), NextPageToken: r.GetNextPageToken()}
}

// fromCreatePush translates a config to keep. Its id is in one of two places.
func fromCreatePush(op string, r *legacypb.CreateTaskPushNotificationConfigRequest) (*a2apb.TaskPushNotificationConfig, error) {
	task, _, err := fromName(op, "parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	if r.GetConfig().GetPushNotificationConfig() == nil {
		return nil, mesh.InvalidField(op, "config.push_notification_config", "is missing; send a config with a url")
	}
	out := fromPush(task, r.GetConfig().GetPushNotificationConfig())
	if out.Id == "" {
		out.Id = r.GetConfigId()
	}
	return out, nil
}

const (
	tasksCollection = "tasks"
	pushCollection  = "pushNotificationConfigs"
)

func taskName(task string) string { return tasksCollection + "/" + task }

func pushName(task, id string) string { return taskName(task) + "/" + pushCollection + "/" + id }

// fromName reads "tasks/{id}" and "tasks/{id}/pushNotificationConfigs/{id}",
// whose last id may be missing.
func fromName(op, field, name string) (task, config string, err error) {
	s := strings.Split(name, "/")
	if len(s) < 2 || len(s) > 4 || s[0] != tasksCollection || s[1] == "" || len(s) > 2 && s[2] != pushCollection {
		return "", "", mesh.InvalidField(op, field, "must be tasks/{id} or tasks/{id}/pushNotificationConfigs/{id}")
	}
	if len(s) == 4 {
		config = s[3]
	}
	return s[1], config, nil
}

func fromList(r *legacypb.ListTasksRequest) *a2apb.ListTasksRequest {
	out := &a2apb.ListTasksRequest{
		ContextId: r.GetContextId(), Status: a2apb.TaskState(r.GetStatus()), PageSize: fromLength(r.GetPageSize()), PageToken: r.GetPageToken(),
		HistoryLength: fromLength(r.GetHistoryLength()), StatusTimestampAfter: r.GetLastUpdatedTime(),
	}
	if include := r.GetIncludeArtifacts(); include {
		out.IncludeArtifacts = &include
	}
	return out
}

func toList(r *a2apb.ListTasksResponse) *legacypb.ListTasksResponse {
	return &legacypb.ListTasksResponse{Tasks: each(r.GetTasks(), toTask), NextPageToken: r.GetNextPageToken(), TotalSize: r.GetTotalSize()}
}
