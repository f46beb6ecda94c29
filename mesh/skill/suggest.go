package skill

import (
	"fmt"
	"strings"
)

// hint proposes an existing skill that the agent may call, or returns "".
func (x *Executor) hint(name string) string {
	if x.config.Names == nil {
		return ""
	}
	var names []string
	for _, n := range x.config.Names() {
		if x.config.Allowed == nil || x.config.Allowed(n) {
			names = append(names, n)
		}
	}
	if best := Closest(name, names); best != "" {
		return fmt.Sprintf("Did you mean '%s'? ", best)
	}
	return ""
}

// Closest returns the one of names that name is most likely meant to be: the
// most similar one of the same domain, else the most similar one of all, or ""
// if none is similar.
func Closest(name string, names []string) string {
	const least = 0.6
	if len(name) > 2*maxName+1 { // no name; comparing it would take long
		return ""
	}
	domain, _, _ := strings.Cut(name, ".")
	best, score := "", 0.0
	bestHere, scoreHere := "", -1.0
	for _, n := range names {
		s := similarity(name, n)
		if d, _, _ := strings.Cut(n, "."); d == domain && s > scoreHere {
			bestHere, scoreHere = n, s
		}
		if s > score {
			best, score = n, s
		}
	}
	switch {
	case bestHere != "":
		return bestHere
	case score > least:
		return best
	}
	return ""
}

// similarity is Jaro's: 1 for equal texts, 0 for texts with nothing in common.
func similarity(a, b string) float64 {
	if a == b {
		return 1
	}
	inA, inB := matches(a, b), matches(b, a)
	n := len(inA)
	if n == 0 || len(inB) != n {
		return 0
	}
	moved := 0
	for i := range n {
		if inA[i] != inB[i] {
			moved++
		}
	}
	m := float64(n)
	return (m/float64(len(a)) + m/float64(len(b)) + (m-float64(moved)/2)/m) / 3
}

// matches returns the bytes of a, in order, that have a partner of their own
// in b within half the length of the longer text.
func matches(a, b string) []byte {
	reach := max(max(len(a), len(b))/2-1, 0)
	used := make([]bool, len(b))
	var out []byte
	for i := range len(a) {
		for j := max(0, i-reach); j < min(len(b), i+reach+1); j++ {
			if !used[j] && a[i] == b[j] {
				used[j] = true
				out = append(out, a[i])
				break
			}
		}
	}
	return out
}
