package memory_test

import (
	"testing"

	"agentmesh/skills/memory"
)

// part of T3: who was cut short between what is given and what is taken away comes twice,
// and that changes nothing.
func TestMerge_twiceIsOnce(t *testing.T) {
	const more = `{"seq":7,"changes":[{"seq":7,"id":"m7","at":"2026-01-02T03:04:05Z"}]}`
	for name, had := range map[string]string{"none": "", "less": `{"seq":3}`, "more": `{"seq":9,"changes":[{"seq":9,"id":"m9","at":"2026-01-02T03:04:05Z"}]}`} {
		for _, key := range []string{"journal", "settings", "m/1"} {
			merge := func(had []byte) []byte {
				t.Helper()
				next, err := memory.Merge("ann", key, had, []byte(more))
				if err != nil {
					t.Fatal(err)
				}
				return next
			}
			var before []byte
			if had != "" {
				before = []byte(had)
			}
			once := merge(before)
			if twice := merge(once); string(twice) != string(once) {
				t.Errorf("%s, had %s: once %s, twice %s", key, name, once, twice)
			}
		}
	}
}
