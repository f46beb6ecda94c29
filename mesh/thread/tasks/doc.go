// Package tasks knows the tasks of all tenants: which there are, in which
// state, and since when. It is what ListTasks reads (A2A v1.0 §3.1.4).
//
// # What it guarantees
//
// An [Index] is a projection of the thread log and nothing more: it is rebuilt
// from the log when the node starts, and what it holds can be thrown away. A
// task has the state and the time that its own snapshot (package thread) has at
// [Task.Seq], so that a task which is read at that Seq is as it was listed.
// [Index.List] includes every event that was acknowledged before it was called,
// whether [Index.Run] has come that far or not. Tasks of threads that were
// deleted are not listed.
//
// A task costs some two hundred bytes, and a little more while it is not over.
//
// # What may run concurrently
//
// Everything. [Index.Run] costs nothing while nothing happens, and reads what
// happened in bulk, a few times per second.
//
// It does not know who may see what but for the tenant, and holds neither
// messages nor artifacts.
package tasks
