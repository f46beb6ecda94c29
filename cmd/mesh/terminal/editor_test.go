package terminal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// typed is the text and the cursor, as ▏, after the keys, and what was entered
// meanwhile.
func typed(t *testing.T, e *editor, input string) (text string, entered []string) {
	t.Helper()
	in := newKeys(strings.NewReader(input), 1<<20)
	for {
		k, err := in.next()
		if err != nil {
			return e.text[:e.at] + "▏" + e.text[e.at:], entered
		}
		if k.command == enter {
			text := e.take()
			_ = e.history.Add(text)
			e.entry = e.history.len()
			entered = append(entered, text)
			continue
		}
		e.apply(k)
	}
}

// Keys do what they do in a shell.
func TestKeysEditTheText(t *testing.T) {
	for name, tt := range map[string]struct{ input, want string }{
		"text":                          {"héllo", "héllo▏"},
		"left and right by characters":  {"aé🇳🇴b\x1b[D\x1b[D", "aé▏🇳🇴b"},
		"backspace takes a character":   {"a👩‍👩‍👧\x7f", "a▏"},
		"delete":                        {"abc\x01\x1b[3~", "▏bc"},
		"home and end":                  {"abc\x1b[Hx\x1b[Fy", "xabcy▏"},
		"a word left and right":         {"one two three\x1b[1;5D\x1b[1;5D\x1bf", "one two▏ three"},
		"a word is killed and put back": {"one two\x17\x01\x19 ", "two ▏one "},
		"the rest is killed":            {"one two\x01\x0b\x19\x19", "one twoone two▏"},
		"the beginning is killed":       {"one two\x02\x02\x15", "▏wo"},
		"another line":                  {"one\x1b\rtwo", "one\ntwo▏"},
		"up and down in lines":          {"one\x1b\rtwo\x1b[A!\x1b[B?", "one!\ntwo?▏"},
		"unknown keys do nothing":       {"a\x1b[15~\x1b[1;7P\x1bOPb", "ab▏"},
		"an escape before a key":        {"a\x1bxb", "axb▏"},
		"controls do nothing":           {"a\x00\x1c\x07b", "ab▏"},
		"no control is typed":           {"a\u009b2Jb", "a2Jb▏"},
		"what is not UTF-8":             {"a\xff\xfeb", "a\ufffdb▏"},
		"a paste":                       {"[\x1b[200~a\r\nb\rc\x03\x1b[2J\td\x1b[201~]", "[a\nb\nc[2J\td]▏"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := typed(t, new(editor), tt.input); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A key is understood however its bytes arrive.
func TestKeysArriveInPieces(t *testing.T) {
	in := newKeys(iotest.OneByteReader(strings.NewReader("é\x1b[1;5D\x1b[200~a\rb\x1b[201~")), 100)
	for _, want := range []key{{insert, "é"}, {command: wordLeft}, {insert, "a\nb"}} {
		if got, err := in.next(); err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
}

// finding U1: a paste of any length that the mesh takes is one text, and a
// longer one none.
func TestAPasteIsTakenWholeOrNotAtAll(t *testing.T) {
	for n, want := range map[int]command{1000: insert, 1 << 20: insert, 1<<20 + 1: tooLong, 5 << 20: tooLong} {
		in := newKeys(strings.NewReader("\x1b[200~"+strings.Repeat("x", n)+"\x1b[201~y"), 1<<20)
		k, err := in.next()
		if err != nil || k.command != want || want == insert && len(k.text) != n {
			t.Errorf("%d bytes: %v of %d bytes, %v", n, k.command, len(k.text), err)
		}
		if k, err = in.next(); err != nil || k != (key{insert, "y"}) {
			t.Errorf("after %d bytes: %v, %v", n, k, err)
		}
	}
}

// Up goes back in what was entered, Down to what was being typed, and Ctrl-R to
// what holds the text.
func TestTheHistoryIsGoneThrough(t *testing.T) {
	e := &editor{history: new(History)}
	if _, entered := typed(t, e, "first one\rsecond\rlast one\r"); len(entered) != 3 {
		t.Fatalf("entered %q", entered)
	}
	for _, step := range []struct{ input, want string }{
		{"draft\x1b[A", "last one▏"}, {"\x1b[A\x1b[A\x1b[A", "first one▏"}, {"\x0e", "second▏"},
		{"\x1b[B\x1b[B", "draft▏"}, {"\x15one\x12", "last one▏"}, {"\x12", "first one▏"}, {"\x12", "first one▏"},
		{"\x0e\x0e\x0e\x15\x12", "last one▏"}, {"\x12", "second▏"}, {"\x12", "first one▏"}, // from nothing, all are found
	} {
		if got, _ := typed(t, e, step.input); got != step.want {
			t.Errorf("after %q: %q, want %q", step.input, got, step.want)
		}
	}
}

// The history outlives the program, in a file for its owner alone, and is bounded.
func TestTheHistoryIsKeptInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agentmesh", "history")
	h, err := OpenHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two\nlines", "two\nlines", "", strings.Repeat("x", maxEntryBytes+1)} {
		if err := h.Add(text); err != nil {
			t.Fatal(err)
		}
	}
	if h, err = OpenHistory(file); err != nil || h.len() != 2 || h.at(1) != "two\nlines" {
		t.Errorf("%v, %v", h, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	damaged := "not JSON\n\"\\u001b[2Jevil\"\n" + strings.Repeat("\"a\"\n\"b\"\n", maxEntries)
	if err := os.WriteFile(file, []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err = OpenHistory(file); err != nil || h.len() != maxEntries {
		t.Errorf("%d entries, %v", h.len(), err)
	}
	data, err := os.ReadFile(file)
	if err != nil || strings.Count(string(data), "\n") != maxEntries {
		t.Errorf("the file has %d lines, %v", strings.Count(string(data), "\n"), err)
	}
}

// A line that is too long or no text takes no other entry away, and stays in the
// file until that is cut.
func TestALineThatCannotBeReadTakesNoOtherAway(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	long := `"` + strings.Repeat("x", maxEntryBytes+1) + "\"\n"
	kept := "\"one\"\n\"" + strings.Repeat("x", 9*maxEntryBytes) + "\"\n" + long + "{}\nnull\n\"two\"\n\"three\""
	if err := os.WriteFile(file, []byte(kept), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHistory(file)
	if err != nil || strings.Join(h.entries, " ") != "one two three" {
		t.Errorf("%d entries, the last %.20q, %v", h.len(), h.at(h.len()-1), err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != kept {
		t.Errorf("the file has %d bytes, want %d, %v", len(data), len(kept), err)
	}
}

// A text is held to its limit, by whichever key it would grow.
func TestNoKeyGoesBeyondTheLimit(t *testing.T) {
	s, _ := newScreen(t, 40, 10)
	term := &Terminal{opts: Options{Limit: 10}, screen: *s}
	for _, k := range []key{{insert, "1234567"}, {command: killLeft}, {command: yank}} {
		term.press(k)
	}
	for _, k := range []key{{command: yank}, {insert, "8"}, {command: newline}, {insert, "ü"}, {insert, "0"}, {command: newline}} {
		term.press(k)
	}
	if got, want := term.screen.editor.text, "1234567"+"8\n"+"0"; got != want || term.screen.notice == "" {
		t.Errorf("%q, %q; want %q", got, term.screen.notice, want)
	}
}

// What several words have in common ends between two characters.
func TestACompletionEndsBetweenCharacters(t *testing.T) {
	for want, words := range map[string][]string{
		"caf":  {"café", "cafè"},
		"ca":   {"cafe", "cafe\u0301", "cab"},
		"flag": {"flag🇳🇴", "flag🇳🇱", "flag"},
	} {
		s, _ := newScreen(t, 40, 10)
		term := &Terminal{opts: Options{Complete: func(string) (int, []string) { return 0, words }}, screen: *s}
		term.press(key{command: complete})
		if got := term.screen.editor.text; got != want {
			t.Errorf("%q is completed to %q, want %q", words, got, want)
		}
	}
}
