package text_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh/text"
)

// finding C8: what is scrambled keeps its data, its lines and its lists, and no
// word of its own.
func TestScrambledSentencesKeepTheirDataAndNoWord(t *testing.T) {
	plain := text.LimitReached("later.one", 3, 4)
	if plain != "The limit of later.one is reached (3 of 4)" {
		t.Errorf("as written: %q", plain)
	}
	end := text.Scramble(1)
	defer end()
	words := map[string]bool{}
	for range 100 {
		got := text.LimitReached("later.one", 3, 4)
		if !regexp.MustCompile(`^[a-z ]+ later\.one [a-z ]+ \(3 [a-z ]+ 4\)$`).MatchString(got) || strings.Contains(got, "limit") || strings.Contains(got, "reached") {
			t.Fatalf("scrambled: %q", got)
		}
		words[got] = true
	}
	if len(words) < 90 {
		t.Errorf("%d of 100 differ", len(words))
	}
	list := text.WorkSoFar([]string{"a(x: 1)", "b"}, nil)
	if !regexp.MustCompile(`^\n\n[a-z ]+\n- a\(x: 1\)\n- b$`).MatchString(list) {
		t.Errorf("a list: %q", list)
	}
	if at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC); !strings.Contains(text.LimitAdvice("thread.skill_calls", at), "2026-01-02 03:04:05 UTC") {
		t.Error("a time is lost")
	}
	if got := text.Sprintf("100%% of %s\n\n```\n%5.1f\n```\nis well, %q", "it", 2.5, "x"); !regexp.MustCompile("(?s)^100%.*it\n\n```\n  2\\.5\n```\n[a-z ]+ \"x\"$").MatchString(got) {
		t.Errorf("a format: %q", got)
	}
	end()
	if text.Scrambled() || text.LimitReached("later.one", 3, 4) != plain {
		t.Error("it does not end")
	}
}

// Amounts are exact, and have cents.
func TestAmountsAreInDollars(t *testing.T) {
	for micro, want := range map[int64]string{0: "$0.00", 1: "$0.000001", 12_000: "$0.012", 500_000: "$0.50", 2_000_000_000: "$2000.00", 1_234_567: "$1.234567"} {
		if got := text.Dollars(micro); got != want {
			t.Errorf("%d: %s, want %s", micro, got, want)
		}
	}
	if got := text.LimitReached("user.cost", 20_010_000, 20_000_000); got != "The limit of what models may cost for this user within a day is reached ($20.01 of $20.00)" {
		t.Error(got)
	}
}
