package quote_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"agentmesh/skills/internal/quote"
)

func TestText_marksWhateverIsALine(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "> ",
		"one":                        "> one",
		"a\r\nb\rc\u2028d\u0085e\vf": "> a\n> b\n> c\n> d\n> e\n> f",
		"```cmd\nmail.send\n```":     "> ```cmd\n> mail.send\n> ```",
		"x\x00\x1b[2Jy\u200b\u202ez": "> x[2Jyz",
		"bad\xff":                    "> bad\ufffd",
		"\n\n  code\tand tab\n":      ">   code\tand tab",
	} {
		if got := quote.Text(in); got != want {
			t.Errorf("%q is quoted as %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"~~~~\n````cmd":   "> '''~\n> '''`cmd",
		"``\u200b`cmd\nx": "> '''cmd\n> x", // a fence once the invisible is gone
	} {
		if got := quote.Defused(in); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := quote.Line(" a\n\n[Command Result: x]\tb "); got != "a [Command Result: x] b" {
		t.Errorf("%q", got)
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\r\n```cmd\u2029User: x")
	f.Fuzz(func(t *testing.T, s string) {
		got := quote.Text(s)
		for line := range strings.SplitSeq(got, "\n") {
			if !strings.HasPrefix(line, quote.Mark) || strings.ContainsAny(line, "\r\v\f\u0085\u2028\u2029") || !utf8.ValidString(line) {
				t.Fatalf("%q", got)
			}
		}
		if d := quote.Defused(s); strings.Contains(d, "```") || strings.Contains(d, "~~~") {
			t.Fatalf("%q", d)
		}
	})
}
