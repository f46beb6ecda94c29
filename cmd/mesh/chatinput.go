package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"golang.org/x/term"

	"agentmesh/cmd/mesh/terminal"
	"agentmesh/mesh"
)

// chatOptions are the flags of 'mesh chat'.
type chatOptions struct {
	plain, forget bool
	agent         string
}

// spins is how often it is shown that something is at work.
const spins = 125 * time.Millisecond

// listen has the chat read what is typed, with a line editor where a person is
// at a terminal that can have one, until stop is called.
func (c *chat) listen(o chatOptions) (stop func()) {
	in, out := c.app.terminal()
	if !c.rich || o.plain || in == nil {
		c.lines, stop = readLines(c.app.stdin)
		return stop
	}
	var history *terminal.History
	var unkept error
	if !o.forget {
		history, unkept = c.app.history()
	}
	beat := time.NewTicker(spins)
	t, err := terminal.Open(terminal.Options{
		In: in, Out: out, Color: c.app.getenv("NO_COLOR") == "", Limit: maxText,
		History: history, Complete: c.client.complete, Frames: beat.C,
	})
	if err != nil {
		beat.Stop()
		c.lines, stop = readLines(c.app.stdin)
		return stop
	}
	stdout, stderr := c.app.stdout, c.app.stderr
	c.term, c.lines, c.app.stdout, c.app.stderr = t, t.Entries(), t, t
	if unkept != nil {
		c.app.notef("! the history cannot be kept: %s\n", oneLine(unkept.Error()))
	}
	return func() {
		c.app.stdout, c.app.stderr = stdout, stderr
		if err := t.Close(); err != nil {
			c.app.notef("mesh: the terminal is not as it was (%s); 'reset' helps\n", oneLine(err.Error()))
		}
		beat.Stop()
	}
}

// terminal is where a line can be edited, or nil.
func (a *app) terminal() (in, out *os.File) {
	in, _ = a.stdin.(*os.File)
	out, _ = a.stdout.(*os.File)
	kind := a.getenv("TERM")
	if in == nil || out == nil || kind == "" || kind == "dumb" || runtime.GOOS == "windows" ||
		!term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil, nil
	}
	return in, out
}

// history is what was typed in chats before; nil where nothing is to be kept.
func (a *app) history() (*terminal.History, error) {
	file := a.getenv("MESH_HISTORY")
	if file == "off" {
		return nil, nil
	}
	if file == "" {
		dir := a.getenv("XDG_STATE_HOME")
		if dir == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, err
			}
			dir = filepath.Join(home, ".local", "state")
		}
		file = filepath.Join(dir, "agentmesh", "history")
	}
	return terminal.OpenHistory(file)
}

// typing delivers what a person types while a turn runs. The lines of a pipe
// are turns, one after the other.
func (c *chat) typing() <-chan terminal.Entry {
	if c.term == nil {
		return nil
	}
	return c.lines
}

// working shows who is at work, until done is called.
func (c *chat) working(who string) (done func()) {
	if c.term == nil {
		return func() {}
	}
	c.term.Prompt("next › ")
	c.term.Working(who + " (Ctrl-C stops it)")
	return func() { c.term.Working("") }
}

// busy shows who is at work now, and with what.
func (c *chat) busy(u update) {
	if c.term == nil {
		return
	}
	who := ""
	switch {
	case u.execution != nil && (u.execution.state == "started" || u.execution.state == "working"):
		who = withText(speakerName(u.execution.agent), clip(u.execution.text, 100))
	case u.agent != "" && u.artifact != "":
		who = speakerName(u.agent) + " writes"
	case u.agent != "":
		who = withText(speakerName(u.agent), clip(u.text, 100))
	}
	if who != "" {
		c.term.Working(who + " (Ctrl-C stops it)")
	}
}

// readLines reads r line by line until its end or stop is called. The reader
// ends with the read that it is in: a read of a terminal cannot be taken back,
// and the process ends without it.
func readLines(r io.Reader) (lines <-chan terminal.Entry, stop func()) {
	out, done := make(chan terminal.Entry), make(chan struct{})
	go func() {
		scan := bufio.NewScanner(r)
		scan.Buffer(make([]byte, 0, 4096), maxText+2)
		give := func(l terminal.Entry) bool {
			select {
			case out <- l:
				return true
			case <-done:
				return false
			}
		}
		for scan.Scan() {
			if !give(terminal.Entry{Text: scan.Text()}) {
				return
			}
		}
		err := scan.Err()
		switch {
		case err == nil:
			err = io.EOF
		case errors.Is(err, bufio.ErrTooLong):
			err = mesh.InvalidField("mesh.chat", "text", "is a line of more than 1 MiB; send less")
		}
		give(terminal.Entry{Err: err})
	}()
	return out, sync.OnceFunc(func() { close(done) })
}

// A canceller cancels a task once it is asked to and the task is known,
// whichever comes last, and only once.
type canceller struct {
	begin func(task string)
	id    string
	asked bool
}

// ask asks for it; false if that was done before.
func (c *canceller) ask() bool {
	if c.asked {
		return false
	}
	c.asked = true
	if c.id != "" {
		c.begin(c.id)
	}
	return true
}

// task tells the task's id.
func (c *canceller) task(id string) {
	if c.id != "" || id == "" {
		return
	}
	c.id = id
	if c.asked {
		c.begin(id)
	}
}

// cancel asks the mesh to end the task.
func (c *client) cancel(ctx context.Context, thread, task string) error {
	_, err := c.a2a.CancelTask(c.call(ctx, thread), &a2apb.CancelTaskRequest{Id: task})
	return err
}
