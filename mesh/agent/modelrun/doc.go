// Package modelrun lets a model answer a message to an agent: it shows it the
// conversation, runs its loop with the agent's tools, and records what it says.
//
// # What it guarantees
//
// Every reply is in the thread before its calls, and what they came to before the next
// one. It is on disk before a skill is called, and before the end of the
// run is. A run that waits for the user, met a limit or was cut goes on from the
// log, in whichever process: what is done is not done again. At a limit the user reads
// what is done and what is open.
//
// # What may run concurrently
//
// [Run] may be called concurrently; an invocation has one run at a time.
package modelrun
