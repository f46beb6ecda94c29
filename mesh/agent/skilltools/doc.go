// Package skilltools is how the skills that an execution was granted are offered to a
// model and called by it: as tools, in one of three faces, or by name without a model.
//
// # What it guarantees
//
// A model sees and runs the skills that are granted and no other. Every call, by
// whichever [Face] a model makes it, is recorded before it has an effect and when it
// ended. A call that needs the user's word waits for it, in whichever process the
// execution goes on, and an answer counts for the call and the arguments that the user
// was shown.
//
// # What may run concurrently
//
// [Tools] belong to one run, whose calls they take at the same time.
package skilltools
