//go:build !unix

package terminal

import "os"

// resizes never tells: a size is asked for at each drawing.
func resizes() (changed <-chan os.Signal, stop func()) { return nil, func() {} }

// suspend does nothing where there are no jobs.
func (t *Terminal) suspend() {}
