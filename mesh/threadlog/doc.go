// Package threadlog keeps threads: append-only logs of events, one per
// conversation, which are the mesh's only record of what happened.
//
// # Facts, decisions, claims
//
// A fact is appended whatever else happened: the user did say it, the agent
// did answer. A decision names the last decision of its scope that its writer
// knew, and loses with [mesh.Conflict] against a later one: the writer folds
// the new events and decides again. Scopes are independent, so eight agents at
// work on one thread never make each other lose.
//
// Whoever drives a thread claims it with [mesh.ThreadClaimed] and gives its
// epoch with every append, facts included. Once a later claim stands, all
// appends under the earlier one lose: a driver that was only slow cannot write
// beside its successor. A driver is fenced by that alone and need not name the
// decisions that it knew.
//
// # Following
//
// [Log.Follow] replays from a cursor and then stays. It delivers each event
// once, in order, with no gap between replay and live, and only after the
// commit. It buffers nothing: a wake-up only says "look again", and the log is
// the queue. Followers that keep up share the events of the writer; one that
// has fallen behind reads the store, and costs nobody but itself.
//
// # What may run concurrently
//
// Everything of [Log]. Events that went in or came out are shared and are
// never changed. A [Cursor] belongs to one goroutine.
//
// It is not the fold (package thread), knows nothing of permissions, and sees
// only what was appended through the same Log value live.
package threadlog
