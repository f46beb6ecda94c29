package mesh

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentmesh/mesh/text"
)

// A Code says what the caller of a failed operation may do about it. Codes are
// one-to-one with gRPC status codes (package rpc holds the table), so that a
// code that crosses the wire and comes back is the same code.
type Code uint8

// The codes. The zero value is Unknown.
const (
	Unknown         Code = iota // nothing is known; treat as a bug
	Invalid                     // fix the request
	NotFound                    // the thing does not exist, or not for you
	Denied                      // ask for permission
	Unauthenticated             // say who you are
	Precondition                // the thread or task is in the wrong state
	Conflict                    // another writer won; read again and decide again
	Exhausted                   // a budget or quota is spent
	Unavailable                 // retry with backoff
	Canceled                    // the caller gave up
	Timeout                     // the deadline passed
	Unsupported                 // this server does not offer the operation
	DataLoss                    // what is stored is damaged; its operator must restore a copy
	numCodes
)

var codeNames = [numCodes]string{
	Unknown: "unknown", Invalid: "invalid", NotFound: "not found", Denied: "denied",
	Unauthenticated: "unauthenticated", Precondition: "precondition", Conflict: "conflict",
	Exhausted: "exhausted", Unavailable: "unavailable", Canceled: "canceled",
	Timeout: "timeout", Unsupported: "unsupported", DataLoss: "data loss",
}

// String returns the code's name in lower case.
func (c Code) String() string {
	if c < numCodes {
		return codeNames[c]
	}
	return fmt.Sprintf("code(%d)", uint8(c))
}

// An Error is the only error type that crosses a package boundary of the mesh.
// Only Code, Detail, Field, Reason and Limit may reach a client; Op and Err are
// for the operator.
type Error struct {
	Code Code
	// Op names the operation that failed, as "threadlog.Append".
	Op string
	// Detail is a sentence for the user: what is wrong and what to do.
	Detail string
	// Field names the part of the request that was refused, as
	// "message.parts", if one was.
	Field string
	// Reason is the A2A error reason, as "TASK_NOT_FOUND" (A2A v1.0.1 §5.4),
	// if the failure has one.
	Reason string
	// Limit is the limit that was met, if the failure is that; its own Detail
	// is empty.
	Limit *LimitTripped
	// Forbidden says that the caller tried what it may not, whatever else Code tells it;
	// see [IsForbidden].
	Forbidden bool
	// Policy is the id of the operator's policy that refused, if one did.
	Policy string
	// Lack is the permission for want of which an agent does not work, if it is that.
	Lack *Lack
	// Err is the cause.
	Err error
}

// Error joins what is known, for logs.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op + ": ")
	}
	b.WriteString(e.Code.String())
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error with a detail for the user. A final %w operand
// becomes the cause and stays out of the detail.
func Errorf(code Code, op, format string, args ...any) *Error {
	e := &Error{Code: code, Op: op}
	if cut, ok := strings.CutSuffix(format, ": %w"); ok && len(args) > 0 {
		if err, isErr := args[len(args)-1].(error); isErr {
			e.Err, format, args = err, cut, args[:len(args)-1]
		}
	}
	e.Detail = text.Sprintf(format, args...)
	return e
}

// InvalidField returns an Invalid error that names the field and the remedy.
func InvalidField(op, field, format string, args ...any) *Error {
	return &Error{Code: Invalid, Op: op, Field: field, Detail: text.Sprintf(format, args...)}
}

// Wrap adds the operation to err and keeps its code. It returns nil for nil.
func Wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Code: CodeOf(err), Op: op, Err: err}
	var inner *Error
	if errors.As(err, &inner) {
		e.Detail, e.Field, e.Reason, e.Limit, e.Policy = inner.Detail, inner.Field, inner.Reason, inner.Limit, inner.Policy
		e.Lack = inner.Lack
	}
	return e
}

// IsForbidden reports whether a call failed because its caller tried what it may not: that
// is recorded.
func IsForbidden(err error) bool {
	var e *Error
	for ; errors.As(err, &e); err = e.Err {
		if e.Forbidden || e.Code == Denied || e.Code == Unauthenticated {
			return true
		}
	}
	return false
}

// CodeOf returns the code of the outermost Error in err's chain, Canceled or
// Timeout for the context's own errors, and Unknown otherwise.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Unknown
}

// DetailOf returns what a user may be told about err, or "".
func DetailOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Detail
	}
	return ""
}

// FieldOf returns the part of the request that was refused, or "".
func FieldOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Field
	}
	return ""
}

// PolicyOf returns the id of the operator's policy that refused, or "".
func PolicyOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Policy
	}
	return ""
}

// LackOf returns the permission for want of which an agent does not work; nil if err is
// something else.
func LackOf(err error) *Lack {
	var e *Error
	if errors.As(err, &e) {
		return e.Lack
	}
	return nil
}

// IsCode reports whether err has the code.
func IsCode(err error, c Code) bool { return err != nil && CodeOf(err) == c }

// ThreadNotFound is the answer for threads that do not exist and for threads
// of other tenants alike, so that nobody learns which exist (S4-014). It names the field
// that the requests of the mesh's services have; who takes the thread from elsewhere names that.
func ThreadNotFound(op string) *Error {
	return &Error{Code: NotFound, Op: op, Field: "thread_id",
		Detail: "Thread not found for tenant; check the thread id or start a new conversation"}
}

// TaskNotFound is the answer for tasks that do not exist and for tasks of
// other tenants alike (A2A v1.0 §3.1.3).
func TaskNotFound(op string) *Error {
	return &Error{Code: NotFound, Op: op, Field: "id", Reason: "TASK_NOT_FOUND",
		Detail: "Task not found; check the task id"}
}
