// Package api serves the mesh's own API, the mesh.v1 services beside A2A,
// as gRPC servers: one type per service, thin over the package that does the
// work.
//
// A server takes who is calling from the [mesh.Call] that the interceptors of
// package rpc put into the context, and everything it reads or writes is that
// caller's tenant's: what belongs to another tenant looks exactly like what
// does not exist. It returns *[mesh.Error] values, which the interceptors turn
// into statuses. A server stream sends its headers as soon as it is accepted,
// so that a gateway in front can answer before the first message.
//
// All servers are safe for concurrent use; none starts goroutines. Streams end
// with their caller or with the gRPC server.
//
// The package decides nothing that its domain packages could decide: rules of
// registrations are in package registry, those of control transfer in package
// handoff, and who may call what, package authz.
package api

import (
	"context"

	"agentmesh/mesh"

	"google.golang.org/grpc/metadata"
)

// callOf returns who is calling. Without it nobody may do anything.
func callOf(ctx context.Context, op string) (mesh.Call, error) {
	call, ok := mesh.CallFrom(ctx)
	if !ok {
		return mesh.Call{}, mesh.Errorf(mesh.Unknown, op, "")
	}
	if err := call.Principal.Tenant.Validate(); err != nil {
		return mesh.Call{}, mesh.Wrap(op, err)
	}
	return call, nil
}

// grantOf returns the grant of a call, for methods that are called under one alone.
func grantOf(ctx context.Context, op string) (*mesh.Grant, error) {
	call, err := callOf(ctx, op)
	if err == nil && call.Principal.Grant == nil { // no authorizer stands before the server
		err = mesh.Errorf(mesh.Unknown, op, "")
	}
	return call.Principal.Grant, err
}

// accept sends the headers of a stream that is about to be served.
func accept(stream interface{ SendHeader(metadata.MD) error }) error {
	if err := stream.SendHeader(nil); err != nil {
		return mesh.Errorf(mesh.Canceled, "api.accept", "The caller is gone: %w", err)
	}
	return nil
}
