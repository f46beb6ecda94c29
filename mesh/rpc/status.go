package rpc

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"agentmesh/mesh"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// ErrorDomain is the domain of the ErrorInfo of A2A errors (A2A v1.0 §10.6).
const ErrorDomain = "a2a-protocol.org"

// grpcCodes is indexed by mesh.Code and one-to-one on purpose: a code that
// crosses the wire and comes back is the same code.
var grpcCodes = [...]codes.Code{
	mesh.Unknown:         codes.Internal,
	mesh.Invalid:         codes.InvalidArgument,
	mesh.NotFound:        codes.NotFound,
	mesh.Denied:          codes.PermissionDenied,
	mesh.Unauthenticated: codes.Unauthenticated,
	mesh.Precondition:    codes.FailedPrecondition,
	mesh.Conflict:        codes.Aborted,
	mesh.Exhausted:       codes.ResourceExhausted,
	mesh.Unavailable:     codes.Unavailable,
	mesh.Canceled:        codes.Canceled,
	mesh.Timeout:         codes.DeadlineExceeded,
	mesh.Unsupported:     codes.Unimplemented,
	mesh.DataLoss:        codes.DataLoss,
}

// GRPCCode returns the gRPC code of c, Internal for codes that do not exist.
func GRPCCode(c mesh.Code) codes.Code {
	if int(c) < len(grpcCodes) {
		return grpcCodes[c]
	}
	return codes.Internal
}

// MeshCode returns the mesh code of c. The gRPC codes that the mesh does not
// use itself become the one that asks the same of the caller.
func MeshCode(c codes.Code) mesh.Code {
	switch c {
	case codes.AlreadyExists:
		return mesh.Precondition
	case codes.OutOfRange:
		return mesh.Invalid
	}
	for m, g := range grpcCodes {
		if g == c {
			return mesh.Code(m)
		}
	}
	return mesh.Unknown
}

// ambiguous reports whether the gRPC library itself makes statuses with the
// code, whose text names addresses and other things that are not for users.
// Text under these codes is believed only when it comes with a
// LocalizedMessage, which ToStatus adds.
func ambiguous(c mesh.Code) bool {
	switch c {
	case mesh.Unknown, mesh.Unavailable, mesh.Canceled, mesh.Timeout:
		return true
	}
	return false
}

// ToStatus returns err as a status for the wire, with the code, detail, field,
// reason and limit of the *mesh.Error in its chain and nothing else of it. A status
// of another server passes with what FromStatus leaves of it. Anything else is
// Internal and says "internal error" only. It returns nil for nil.
func ToStatus(err error) error { return ErrorsV101.ToStatus(err) }

// ToStatus is the function [ToStatus] with the codes of this table.
func (t ErrorTable) ToStatus(err error) error {
	if err == nil {
		return nil
	}
	var e *mesh.Error
	if !errors.As(err, &e) {
		e = foreign(err)
	}
	st := status.New(t.grpcCode(e), message(e))
	if full, derr := st.WithDetails(details(e)...); derr == nil {
		st = full
	}
	return st.Err()
}

// foreign returns what may be shown of an error that is not a *mesh.Error.
func foreign(err error) *mesh.Error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &mesh.Error{Code: mesh.CodeOf(err)}
	}
	if st, ok := status.FromError(err); ok {
		return fromStatus(st, err)
	}
	return &mesh.Error{Code: mesh.Unknown, Err: err}
}

func message(e *mesh.Error) string {
	switch {
	case e.Detail != "":
		return e.Detail
	case e.Code == mesh.Unknown:
		return "internal error"
	}
	return e.Code.String()
}

func details(e *mesh.Error) []protoadapt.MessageV1 {
	var out []protoadapt.MessageV1
	if e.Reason != "" {
		info := &errdetails.ErrorInfo{Reason: e.Reason, Domain: ErrorDomain}
		info.Metadata = limitInfo(e.Limit)
		if e.Policy != "" {
			info.Metadata = map[string]string{infoPolicy: e.Policy}
		}
		if e.Lack != nil {
			info.Metadata = map[string]string{infoPermission: e.Lack.Permission, infoAgent: e.Lack.Agent}
		}
		if m := (*withInfo)(nil); errors.As(e.Err, &m) {
			if info.Metadata == nil {
				info.Metadata = map[string]string{}
			}
			maps.Copy(info.Metadata, m.info)
		}
		out = append(out, info)
	}
	if e.Field != "" {
		out = append(out, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: e.Field, Description: message(e)},
		}})
	}
	if after, ok := RetryAfter(e); ok {
		out = append(out, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	if ambiguous(e.Code) && e.Detail != "" {
		out = append(out, &errdetails.LocalizedMessage{Locale: "en", Message: e.Detail})
	}
	return out
}

// FromStatus returns the error of a gRPC call as a *mesh.Error, with err as
// its cause. An error that already is a *mesh.Error, and nil, are returned as
// they are. Text that the gRPC library made, which may name addresses, is in
// the cause only.
func FromStatus(err error) error {
	if err == nil {
		return nil
	}
	if e := (*mesh.Error)(nil); errors.As(err, &e) {
		return err
	}
	st, ok := status.FromError(err)
	if !ok {
		return &mesh.Error{Code: mesh.CodeOf(err), Err: err}
	}
	return fromStatus(st, err)
}

func fromStatus(st *status.Status, cause error) *mesh.Error {
	e := &mesh.Error{Code: MeshCode(st.Code()), Err: cause}
	switch {
	case st.Message() == e.Code.String():
	case !ambiguous(e.Code):
		e.Detail = st.Message()
	case e.Code == mesh.Unavailable:
		e.Detail = "the service cannot be reached at the moment; try again"
	}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == ErrorDomain {
				e.Reason, e.Limit = d.GetReason(), limitOf(d.GetMetadata())
				e.Lack = lackOf(d.GetMetadata())
			}
		case *errdetails.BadRequest:
			if v := d.GetFieldViolations(); len(v) > 0 {
				e.Field = v[0].GetField()
			}
		case *errdetails.RetryInfo:
			e.Err = &withRetry{after: d.GetRetryDelay().AsDuration(), error: e.Err}
		case *errdetails.LocalizedMessage:
			e.Detail = d.GetMessage()
		}
	}
	return e
}

// infoPolicy is the key by which the policy that refused is in the metadata of an
// ErrorInfo.
const infoPolicy = "policy"

// The keys by which a permission that the user lacks, and the agent that requires it, are in
// the metadata of an ErrorInfo.
const (
	infoPermission = "permission"
	infoAgent      = "agent"
)

// lackOf is the permission in the metadata of an ErrorInfo; nil for none.
func lackOf(info map[string]string) *mesh.Lack {
	if info[infoPermission] == "" {
		return nil
	}
	return &mesh.Lack{Permission: info[infoPermission], Agent: info[infoAgent]}
}

// The keys by which a limit that was met is in the metadata of an ErrorInfo.
const (
	infoLimit = "limit" // its name
	infoUsed  = "used"
	infoMost  = "most"
	infoFree  = "free" // when there is room again, in RFC 3339; absent where time alone makes none
)

// limitInfo is the limit as metadata of an ErrorInfo; nil for none.
func limitInfo(l *mesh.LimitTripped) map[string]string {
	if l == nil {
		return nil
	}
	info := map[string]string{infoLimit: l.Limit, infoUsed: strconv.FormatInt(l.Used, 10), infoMost: strconv.FormatInt(l.Most, 10)}
	if !l.Free.IsZero() {
		info[infoFree] = l.Free.UTC().Format(time.RFC3339Nano)
	}
	return info
}

// limitOf is the limit in the metadata of an ErrorInfo; nil for none. Numbers and
// times that cannot be read are zero.
func limitOf(info map[string]string) *mesh.LimitTripped {
	if info[infoLimit] == "" {
		return nil
	}
	l := &mesh.LimitTripped{Limit: info[infoLimit]}
	l.Used, _ = strconv.ParseInt(info[infoUsed], 10, 64)
	l.Most, _ = strconv.ParseInt(info[infoMost], 10, 64)
	if at, err := time.Parse(time.RFC3339Nano, info[infoFree]); err == nil {
		l.Free = at
	}
	return l
}

// WithInfo adds metadata to the ErrorInfo that e becomes on the wire, which
// exists only if e has a Reason. It changes and returns e. The metadata does
// not survive FromStatus: what one hop adds is not for the next.
func WithInfo(e *mesh.Error, info map[string]string) *mesh.Error {
	e.Err = &withInfo{info: info, error: e.Err}
	return e
}

// InfoIssuers is the key of an ErrorInfo by which a refusal for want of a token names the
// OpenID Connect providers that issue them, with blanks between: what WWW-Authenticate says
// over HTTP (RFC 9728) by way of a document.
const InfoIssuers = "authorization_servers"

// Info returns what the ErrorInfo of a failed call has under the key; "" for nothing.
func Info(err error, key string) string {
	st, _ := status.FromError(err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == ErrorDomain {
			return info.GetMetadata()[key]
		}
	}
	return ""
}

// WithRetryAfter tells the caller of a failed call when to try again
// (RetryInfo on the wire). It changes and returns e.
func WithRetryAfter(e *mesh.Error, after time.Duration) *mesh.Error {
	e.Err = &withRetry{after: after, error: e.Err}
	return e
}

// RetryAfter returns how long err asks its reader to wait before trying again;
// false if it does not say.
func RetryAfter(err error) (time.Duration, bool) {
	var r *withRetry
	if errors.As(err, &r) {
		return r.after, true
	}
	var e *mesh.Error
	if errors.As(err, &e) && e.Limit != nil && !e.Limit.Free.IsZero() {
		return max(time.Until(e.Limit.Free), 0), true
	}
	return 0, false
}

type withInfo struct {
	info map[string]string
	error
}

type withRetry struct {
	after time.Duration
	error
}

func (w *withInfo) Error() string  { return causeText(w.error, "info for the caller") }
func (w *withInfo) Unwrap() error  { return w.error }
func (w *withRetry) Error() string { return causeText(w.error, "retry after "+w.after.String()) }
func (w *withRetry) Unwrap() error { return w.error }

func causeText(cause error, without string) string {
	if cause == nil {
		return without
	}
	return cause.Error()
}
