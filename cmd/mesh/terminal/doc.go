// Package terminal is a line editor and an output at one terminal: a person
// types at the bottom while answers come in above.
//
// # What it guarantees
//
// There is no alternate screen. What was finished, a line that was written or
// a text that was entered, is written once and is the terminal's from then on,
// with its scrollback. Only the live area below is ever drawn anew: the line
// that is still being written, the status, and the text that is being typed.
// A paste is one piece of text, whatever is in it. Nothing that is written can
// drive the terminal: control characters are dropped, whoever wrote them.
// [Terminal.Close] leaves the terminal as [Open] found it.
//
// # What runs concurrently
//
// All methods of a [Terminal] may be called concurrently. It owns a reader of
// keys and a watcher of the window's size and of stops; Close ends both, but for a read of
// the terminal that is under way, which only a key ends.
//
// # What it is not
//
// It knows nothing of the mesh: what is completed and whom a prompt names is
// said by its user. It is not for files and pipes.
package terminal
