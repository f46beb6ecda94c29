package v03

import (
	"encoding/json"

	legacy "github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2apb/pbconv"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
)

// method is a method of JSON-RPC in v0.3 and the RPC of v1.0 that it becomes.
type method struct {
	name     string // as gRPC wants it
	decode   func(params json.RawMessage) (proto.Message, *status.Status)
	out      func() proto.Message
	encode   func(proto.Message) (any, error)
	streams  bool
	cardOnly bool // the method is about the extended card
}

// methods returns the methods of v0.3 (A2A v0.3 §7). Listing tasks is not among
// them: it has none but over gRPC and REST. For early see sendParams.
func methods(early bool) map[string]method {
	send := func(raw json.RawMessage) (proto.Message, *status.Status) { return sendParams(raw, early) }
	return map[string]method{
		"message/send": {name: a2apb.A2AService_SendMessage_FullMethodName, decode: send,
			out: newOf[a2apb.SendMessageResponse], encode: encoder(sendResult)},
		"message/stream": {name: a2apb.A2AService_SendStreamingMessage_FullMethodName, decode: send, streams: true},
		"tasks/get": {name: a2apb.A2AService_GetTask_FullMethodName, decode: queryParams,
			out: newOf[a2apb.Task], encode: encoder(taskResult)},
		"tasks/cancel": {name: a2apb.A2AService_CancelTask_FullMethodName, decode: cancelParams,
			out: newOf[a2apb.Task], encode: encoder(taskResult)},
		"tasks/resubscribe": {name: a2apb.A2AService_SubscribeToTask_FullMethodName, decode: subscribeParams, streams: true},
		"tasks/pushNotificationConfig/set": {name: a2apb.A2AService_CreateTaskPushNotificationConfig_FullMethodName, decode: setPushParams,
			out: newOf[a2apb.TaskPushNotificationConfig], encode: encoder(pushResult)},
		"tasks/pushNotificationConfig/get": {name: a2apb.A2AService_GetTaskPushNotificationConfig_FullMethodName, decode: getPushParams,
			out: newOf[a2apb.TaskPushNotificationConfig], encode: encoder(pushResult)},
		"tasks/pushNotificationConfig/list": {name: a2apb.A2AService_ListTaskPushNotificationConfigs_FullMethodName, decode: listPushParams,
			out: newOf[a2apb.ListTaskPushNotificationConfigsResponse], encode: encoder(pushListResult)},
		"tasks/pushNotificationConfig/delete": {name: a2apb.A2AService_DeleteTaskPushNotificationConfig_FullMethodName, decode: deletePushParams,
			out: newOf[emptypb.Empty], encode: encoder(noResult)},
		"agent/getAuthenticatedExtendedCard": {name: a2apb.A2AService_GetExtendedAgentCard_FullMethodName, decode: noParams, cardOnly: true,
			out: newOf[a2apb.AgentCard], encode: encoder(cardOf)},
	}
}

func newOf[T any, P interface {
	*T
	proto.Message
}]() proto.Message {
	return P(new(T))
}

// encoder makes a function of one message type one of all; out makes the type.
func encoder[M proto.Message, R any](f func(M) (R, error)) func(proto.Message) (any, error) {
	return func(m proto.Message) (any, error) {
		return f(m.(M))
	}
}

func queryParams(raw json.RawMessage) (proto.Message, *status.Status) {
	p, bad := params[legacy.TaskQueryParams](raw)
	if bad != nil {
		return nil, bad
	}
	n, bad := length(p.HistoryLength)
	return &a2apb.GetTaskRequest{Id: string(p.ID), HistoryLength: n}, bad
}

func cancelParams(raw json.RawMessage) (proto.Message, *status.Status) {
	p, bad := params[legacy.TaskIDParams](raw)
	if bad != nil {
		return nil, bad
	}
	metadata, err := structpb.NewStruct(p.Metadata)
	if err != nil {
		return nil, invalid("params.metadata", "%s", clip(err.Error()))
	}
	return &a2apb.CancelTaskRequest{Id: string(p.ID), Metadata: metadata}, nil
}

func subscribeParams(raw json.RawMessage) (proto.Message, *status.Status) {
	p, bad := params[legacy.TaskIDParams](raw)
	if bad != nil {
		return nil, bad
	}
	return &a2apb.SubscribeToTaskRequest{Id: string(p.ID)}, nil
}

func setPushParams(raw json.RawMessage) (proto.Message, *status.Status) {
	p, bad := params[legacy.TaskPushConfig](raw)
	if bad != nil {
		return nil, bad
	}
	out := &a2apb.TaskPushNotificationConfig{TaskId: string(p.TaskID), Id: p.Config.ID, Url: p.Config.URL, Token: p.Config.Token}
	if auth := p.Config.Auth; auth != nil {
		out.Authentication = fromAuthentication(auth.Schemes, auth.Credentials)
	}
	return out, nil
}

func getPushParams(raw json.RawMessage) (proto.Message, *status.Status) {
	p, bad := params[legacy.GetTaskPushConfigParams](raw)
	if bad != nil {
		return nil, bad
	}
	return &a2apb.GetTaskPushNotificationConfigRequest{TaskId: string(p.TaskID), Id: p.ConfigID}, nil
}

func listPushParams(raw json.RawMessage) (proto.Message, *status.Status) {
	p, bad := params[legacy.ListTaskPushConfigParams](raw)
	if bad != nil {
		return nil, bad
	}
	return &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: string(p.TaskID)}, nil
}

func deletePushParams(raw json.RawMessage) (proto.Message, *status.Status) {
	p, bad := params[legacy.DeleteTaskPushConfigParams](raw)
	if bad != nil {
		return nil, bad
	}
	return &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: string(p.TaskID), Id: p.ConfigID}, nil
}

// noParams ignores what a client may send for nothing.
func noParams(json.RawMessage) (proto.Message, *status.Status) {
	return &a2apb.GetExtendedAgentCardRequest{}, nil
}

func sendResult(r *a2apb.SendMessageResponse) (any, error) {
	return pbconv.FromProtoSendMessageResponse(toSendResponse(r))
}

func taskResult(t *a2apb.Task) (any, error) { return pbconv.FromProtoTask(toTask(t)) }

// EncodePush returns what a webhook of A2A v0.3 is sent: the task as JSON.
func EncodePush(t *a2apb.Task) ([]byte, error) {
	task, err := taskResult(t)
	if err != nil {
		return nil, mesh.Errorf(mesh.Unknown, "v03.EncodePush", "the task cannot be shown in A2A 0.3: %w", err)
	}
	return json.Marshal(task)
}

func pushResult(c *a2apb.TaskPushNotificationConfig) (any, error) {
	return pbconv.FromProtoTaskPushConfig(toPush(c))
}

// pushListResult is a list, also when it is empty.
func pushListResult(r *a2apb.ListTaskPushNotificationConfigsResponse) (any, error) {
	all, err := pbconv.FromProtoListTaskPushConfig(toPushList(r))
	if all == nil {
		all = []*legacy.TaskPushConfig{}
	}
	return all, err
}

func noResult(*emptypb.Empty) (any, error) { return nil, nil }
