//go:build unix

package terminal

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// resizes tells when the window's size changes, until stop is called.
func resizes() (changed <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}

// suspend stops the process, as Ctrl-Z does, and takes the terminal over again
// when it goes on.
func (t *Terminal) suspend() {
	t.screen.erase()
	if t.giveBack() != nil {
		return
	}
	_ = syscall.Kill(0, syscall.SIGTSTP) // the job, as the terminal itself does
	if before, err := term.MakeRaw(int(t.opts.In.Fd())); err == nil {
		t.before = before
	}
	_, _ = io.WriteString(t.opts.Out, pasteOn) // as in draw
}
