package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestEveryMeshCodeHasItsOwnGRPCCode(t *testing.T) {
	want := map[mesh.Code]codes.Code{
		mesh.Unknown: codes.Internal, mesh.Invalid: codes.InvalidArgument, mesh.NotFound: codes.NotFound,
		mesh.Denied: codes.PermissionDenied, mesh.Unauthenticated: codes.Unauthenticated,
		mesh.Precondition: codes.FailedPrecondition, mesh.Conflict: codes.Aborted,
		mesh.Exhausted: codes.ResourceExhausted, mesh.Unavailable: codes.Unavailable,
		mesh.Canceled: codes.Canceled, mesh.Timeout: codes.DeadlineExceeded, mesh.Unsupported: codes.Unimplemented,
		mesh.DataLoss: codes.DataLoss,
	}
	seen := make(map[codes.Code]mesh.Code)
	for c := range mesh.DataLoss + 1 {
		got := rpc.GRPCCode(c)
		if got != want[c] || got == codes.OK {
			t.Errorf("GRPCCode(%v) = %v, want %v", c, got, want[c])
		}
		if other, dup := seen[got]; dup {
			t.Errorf("%v and %v are both %v", c, other, got)
		}
		seen[got] = c
		if back := rpc.MeshCode(got); back != c {
			t.Errorf("MeshCode(GRPCCode(%v)) = %v", c, back)
		}
	}
}

func TestGRPCCodesThatTheMeshDoesNotUseAskTheSameOfTheCaller(t *testing.T) {
	for in, want := range map[codes.Code]mesh.Code{
		codes.Unknown: mesh.Unknown, codes.AlreadyExists: mesh.Precondition,
		codes.OutOfRange: mesh.Invalid, codes.Code(99): mesh.Unknown,
	} {
		if got := rpc.MeshCode(in); got != want {
			t.Errorf("MeshCode(%v) = %v, want %v", in, got, want)
		}
	}
	if got := rpc.GRPCCode(mesh.Code(200)); got != codes.Internal {
		t.Errorf("GRPCCode of a code that does not exist = %v, want Internal", got)
	}
}

func TestAnErrorThatCrossesTheWireIsTheSameError(t *testing.T) {
	for c := range mesh.DataLoss + 1 {
		for _, e := range []mesh.Error{
			{Code: c},
			{Code: c, Detail: "do this instead"},
			{Code: c, Detail: "must be set", Field: "message.parts"},
			{Code: c, Detail: "no such task", Field: "id", Reason: "TASK_NOT_FOUND"},
			{Code: c, Reason: "INVALID_AGENT_RESPONSE"},
			// finding C8: a limit travels as data
			{Code: c, Reason: "LIMIT:turn.agents", Detail: "no more", Limit: &mesh.LimitTripped{Limit: "turn.agents", Used: 7, Most: 8}},
			{Code: c, Reason: "LIMIT:x", Limit: &mesh.LimitTripped{Limit: "x", Used: 1, Most: 1, Free: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)}},
			{Code: c, Reason: mesh.ReasonPermission, Detail: "no", Field: "target_agent", Lack: &mesh.Lack{Permission: "skill:create", Agent: "builder"}},
		} {
			in := e
			in.Op, in.Err = "secret.Op", errors.New("secret cause")
			wire := rpc.ToStatus(fmt.Errorf("around: %w", &in))
			var got *mesh.Error
			if !errors.As(rpc.FromStatus(wire), &got) {
				t.Fatalf("FromStatus(%v) is no *mesh.Error", wire)
			}
			got = &mesh.Error{Code: got.Code, Detail: got.Detail, Field: got.Field, Reason: got.Reason, Limit: got.Limit, Lack: got.Lack}
			want := e
			if c == mesh.Unavailable && want.Detail == "" {
				want.Detail = got.Detail // FromStatus has a sentence for the user
			}
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("%v after the wire (-want +got):\n%s", e, diff)
			}
		}
	}
}

func TestOnlyWhatIsForTheCallerGoesOnTheWire(t *testing.T) {
	const secret = "/var/lib/mesh: 10.0.0.7:7420"
	tests := map[string]struct {
		err      error
		wantCode codes.Code
		wantText string
	}{
		"a foreign error":            {errors.New(secret), codes.Internal, "internal error"},
		"an unknown mesh error":      {&mesh.Error{Op: secret, Err: errors.New(secret)}, codes.Internal, "internal error"},
		"a cause":                    {mesh.Errorf(mesh.NotFound, "op", "no such task: %w", errors.New(secret)), codes.NotFound, "no such task"},
		"a cancelled context":        {fmt.Errorf("%s: %w", secret, context.Canceled), codes.Canceled, "canceled"},
		"a deadline":                 {fmt.Errorf("%s: %w", secret, context.DeadlineExceeded), codes.DeadlineExceeded, "timeout"},
		"the transport's own status": {status.Error(codes.Unavailable, secret), codes.Unavailable, "the service cannot be reached at the moment; try again"},
		"another server's failure":   {status.Error(codes.Unknown, secret), codes.Internal, "internal error"},
		"another server's refusal":   {status.Error(codes.NotFound, "unknown service"), codes.NotFound, "unknown service"},
		"a method that is not there": {status.Error(codes.Unimplemented, "method X not implemented"), codes.Unimplemented, "method X not implemented"},
		"a downstream error":         {mesh.Wrap("edge", rpc.FromStatus(status.Error(codes.Unavailable, secret))), codes.Unavailable, "the service cannot be reached at the moment; try again"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			st := status.Convert(rpc.ToStatus(tt.err))
			if st.Code() != tt.wantCode || st.Message() != tt.wantText {
				t.Errorf("ToStatus(%v) = %v %q, want %v %q", tt.err, st.Code(), st.Message(), tt.wantCode, tt.wantText)
			}
		})
	}
	if rpc.ToStatus(nil) != nil || rpc.FromStatus(nil) != nil {
		t.Error("nil is not nil on the other side")
	}
}

// A2A v1.0 §5.4 and §10.6.
func TestAnA2AErrorHasItsReasonAndFieldInTheDetails(t *testing.T) {
	e := rpc.WithRetryAfter(rpc.WithInfo(
		&mesh.Error{Code: mesh.Precondition, Reason: "VERSION_NOT_SUPPORTED", Field: "a2a-version", Detail: "speak 1.0"},
		map[string]string{"supported": "1.0"}), 3*time.Second)
	var info *errdetails.ErrorInfo
	var bad *errdetails.BadRequest
	var retry *errdetails.RetryInfo
	for _, d := range status.Convert(rpc.ToStatus(e)).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.BadRequest:
			bad = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	if info.GetReason() != "VERSION_NOT_SUPPORTED" || info.GetDomain() != "a2a-protocol.org" || info.GetMetadata()["supported"] != "1.0" {
		t.Errorf("ErrorInfo = %v", info)
	}
	if v := bad.GetFieldViolations(); len(v) != 1 || v[0].GetField() != "a2a-version" || v[0].GetDescription() != "speak 1.0" {
		t.Errorf("BadRequest = %v", bad)
	}
	if got := retry.GetRetryDelay().AsDuration(); got != 3*time.Second {
		t.Errorf("RetryInfo = %v, want 3s", got)
	}
	back := rpc.FromStatus(rpc.ToStatus(e))
	if after, ok := rpc.RetryAfter(back); !ok || after != 3*time.Second {
		t.Errorf("RetryAfter = %v, %v; want 3s", after, ok)
	}
	if again := status.Convert(rpc.ToStatus(back)); len(again.Details()) > 0 {
		for _, d := range again.Details() {
			if i, ok := d.(*errdetails.ErrorInfo); ok && len(i.GetMetadata()) > 0 {
				t.Errorf("the next hop got this hop's metadata: %v", i)
			}
		}
	}
}

// Whoever met a limit of which there is more later is told when, also over HTTP.
func TestALimitSaysWhenToTryAgain(t *testing.T) {
	e := &mesh.Error{Code: mesh.Exhausted, Reason: "LIMIT:user.tokens", Limit: &mesh.LimitTripped{Limit: "user.tokens", Used: 12, Most: 10}}
	if after, ok := rpc.RetryAfter(e); ok {
		t.Errorf("where time makes no room it says %v", after)
	}
	e.Limit.Free = time.Now().Add(time.Hour)
	back := rpc.FromStatus(rpc.ToStatus(e))
	if after, ok := rpc.RetryAfter(back); !ok || after <= 0 || after > time.Hour {
		t.Errorf("RetryAfter = %v, %v; want up to an hour", after, ok)
	}
	e.Limit.Free = time.Now().Add(-time.Hour)
	if after, ok := rpc.RetryAfter(e); !ok || after != 0 {
		t.Errorf("when there is room already, RetryAfter = %v, %v", after, ok)
	}
}

func TestAReasonOfAnotherDomainIsNotOurs(t *testing.T) {
	st, err := status.New(codes.NotFound, "gone").WithDetails(&errdetails.ErrorInfo{Reason: "TASK_NOT_FOUND", Domain: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	var e *mesh.Error
	if !errors.As(rpc.FromStatus(st.Err()), &e) || e.Reason != "" {
		t.Errorf("Reason = %q, want none", e.Reason)
	}
}
