// Package skill knows what agents can do: it reads skills from markdown files,
// keeps them in catalogs, and runs them.
//
// A skill is one action in one file, <domain>/<action>.md: YAML front matter
// that programs read and a man page that models read. A domain folder may have
// a SKILL.md, which describes the domain and is never a skill itself. A folder
// whose SKILL.md has a name is a skill of the Agent Skills format.
//
// # What is guaranteed
//
// [Parse] accepts only what [Validate] accepts, and what [Render] writes is
// read back as the same skill. One broken file never hides another: [Load]
// reports it as a [Problem], with line and remedy, and keeps the rest.
//
// [Executor] is the one way to run a skill, whoever calls it and in whatever
// form. A call passes the stages that [Executor.Execute] lists, in that order
// and each once; none of them sees a call that an earlier one refused. A
// handler that fails, panics or hangs becomes a [Result] that a model can read,
// never an error of the caller. A call whose intent was recorded is settled in
// the record, also when its caller has left.
//
// # What may run concurrently
//
// Everything. A [Catalog] is read without locks. A [*Skill] that is in a
// catalog is shared and never changed. Handlers are called concurrently, and so
// is all that a [Config] has.
//
// # What it is not
//
// It has no skills of its own; package skills has them. It does not decide who
// may call what, nor how often, nor whether the user agrees: a [Config] says
// who does.
package skill
