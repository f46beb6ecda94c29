// Package bench measures a mesh by its test, so that nothing can flatter it. The
// server is the built program in a process of its own, on a core that it shares
// with nobody who asks or answers, with its folder on a disk; what counts is the
// processor time of that process alone. In the same rounds, in turns, it measures
// what there is to compare with: a hop of generated types that keeps nothing, the
// servers of the official SDKs, an older revision of the mesh, and what one
// fdatasync takes in the same folder.
//
// It uses the public interfaces alone, and checks every answer that it times. make
// bench runs it and prints a table of figures, limits, goals and verdicts; make test
// runs the smallest sizes, which prove that it works and say nothing about speed.
package bench
