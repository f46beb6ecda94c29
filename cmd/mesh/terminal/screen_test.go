package terminal

import (
	"fmt"
	"io"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/clipperhouse/displaywidth"
)

// A glass is a terminal as far as a screen uses one: what is written to it is
// in its rows, of which the last ones are in the window.
type glass struct {
	t             *testing.T
	width, height int
	rows          [][]string // cells
	row, column   int
}

func newGlass(t *testing.T, width, height int) *glass {
	return &glass{t: t, width: width, height: height, rows: [][]string{nil}}
}

func (g *glass) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		if strings.HasPrefix(text, "\x1b[") {
			n := strings.IndexFunc(text[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e }) + 2
			g.sequence(text[2:n], text[n])
			text = text[n+1:]
			continue
		}
		c := displaywidth.StringGraphemes(text)
		c.Next()
		g.put(c.Value(), c.Width())
		text = text[len(c.Value()):]
	}
	return len(p), nil
}

func (g *glass) put(cell string, width int) {
	switch {
	case cell == "\r\n":
		g.put("\r", 0)
		g.put("\n", 0)
	case cell == "\r":
		g.column = 0
	case cell == "\n":
		if g.row++; g.row == len(g.rows) {
			g.rows = append(g.rows, nil)
		}
	case cell < " ":
		g.t.Errorf("the control character %q is written", cell)
	default:
		if g.column+width > g.width {
			g.put("\r\n", 0)
		}
		for len(g.rows[g.row]) < g.column+width {
			g.rows[g.row] = append(g.rows[g.row], " ")
		}
		g.rows[g.row][g.column] = cell
		for i := 1; i < width; i++ {
			g.rows[g.row][g.column+i] = ""
		}
		g.column += width
	}
}

func (g *glass) sequence(args string, final byte) {
	n, _ := strconv.Atoi(args)
	switch {
	case final == 'm':
	case final == 'A':
		g.row -= n
		if g.row < max(0, len(g.rows)-g.height) {
			g.t.Errorf("the cursor leaves the window")
		}
	case final == 'C':
		g.column += n
	case final == 'J' && args == "":
		g.rows = g.rows[:g.row+1]
		g.rows[g.row] = g.rows[g.row][:min(g.column, len(g.rows[g.row]))]
	default:
		g.t.Errorf("the sequence %q%c is not one of a screen's", args, final)
	}
}

// text is all rows, with the cursor as ▏.
func (g *glass) text() string {
	var b strings.Builder
	for i, r := range g.rows {
		line := strings.Join(r, "")
		if i == g.row {
			before := strings.Join(r[:min(g.column, len(r))], "")
			line = before + strings.Repeat(" ", max(0, g.column-len(r))) + "▏" + line[len(before):]
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// newScreen is a screen on a glass.
func newScreen(t *testing.T, width, height int) (*screen, *glass) {
	g := newGlass(t, width, height)
	s := &screen{out: g, size: func() (int, int) { return g.width, g.height }, md: markdown{color: true}, prompt: "you › "}
	return s, g
}

func shows(t *testing.T, g *glass, want string) {
	t.Helper()
	if got := g.text(); got != strings.TrimPrefix(want, "\n") {
		t.Errorf("the terminal shows\n%s\nwant\n%s", got, want)
	}
}

// What is written comes above what is typed, once; an open line is seen as it
// is, and rendered when it is finished.
func TestAnswersComeAboveWhatIsTyped(t *testing.T) {
	s, g := newScreen(t, 24, 10)
	s.editor.apply(key{insert, "meanwhile"})
	s.write("main › " + Said("This is **ve"))
	shows(t, g, `
main › This is **ve
you › meanwhile▏
`)
	s.status = "⠋ main"
	s.write(Said("ry** good, and wraps.\n- `one`"))
	shows(t, g, `
main › This is very
good, and wraps.
- `+"`one`"+`
⠋ main
you › meanwhile▏
`)
	s.status = ""
	s.write("\n✓ done\n")
	shows(t, g, `
main › This is very
good, and wraps.
• one
✓ done
you › meanwhile▏
`)
	s.echo("meanwhile")
	s.editor.take()
	s.erase()
	shows(t, g, `
main › This is very
good, and wraps.
• one
✓ done
you › meanwhile
▏
`)
}

// The live area never leaves the window, however long a line or a text is, and
// nothing of it stays behind.
func TestTheLiveAreaFitsTheWindow(t *testing.T) {
	s, g := newScreen(t, 20, 8)
	s.status = "⠋ main"
	var all strings.Builder
	for i := range 200 {
		word := fmt.Sprintf("word%d ", i)
		all.WriteString(word)
		s.write(Said(word))
		s.editor.apply(key{insert, "typed "})
		s.draw(nil)
		if len(g.rows) > g.height {
			t.Fatalf("after %d words the live area has %d rows", i, len(g.rows))
		}
	}
	s.editor.take()
	s.write("\n")
	got := strings.Join(strings.Fields(strings.Split(g.text(), "⠋")[0]), " ")
	if want := strings.TrimSpace(all.String()); got != want {
		t.Errorf("the finished line is %q, want %q", got, want)
	}
}

// What is drawn for each piece of an answer and each beat does not grow with the
// line that is open, nor with the text that is typed.
func TestADrawingCostsWhatIsSeen(t *testing.T) {
	const long = 1 << 20
	s := &screen{out: io.Discard, size: func() (int, int) { return 80, 24 }}
	s.write("main › " + Said(strings.Repeat("a word ", long/7)))
	s.editor.apply(key{insert, strings.Repeat("typed ", long/6)})
	s.draw(nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 100
	for range times {
		s.write(Said(strings.Repeat("piece ", 16)))
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / times; each > long/4 {
		t.Errorf("a drawing takes %d bytes", each)
	}
	s.editor.apply(key{command: backspace})
	s.size = func() (int, int) { return 20, 24 }
	if rows, cursor := s.live(s.size()); cursor.column > 20 || rows[len(rows)-1].columns > 20 {
		t.Errorf("the text is not laid anew: %v of %v", cursor, rows)
	}
}

// A window that becomes narrower breaks the rows of the live area, and the next
// drawing takes all of them away; what was finished stays.
func TestAWindowThatBecomesNarrowerIsDrawnAnew(t *testing.T) {
	s, g := newScreen(t, 40, 10)
	s.write("kept\n" + Said("a line that is open and long enough"))
	s.editor.apply(key{insert, "text that is typed"})
	s.draw(nil)
	// The terminal breaks the rows itself.
	g.width = 20
	var broken [][]string
	for _, r := range g.rows {
		for len(r) > g.width {
			broken, r = append(broken, r[:g.width]), r[g.width:]
		}
		broken = append(broken, r)
	}
	g.rows = broken
	g.row, g.column = len(broken)-1, len(broken[len(broken)-1])
	s.draw(nil)
	shows(t, g, `
kept
a line that is open
and long enough
you › text that is t
yped▏
`)
}

// Nothing that is written can drive the terminal, whoever wrote it.
func TestNothingThatIsWrittenDrivesTheTerminal(t *testing.T) {
	s, g := newScreen(t, 60, 10)
	const evil = "\x1b[2J\x1b]0;title\x07\u009b2J\rgone\x08\x7f"
	s.write("main › " + Said(evil) + "\n" + evil + "\n")
	s.status, s.notice = evil, evil
	s.editor.apply(key{insert, clean(evil)})
	s.echo(evil)
	if got := g.text(); strings.Count(got, "[2J]0;title2J") < 5 {
		t.Errorf("the terminal shows %q", got)
	}
}

// Of a long text its first rows stay, and how much more there was.
func TestALongTextIsEchoedInBrief(t *testing.T) {
	s, g := newScreen(t, 60, 24)
	s.echo(strings.Repeat("a line\n", 100))
	if got := g.text(); strings.Count(got, "a line") != echoRows || !strings.Contains(got, "… and 89 lines more, 700 characters in all") {
		t.Errorf("the terminal shows %s", got)
	}
}

// Markdown is rendered line by line, and code is left as it is.
func TestMarkdownIsRenderedLineByLine(t *testing.T) {
	for text, want := range map[string]string{
		"# Title":                        "<1>Title<0>",
		"a **bold** and *it* `code`":     "a <1>bold<0> and <3>it<0> <36>code<0>",
		"snake_case_name 2 * 3 * 4":      "snake_case_name 2 * 3 * 4",
		"**open and *args":               "**open and *args",
		"[docs](https://a.example/b)":    "<4>docs<0> (https://a.example/b)",
		"[x](javascript alert) [y]":      "[x](javascript alert) [y]",
		"  - item":                       "  • item",
		"12. item":                       "12. item",
		"> said":                         "<2>│ said<0>",
		"---":                            "<2>" + strings.Repeat("─", 40) + "<0>",
		"***bold and italic***":          "<1;3>bold and italic<0>",
		`\*plain\*`:                      "*plain*",
		"| a | **b** |":                  "| a | **b** |",
		"```go\nx := *p // **\n```\n*i*": "<2>```go<0>\n<36>x := *p // **<0>\n<2>```<0>\n<3>i<0>",
		"**größe** — ✓":                  "<1>größe<0> — ✓",
	} {
		m := markdown{color: true}
		var rows []string
		for line := range strings.SplitSeq(text, "\n") {
			rows = append(rows, m.line(nil, line, 60)...)
		}
		got := strings.NewReplacer("\x1b[", "<").Replace(strings.Join(rows, "\n"))
		for _, style := range []string{"0", "1", "1;3", "2", "3", "4", "36"} {
			got = strings.ReplaceAll(got, "<"+style+"m", "<"+style+">")
		}
		if got != want {
			t.Errorf("%q is rendered as %q, want %q", text, got, want)
		}
		if plain := (&markdown{}).line(nil, text, 1000); !strings.Contains(text, "\n") && plain[0] != text {
			t.Errorf("%q without colour is %q", text, plain)
		}
	}
}

// Any line can be rendered, in any width, and what is put out has no control
// character but those of styles.
func FuzzMarkdownPutsOutStylesAlone(f *testing.F) {
	f.Add("a **b *c* d** `e` [f](g) _h_", 20)
	f.Add("***x*** \\* ``` > - 1. # |", 8)
	styles := regexp.MustCompile("\x1b\\[[0-9;]+m")
	f.Fuzz(func(t *testing.T, line string, width int) {
		m := markdown{color: true}
		out := strings.Join(m.line(nil, shown(strings.ReplaceAll(line, "\n", " ")), width%200), "")
		if rest := styles.ReplaceAllString(out, ""); rest != strings.Map(inert, rest) {
			t.Fatalf("%q is rendered as %q", line, out)
		}
	})
}
