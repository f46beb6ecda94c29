package a2a

import (
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// Reasons of A2A errors (A2A v1.0.1 §5.4), beside TASK_NOT_FOUND, which
// [mesh.TaskNotFound] carries.
const (
	ReasonTaskNotCancelable   = "TASK_NOT_CANCELABLE"
	ReasonPushNotSupported    = "PUSH_NOTIFICATION_NOT_SUPPORTED"
	ReasonUnsupported         = "UNSUPPORTED_OPERATION"
	ReasonCardNotConfigured   = "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
	ReasonVersionNotSupported = "VERSION_NOT_SUPPORTED"
	ReasonExtensionRequired   = "EXTENSION_SUPPORT_REQUIRED"
	ReasonContentType         = "CONTENT_TYPE_NOT_SUPPORTED"
)

// NotCancelable is the refusal to cancel a task that is over.
func NotCancelable(op string) *mesh.Error {
	return &mesh.Error{Code: mesh.Precondition, Op: op, Field: "id", Reason: ReasonTaskNotCancelable,
		Detail: "The task is over and cannot be canceled; read it with GetTask"}
}

// UnsupportedOperation is the refusal of what the task or this server cannot
// do. The detail says why and what to do instead.
func UnsupportedOperation(op, detail string) *mesh.Error {
	return &mesh.Error{Code: mesh.Precondition, Op: op, Reason: ReasonUnsupported, Detail: detail}
}

// TaskOver is the refusal of a message to a task that is over.
func TaskOver(op string) *mesh.Error {
	return &mesh.Error{Code: mesh.Precondition, Op: op, Field: "message.task_id", Reason: ReasonUnsupported,
		Detail: "The task is over; send the message without a task id, with the same context id, to begin a new task"}
}

// ContentTypeNotSupported is the refusal of a media type in the field where some others are
// taken.
func ContentTypeNotSupported(op, field, kind string, taken []string) *mesh.Error {
	e := mesh.InvalidField(op, field, "the media type %q is not taken here; send %s", clip(kind), mesh.Clip(strings.Join(taken, ", "), 400))
	e.Reason = ReasonContentType
	return e
}

func extensionRequired(op, uri string) *mesh.Error {
	return &mesh.Error{Code: mesh.Precondition, Op: op, Field: rpc.KeyExtensions, Reason: ReasonExtensionRequired,
		Detail: "This agent needs its callers to support the extension " + mesh.Clip(uri, 200) + "; name it in A2A-Extensions if you do"}
}

func pushNotSupported(op string) *mesh.Error {
	return &mesh.Error{Code: mesh.Precondition, Op: op, Reason: ReasonPushNotSupported,
		Detail: "Push notifications are not offered here; follow the task with SubscribeToTask"}
}
