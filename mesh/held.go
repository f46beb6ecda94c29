package mesh

// Held is how many things of a kind somebody has, or had: What is as "threads" or "mail",
// or the kind of values of a skill.
type Held struct {
	What  string
	Count int
}
