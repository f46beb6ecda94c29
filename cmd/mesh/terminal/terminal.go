package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/clipperhouse/displaywidth"
	"golang.org/x/term"
)

// ErrInterrupted is what Ctrl-C enters.
var ErrInterrupted = errors.New("interrupted")

// An Entry is what a person entered: a text, or why there is none. Err is
// [ErrInterrupted], io.EOF for Ctrl-D, or why the terminal cannot be read.
type Entry struct {
	Text string
	Err  error
}

// Options of [Open].
type Options struct {
	// In and Out are the terminal.
	In, Out *os.File
	// Color allows colour and other styles, and so rendered Markdown.
	Color bool
	// Limit bounds a text, in bytes. More is not taken, and that is said.
	Limit int
	// History is what Up goes back to; nil for none.
	History *History
	// Complete returns where the word that ends head begins, and by what it
	// can be replaced. It is called by the reader of keys, which waits for it;
	// nil completes nothing.
	Complete func(head string) (from int, words []string)
	// Frames beats while something is at work, to show that it is.
	Frames <-chan time.Time
}

// A Terminal is a terminal that a person uses. Make one with [Open].
type Terminal struct {
	opts    Options
	entries chan Entry
	done    chan struct{}
	watcher sync.WaitGroup

	mu      sync.Mutex
	screen  screen
	before  *term.State // as Open found it
	working string
	frame   int
	listed  string // the text at which the words were listed
	away    bool   // given back to be stopped, and not taken over again
	closed  bool
}

// Bracketed paste, on and off.
const (
	pasteOn  = "\x1b[?2004h"
	pasteOff = "\x1b[?2004l"
)

// Open takes the terminal over until Close.
func Open(o Options) (*Terminal, error) {
	before, err := term.MakeRaw(int(o.In.Fd()))
	if err != nil {
		return nil, fmt.Errorf("the terminal cannot be read key by key: %w", err)
	}
	t := &Terminal{opts: o, before: before, entries: make(chan Entry, 64), done: make(chan struct{})}
	t.screen = screen{out: o.Out, md: markdown{color: o.Color}, editor: editor{history: o.History, entry: o.History.len()}, size: t.size}
	_, _ = io.WriteString(o.Out, pasteOn) // as in draw
	t.watcher.Go(t.watch)
	go t.read() // ends with the read that it is in: see the package comment
	return t, nil
}

// size is the terminal's size; one that does not say has the usual one.
func (t *Terminal) size() (columns, rows int) {
	columns, rows, err := term.GetSize(int(t.opts.Out.Fd()))
	if err != nil || columns < 8 || rows < 2 {
		return 80, 24
	}
	return columns, rows
}

// Entries delivers what is entered, in order.
func (t *Terminal) Entries() <-chan Entry { return t.entries }

// Write writes text above what is being typed. See [Said].
func (t *Terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return t.opts.Out.Write([]byte(shown(string(p))))
	}
	t.screen.write(string(p))
	return len(p), nil
}

// Prompt is what stands before the text that is typed from now on.
func (t *Terminal) Prompt(prompt string) {
	t.update(func() { t.screen.prompt = shown(prompt) })
}

// Working says what is at work, which is shown until it is "". Meanwhile
// Ctrl-C is for that, and not for the text that is typed.
func (t *Terminal) Working(what string) {
	t.update(func() { t.working = strings.ReplaceAll(what, "\n", " "); t.status() })
}

// spinner has the signs that show, one after the other, that something is at work.
var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

func (t *Terminal) status() {
	t.screen.status = ""
	if t.working != "" {
		t.screen.status = string(spinner[t.frame%len(spinner)]) + " " + t.working
	}
}

// update changes what is drawn, and draws.
func (t *Terminal) update(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	if !t.closed {
		t.screen.draw(nil)
	}
}

// Close gives the terminal back. An open line is finished.
func (t *Terminal) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	close(t.done)
	t.screen.erase()
	err := t.giveBack()
	t.mu.Unlock() // the watcher may want it
	t.watcher.Wait()
	t.mu.Lock()
	return err
}

func (t *Terminal) giveBack() error {
	_, _ = io.WriteString(t.opts.Out, pasteOff) // as in draw
	return term.Restore(int(t.opts.In.Fd()), t.before)
}

// resume takes the terminal over again after a stop, whoever stopped the
// process: a shell has changed the terminal meanwhile.
func (t *Terminal) resume() {
	if t.closed {
		return
	}
	_, _ = term.MakeRaw(int(t.opts.In.Fd()))   // what it is now is the shell's; a terminal that is gone has nobody to tell
	_, _ = io.WriteString(t.opts.Out, pasteOn) // as in draw
	if !t.away {
		t.screen.drawn, t.screen.cursor = []int{}, place{} // the shell has written below what was drawn
	}
	t.away = false
	t.screen.draw(nil)
}

// watch draws anew when the window's size changes, when the process goes on
// after a stop, and while something works.
func (t *Terminal) watch() {
	resized, resumed, stop := signals()
	defer stop()
	for {
		select {
		case <-resized:
			t.update(func() {})
		case <-resumed:
			t.mu.Lock()
			t.resume()
			t.mu.Unlock()
		case <-t.opts.Frames:
			t.mu.Lock()
			if t.working != "" && !t.closed {
				t.frame++
				t.status()
				t.screen.draw(nil)
			}
			t.mu.Unlock()
		case <-t.done:
			return
		}
	}
}

// read reads keys until the terminal's end, or Close.
func (t *Terminal) read() {
	in := newKeys(t.opts.In, t.opts.Limit)
	for {
		k, err := in.next()
		e := &Entry{Err: err}
		if err == nil {
			e = t.press(k)
		}
		if e != nil {
			select {
			case t.entries <- *e:
			case <-t.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// press does what a key says, and returns what was entered by it.
func (t *Terminal) press(k key) (entered *Entry) {
	if k.command == complete {
		t.complete()
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	s, e := &t.screen, &t.screen.editor
	s.notice, t.listed = "", ""
	switch {
	case k.command == enter && strings.HasSuffix(e.text[:e.at], `\`):
		e.replace(e.at-1, e.at, "\n")
	case k.command == enter:
		return t.enter()
	case k.command == interrupt && (e.text == "" || t.working != ""):
		return &Entry{Err: ErrInterrupted}
	case k.command == interrupt:
		e.take()
	case k.command == endOfInput && e.text == "":
		return &Entry{Err: io.EOF}
	case k.command == suspend:
		t.suspend()
		return nil // what is drawn now would be the shell's
	case k.command == clearScreen:
		_, _ = io.WriteString(t.opts.Out, "\x1b[H\x1b[2J") // as in draw
		s.drawn = nil
	case k.command == tooLong, e.adds(k) > 0 && len(e.text)+e.adds(k) > t.opts.Limit:
		s.notice = fmt.Sprintf("! a text has at most %d bytes; nothing was added", t.opts.Limit)
	case k.command == ignore:
		return nil
	default:
		e.apply(k)
	}
	s.draw(nil)
	return nil
}

// enter takes the text that was typed.
func (t *Terminal) enter() *Entry {
	s := &t.screen
	text := s.editor.take()
	if strings.TrimSpace(text) == "" {
		s.draw(nil)
		return nil
	}
	if err := t.opts.History.Add(text); err != nil {
		s.notice = "! the history cannot be kept: " + err.Error()
	}
	s.editor.entry = t.opts.History.len()
	s.echo(text)
	return &Entry{Text: text}
}

// complete replaces the word before the cursor by what it begins: all of it if
// there is one, else what all have in common; a second time lists them.
func (t *Terminal) complete() {
	t.mu.Lock()
	text, at := t.screen.editor.text, t.screen.editor.at
	t.mu.Unlock()
	if t.opts.Complete == nil {
		return
	}
	from, words := t.opts.Complete(text[:at])
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(words) == 0 || t.closed {
		return
	}
	common := clean(beginning(words))
	switch {
	case len(words) == 1:
		t.screen.editor.replace(from, at, common+" ")
	case len(common) > at-from:
		t.screen.editor.replace(from, at, common)
	case t.listed == text:
		t.screen.write(strings.Join(words, "  ") + "\n")
	}
	t.listed = t.screen.editor.text
	t.screen.draw(nil)
}

// beginning is what all words begin with, in whole characters.
func beginning(words []string) string {
	common := words[0]
	for _, w := range words[1:] {
		n := 0
		a, b := displaywidth.StringGraphemes(common), displaywidth.StringGraphemes(w)
		for a.Next() && b.Next() && a.Value() == b.Value() {
			n += len(a.Value())
		}
		common = common[:n]
	}
	return common
}
