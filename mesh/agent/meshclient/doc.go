// Package meshclient is what an agent sees of the mesh: its clients of the mesh.v1
// services, under the grant of its execution, and the registration of its server.
//
// # What it guarantees
//
// What is recorded is in the log once, however often it had to be sent. The thread
// is read from its end and kept, so that a turn costs what its model can be shown of
// the thread and not what the thread has: what was read is its newest part without a
// gap, and has all of the execution. What it means package thread says.
//
// # What may run concurrently
//
// A [Client] may be used by all goroutines of a run. A [Registrar] is its owner's.
package meshclient
