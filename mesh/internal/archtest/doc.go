// Package archtest holds the architecture as a test: which package may import
// which, where a third-party library lives, what the pure core keeps out, and
// that every package says what it is.
//
// The tables in layers_test.go are the diagram of docs/architecture.md in a
// form that fails: a package that is not in them, or that reaches for one it
// may not, breaks the build, and a change of the architecture is a change of
// these lines. The tests read source text alone, so they see files of every
// platform and build tag, and take milliseconds.
//
// It is not a style check; that is the linter's (.golangci.yml).
package archtest
