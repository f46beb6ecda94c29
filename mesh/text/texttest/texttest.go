// Package texttest runs tests with random words in place of the sentences of the
// mesh: what they then show does not depend on any wording.
package texttest

import (
	"os"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh/text"

	"github.com/google/go-cmp/cmp"
)

// Mode is the environment variable that asks for random words, by the value
// "random".
const Mode = "MESH_TEST_TEXTS"

// FromEnv begins the mode if the environment asks for it. It is called by the
// TestMain of packages whose tests run in both modes.
func FromEnv() {
	if os.Getenv(Mode) == "random" {
		text.Scramble(uint64(time.Now().UnixNano()))
	}
}

// Random reports whether sentences are random words, for tests that check data in
// both modes and wording in one.
// It asks the environment again, by which the go command knows that results of the
// two modes are not the same: it does not see what is read before the tests begin.
func Random() bool { return os.Getenv(Mode) == "random" && text.Scrambled() }

// Fixed skips a test that is about wording while words are random.
func Fixed(t testing.TB) {
	t.Helper()
	if Random() {
		t.Skip("about wording")
	}
}

// Is reports whether a text is the wanted one, Has whether it has a part, and Diff
// how it differs. Of random words only the lists are compared, which are data.
func Is(got, want string) bool { return got == want || Random() && got != "" && lists(got, want) }

// Has is like Is for a part of a text.
func Has(got, part string) bool {
	return strings.Contains(got, part) || Random() && got != "" && lists(got, part)
}

// Diff is like Is, for reading.
func Diff(want, got string) string {
	if Is(got, want) {
		return ""
	}
	return cmp.Diff(want, got)
}

// lists reports whether the text has all items of the lists of the other one.
func lists(got, want string) bool {
	for line := range strings.Lines(want) {
		item, _, _ := strings.Cut(strings.TrimSpace(line), " (not ") // what is not begun has words of its own
		if strings.HasPrefix(item, "- ") && !strings.HasPrefix(item, "- and ") && !strings.Contains(got, item) {
			return false
		}
	}
	return true
}
