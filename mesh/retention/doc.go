// Package retention deletes threads, at the word of who may and by the operator's rules, and
// erases users.
//
// A [Deleter] is the one way in which a thread goes, and takes with it what others keep
// about it: every store that keeps something of a thread beside its log is one of its
// [Dependent]s. A [Keeper] finds what is to go by the rules of each tenant, with a Deleter.
//
// An [Eraser] removes all that there is of a user: the threads with the Deleter, and the rest
// by the [Holder]s, of which each keeps something of users.
//
// # What it guarantees
//
// A thread is deleted whole, or not: its events go in one commit, on which what is kept
// elsewhere follows. A process that is killed in between leaves something about a thread
// that is not there; the next one finds that when it begins ([Deleter.Reconcile]), and
// whatever it finds is removed as often as need be. A thread on which an agent is at work,
// or in which a message waits for one, stays. Of several at once each deletion is in the
// record before it happens, with the rule, and after it, with the hash of the thread's last
// event.
//
// A user who is being erased is marked, durably, from before anything goes until nothing is
// left, and begins nothing meanwhile; an erasure that was cut off is finished by the next one.
//
// # What may run concurrently
//
// Everything, at any number of nodes. Of the Keepers on one backend the one works that has
// the lease; that is to spare work alone, since whoever deletes a thread has seen its last
// event, or does not delete it.
//
// It takes no bytes out of files: stores do, behind a deletion.
package retention
