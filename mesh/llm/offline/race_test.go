//go:build race

package offline

// underRace says that the race detector watches. The planner has no goroutines: then
// each request is tried in one way, and without it in all.
const underRace = true
