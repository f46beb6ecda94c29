// Package texttest runs tests with random words in place of the sentences of the
// mesh: what they then show does not depend on any wording.
package texttest

import (
	"os"
	"testing"
	"time"

	"agentmesh/mesh/text"
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
func Random() bool { return text.Scrambled() }

// Fixed skips a test that is about wording while words are random.
func Fixed(t testing.TB) {
	t.Helper()
	if Random() {
		t.Skip("about wording")
	}
}
