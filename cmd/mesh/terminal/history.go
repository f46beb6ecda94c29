package terminal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Bounds of what a history keeps, in entries and in bytes of one.
const (
	maxEntries    = 1000
	maxEntryBytes = 64 << 10
)

// A History is what was entered before, the last at the end. Its file, which
// only its owner reads, has a line of JSON for each entry. Programs that share
// a file add to it side by side. nil is a History that keeps nothing.
type History struct {
	file    string
	entries []string
}

// OpenHistory reads the history that the file has; a file that is not there
// has none, and lines that cannot be read or are too long are passed over. "" keeps it for as
// long as the program runs. More than twice the bound of a file is cut to it.
func OpenHistory(file string) (*History, error) {
	h := &History{file: file}
	if file == "" {
		return h, nil
	}
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, err
	}
	read := 0
	for line := range bytes.Lines(data) {
		if text, ok := entryIn(line); ok {
			h.remember(text)
		}
		read++
	}
	if read > 2*maxEntries {
		return h, h.rewrite()
	}
	return h, nil
}

// entryIn is the entry that a line of the file has, if it has one within bounds.
func entryIn(line []byte) (text string, ok bool) {
	if len(line) > 8*maxEntryBytes || json.Unmarshal(line, &text) != nil { // escaped, a byte has six at most
		return "", false
	}
	text = clean(text)
	return text, text != "" && len(text) <= maxEntryBytes
}

// Add keeps text as the last entry. What is too long, or was the last one
// already, is not kept again.
func (h *History) Add(text string) error {
	if h == nil || text == "" || len(text) > maxEntryBytes || len(h.entries) > 0 && h.entries[len(h.entries)-1] == text {
		return nil
	}
	h.remember(text)
	if h.file == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(h.file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(text), f.Close())
}

func (h *History) remember(text string) {
	h.entries = append(h.entries, text)
	if over := len(h.entries) - maxEntries; over > 0 {
		h.entries = append(h.entries[:0], h.entries[over:]...)
	}
}

// rewrite replaces the file by one that has the entries alone.
func (h *History) rewrite() error {
	f, err := os.CreateTemp(filepath.Dir(h.file), filepath.Base(h.file)+".*") // mode 0600
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	lines := json.NewEncoder(out)
	for _, text := range h.entries {
		err = errors.Join(err, lines.Encode(text))
	}
	if err = errors.Join(err, out.Flush(), f.Close()); err == nil {
		err = os.Rename(f.Name(), h.file)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // what failed first is told
	}
	return err
}

func (h *History) len() int {
	if h == nil {
		return 0
	}
	return len(h.entries)
}

func (h *History) at(i int) string { return h.entries[i] }
