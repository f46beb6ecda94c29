//go:build !unix

package terminal

import "os"

// signals never tells: a size is asked for at each drawing, and there are no jobs.
func signals() (resized, resumed <-chan os.Signal, stop func()) { return nil, nil, func() {} }

// suspend stops nothing where there are no jobs.
func (t *Terminal) suspend() { t.screen.draw(nil) }
