package main

import (
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"agentmesh/mesh"
)

// A respondent is who sits at a terminal and is asked one thing after the other. Between the
// questions the terminal is as it was.
type respondent struct {
	in   *os.File
	line *term.Terminal
}

// respondent returns who sits at the terminal; nil if nobody does.
func (a *app) respondent() *respondent {
	in, ok := a.stdin.(*os.File)
	if !ok || !a.asks || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	return &respondent{in, term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, a.stderr}, "")}
}

// ask returns what is typed after the question, without blanks around it; unseen if nobody
// is to see it. Ctrl-C and Ctrl-D are errInterrupted.
func (p *respondent) ask(question string, unseen bool) (answer string, err error) {
	before, err := term.MakeRaw(int(p.in.Fd())) // before the question, so that nothing is shown
	if err != nil {
		return "", mesh.Errorf(mesh.Invalid, "mesh.ask", "the terminal cannot be read: %v", err)
	}
	defer func() { err = errors.Join(err, term.Restore(int(p.in.Fd()), before)) }()
	if columns, rows, err := term.GetSize(int(p.in.Fd())); err == nil && columns > 0 {
		_ = p.line.SetSize(columns, rows) // else it is as wide as usual
	}
	if unseen {
		answer, err = p.line.ReadPassword(question)
	} else {
		p.line.SetPrompt(question)
		answer, err = p.line.ReadLine()
	}
	if errors.Is(err, io.EOF) { // Ctrl-C, or Ctrl-D
		return "", errInterrupted
	}
	return strings.TrimSpace(answer), err
}

// choose asks until one of the letters is typed, in either case; nothing is the first one.
func (p *respondent) choose(question, letters string) (byte, error) {
	for {
		answer, err := p.ask(question, false)
		if answer = strings.ToLower(answer); err != nil || answer == "" {
			return letters[0], err
		}
		if i := strings.IndexByte(letters, answer[0]); i >= 0 {
			return letters[i], nil
		}
	}
}
