//go:build unix

package terminal

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signals tells when the window's size changes, and when the process goes on
// after a stop, until stop is called.
func signals() (resized, resumed <-chan os.Signal, stop func()) {
	size, again := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(size, syscall.SIGWINCH)
	signal.Notify(again, syscall.SIGCONT)
	return size, again, func() { signal.Stop(size); signal.Stop(again) }
}

// How long a stop is waited for: so many times so long. Time that passes while
// the process is stopped is part of one of them.
const (
	stopWaits = 20
	stopWait  = 10 * time.Millisecond
)

// suspend gives the terminal back and stops the process, as Ctrl-Z does. The
// watcher takes the terminal over again when the process goes on. It is not
// stopped at all where no shell could have it go on, as when it is all that
// runs in a window: nothing says so but that it still runs.
func (t *Terminal) suspend() {
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGCONT)
	defer signal.Stop(again)
	t.screen.erase()
	t.away = true
	if t.giveBack() == nil && syscall.Kill(0, syscall.SIGTSTP) == nil { // the job, as the terminal itself does
		for range stopWaits { // it is under way when Kill returns
			select {
			case <-again:
				return
			case <-time.After(stopWait):
			}
		}
	}
	t.resume()
}
