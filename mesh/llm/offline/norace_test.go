//go:build !race

package offline

const underRace = false
