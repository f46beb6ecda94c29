// Package transfer brings threads, and whole tenants, from one mesh to another.
//
// A thread goes as its events ([Incoming], [Threads]), and a tenant as its threads and what
// [Store]s keep of it beside them ([Tenants]): whatever keeps something of a tenant is one, and
// says itself what it leaves behind, and why.
//
// # What it guarantees
//
// A thread is there with all its events, or not at all, and as of one moment; so is each thing
// that a store keeps. Nothing that comes is told to anybody as of what happens, and nothing of it
// goes on by itself: what was not over is ended in the commit that brings the thread. A tenant
// that is imported has nothing before. An import that was cut off, by whatever, is continued by
// the same export alone, which passes over what is there; one that is complete does nothing when
// it comes again, also if something of it was deleted since.
//
// An export has nothing of another tenant, and no key or secret of the mesh.
//
// # What may run concurrently
//
// Everything; a tenant is imported once at a time at a node. In memory are one thread that is
// imported, up to [MaxBytes], and of an export a page of events and some bytes for each thread.
package transfer
