// Package trail says what happened in conversations, for those who audit them: it makes an
// entry of an event of a thread's log, or of a record of package audit, with who acted for
// whom, and takes secrets out of what was said.
package trail
