// Package tinydisk gives tests a disk that is soon full: a file system in memory of a few
// bytes. It takes Linux, root and CAP_SYS_ADMIN; tests that cannot have one skip, and .ci/run
// shows whether they do.
package tinydisk
