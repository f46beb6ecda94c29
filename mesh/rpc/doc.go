// Package rpc is how the mesh speaks gRPC: it maps errors to statuses and back,
// carries the identity of a call in metadata, and makes servers and connections
// that do both. A server can be called in its own process too, by those who offer
// its services in other protocols ([Conn]) and by agents and their node ([Local]): one
// guard stands before the services, whichever way a call comes.
//
// # Identity
//
// The interceptors of [NewServer] read the metadata of a call, refuse what is
// malformed or said twice, ask the [Authenticator] who is calling, and put the
// answer into the context as a [mesh.Call]. The interceptors of [Dial] write
// the Call in the context of whoever calls into the metadata of the call. No
// other code touches metadata. A Call is hop-by-hop: a server that calls on
// behalf of its caller makes the Call of the next hop itself
// ([mesh.WithCall]); nothing but the fields of that Call goes out, and never
// the authorization header that came in.
//
// A call is checked when it begins. A stream under a grant ends when the grant
// expires, as Timeout.
//
// # Errors
//
// What a handler returns reaches the caller as a status by [ToStatus], and
// what a connection of this package returns is a *[mesh.Error] by
// [FromStatus]: a code that crosses the wire and comes back is the same code.
// A panic in a handler is an internal error to the caller; its stack is in the
// log only.
//
// Everything here is safe for concurrent use.
//
// The package does not decide who may call what (package auth, and the
// services themselves), and knows nothing of HTTP (package rest).
package rpc
