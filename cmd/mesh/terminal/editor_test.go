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
