// Package tasks knows the tasks of all tenants: which there are, in which
// state, and since when. It is what ListTasks reads (A2A v1.0 §3.1.4).
//
// # What it guarantees
//
// An [Index] is a projection of the thread log and nothing more. Its rows are kept
// ([Pages]), never ahead of the log, and a start reads what came after them; those that are
// missing, damaged or of another log are made of the log again, which is told. A
// task has the state and the time that its own snapshot (package thread) has at
// [Task.Seq], so that a task which is read at that Seq is as it was listed.
// [Index.List] includes every event that was acknowledged before it was called,
// whether [Index.Run] has come that far or not. Tasks of threads that were
// deleted are not listed.
//
// A page of a list costs the same however many tasks there are, and its total is counted as
// exactly. Memory has the threads in which something happens, and the pages of rows that were
// used lately; without Pages it has all.
//
// # What may run concurrently
//
// Everything. [Index.Run] costs nothing while nothing happens, and reads what
// happened in bulk, a few times per second.
//
// It does not know who may see what but for the tenant, and holds neither
// messages nor artifacts.
package tasks
