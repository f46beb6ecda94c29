package terminal

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// A command is what a key means to the editor.
type command int

const (
	insert command = iota // text, typed or pasted
	ignore
	enter
	newline
	complete
	backspace
	deleteRight
	left
	right
	up
	down
	home
	end
	wordLeft
	wordRight
	killLeft
	killRight
	killWordLeft
	killWordRight
	yank
	earlier
	later
	searchBack
	clearScreen
	interrupt
	endOfInput // Ctrl-D: at an empty text, the end
	suspend
	tooLong // a paste beyond the limit
)

// A key is one thing that a person did at the keyboard.
type key struct {
	command command
	text    string // of insert
}

// controls are the keys of one byte.
var controls = map[byte]command{
	0x01: home, 0x02: left, 0x03: interrupt, 0x04: endOfInput, 0x05: end, 0x06: right,
	0x08: backspace, 0x09: complete, 0x0a: newline, 0x0b: killRight, 0x0c: clearScreen, 0x0d: enter,
	0x0e: later, 0x10: earlier, 0x12: searchBack, 0x15: killLeft, 0x17: killWordLeft, 0x19: yank,
	0x1a: suspend, 0x7f: backspace,
}

// alts are the keys that come after an escape.
var alts = map[byte]command{
	'\r': newline, '\n': newline, 'b': wordLeft, 'f': wordRight, 'd': killWordRight, 0x7f: killWordLeft, 0x08: killWordLeft,
}

// sequences are the keys that come as control sequences, without their escape
// and bracket.
var sequences = map[string]command{
	"A": up, "B": down, "C": right, "D": left, "H": home, "F": end,
	"1~": home, "7~": home, "4~": end, "8~": end, "3~": deleteRight,
	"1;5C": wordRight, "1;5D": wordLeft, "1;3C": wordRight, "1;3D": wordLeft, "3;5~": killWordRight, "3;3~": killWordRight,
	"13;2u": newline, "13;3u": newline, "27;2;13~": newline, "27;3;13~": newline,
}

// pasteBegin and pasteEnd are around a paste.
const (
	pasteBegin = "200~"
	pasteEnd   = "\x1b[201~"
)

// keys reads keys from a terminal. A paste of more than limit bytes is read to
// its end and is tooLong.
type keys struct {
	in    *bufio.Reader
	limit int
}

func newKeys(r io.Reader, limit int) *keys { return &keys{bufio.NewReaderSize(r, 64<<10), limit} }

// next waits for a key. Text that is there already comes as one key.
func (k *keys) next() (key, error) {
	b, err := k.in.ReadByte()
	switch {
	case err != nil:
		return key{}, err
	case b == 0x1b:
		return k.escape()
	case b < 0x20 || b == 0x7f:
		if c, ok := controls[b]; ok {
			return key{command: c}, nil
		}
		return key{command: ignore}, nil
	}
	text := []byte{b}
	for k.in.Buffered() > 0 || !whole(text) {
		ahead, _ := k.in.Peek(1) // an error is told at the next call
		if len(ahead) == 0 || ahead[0] < 0x20 || ahead[0] == 0x7f {
			break
		}
		text = append(text, ahead[0])
		_, _ = k.in.Discard(1) // it is there
	}
	return key{insert, clean(string(text))}, nil
}

// whole reports whether text does not end within a character.
func whole(text []byte) bool {
	for n := 1; n <= utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			return utf8.FullRune(last)
		}
	}
	return true
}

// escape reads what follows an escape. It waits for it: time says nothing
// about whether one key was pressed or two, and a key that means nothing after
// an escape is what it is alone.
func (k *keys) escape() (key, error) {
	b, err := k.in.ReadByte()
	if err != nil {
		return key{}, err
	}
	if c, ok := alts[b]; ok {
		return key{command: c}, nil
	}
	if b != '[' && b != 'O' {
		return key{command: ignore}, k.in.UnreadByte()
	}
	var seq strings.Builder
	for seq.Len() < 32 {
		c, err := k.in.ReadByte()
		if err != nil {
			return key{}, err
		}
		seq.WriteByte(c)
		if c >= 0x40 && c <= 0x7e {
			break
		}
	}
	if seq.String() == pasteBegin {
		return k.paste()
	}
	if c, ok := sequences[seq.String()]; ok {
		return key{command: c}, nil
	}
	return key{command: ignore}, nil
}

// paste reads a paste to its end.
func (k *keys) paste() (key, error) {
	var text []byte
	over := false
	for !bytes.HasSuffix(text, []byte(pasteEnd)) {
		b, err := k.in.ReadByte()
		if err != nil {
			return key{}, err
		}
		if len(text) > k.limit+len(pasteEnd) {
			over = true
			text = append(text[:0], text[len(text)-len(pasteEnd):]...)
		}
		text = append(text, b)
	}
	if over || len(text)-len(pasteEnd) > k.limit {
		return key{command: tooLong}, nil
	}
	return key{insert, clean(string(text[:len(text)-len(pasteEnd)]))}, nil
}

// clean is text as the editor keeps it: lines end with a line feed, and there
// is nothing in it that could drive a terminal.
func clean(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\r\n", "\n"), "\r", "\n")
	return strings.Map(inert, text)
}

// inert drops control characters but line feeds and tabs.
func inert(r rune) rune {
	if r != '\n' && r != '\t' && (r < 0x20 || r >= 0x7f && r < 0xa0) {
		return -1
	}
	return r
}
