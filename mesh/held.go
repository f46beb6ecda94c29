package mesh

import "time"

// Held is how many things of a kind somebody has, or had: What is as "threads" or "mail",
// or the kind of values of a skill.
type Held struct {
	What  string
	Count int
}

// Kept is a thing that is kept of a tenant beside its threads, as it goes to another mesh: a
// file, or a value.
type Kept struct {
	// Kind is what it is, where who keeps it has several kinds.
	Kind string
	// Name is its name, which no other one of the kind has.
	Name string
	// User is who made it, where that is kept.
	User string
	// Size is how many bytes it has.
	Size int64
	// Modified is when it was last changed, of files.
	Modified time.Time
}

// Left is what is kept of a tenant and does not go to another mesh, and why not, for people.
type Left struct {
	Held
	Why string
}
