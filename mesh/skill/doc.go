// Package skill knows what agents can do: it reads skills from markdown files,
// keeps them in a catalog, and runs them.
//
// A skill is one action in one file, <domain>/<action>.md: YAML front matter
// that programs read and a man page that models read. A domain folder may have
// a SKILL.md, which describes the domain and is never a skill itself.
//
// # What is guaranteed
//
// [Parse] accepts only what [Validate] accepts, and what [Render] writes is
// read back as the same skill. One broken file never hides another: [Load]
// reports it as a [Problem], with line and remedy, and keeps the rest.
//
// [Executor] is the one way to run a skill. Scope, existence and arguments are
// checked in that order before a handler sees the call; a handler that fails,
// panics or hangs becomes a [Result] that a model can read, never an error of
// the caller.
//
// # What may run concurrently
//
// Everything. A [Catalog] is read without locks. A [*Skill] that is in a
// catalog is shared and never changed. Handlers are called concurrently.
//
// # What it is not
//
// It has no skills of its own; package skills has them. It does not decide
// who may call what: the caller of [Executor.Execute] passes that in.
package skill
