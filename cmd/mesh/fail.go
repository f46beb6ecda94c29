package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/login"
)

// The exit codes; exitCodes says what they mean.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitDenied      = 4
	exitUnavailable = 5
	exitStore       = 6
	exitWaits       = 7
	exitInterrupted = 130
)

var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitOK, "done"},
	{exitFailure, "failed: the agent's task failed, was rejected or cancelled, a check of 'mesh agents test', or anything without a code of its own"},
	{exitUsage, "wrong usage: the command line, or a request that the mesh refused as invalid"},
	{exitNotFound, "not found: no such thread, task, agent or skill, or none for this tenant"},
	{exitDenied, "not allowed: no token, a wrong one, or one without the role"},
	{exitUnavailable, "unavailable: nobody answers, or not in time; try again"},
	{exitStore, "the data folder of a mesh failed: what was written is known when it starts again, and a supervisor may start it at once"},
	{exitWaits, "not done yet: an approval or an answer of yours is waited for; stderr says how to give it ('mesh send', 'mesh skills run')"},
	{exitInterrupted, "interrupted by Ctrl-C or a signal"},
}

// Errors that are only exit codes: whoever returns one has said what happened.
var (
	errTaskFailed  = errors.New("the task failed")
	errWaits       = errors.New("the task waits for an answer")
	errInterrupted = errors.New("interrupted")
)

// errTimeUp ends what would go on for ever.
var errTimeUp = errors.New("the time that --timeout allows is over")

// timeUp returns why a stream without an end ended.
func timeUp(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errTimeUp
	}
	return err
}

// exitCode returns the exit code for what an action returned.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, errTaskFailed), errors.Is(err, errTestFailed):
		return exitFailure
	case errors.Is(err, errWaits):
		return exitWaits
	case errors.Is(err, errTimeUp):
		return exitUnavailable
	case errors.Is(err, node.ErrStoreFailed):
		return exitStore
	}
	switch mesh.CodeOf(err) {
	case mesh.Invalid:
		return exitUsage
	case mesh.NotFound:
		return exitNotFound
	case mesh.Denied, mesh.Unauthenticated:
		return exitDenied
	case mesh.Unavailable, mesh.Timeout:
		return exitUnavailable
	case mesh.Canceled:
		return exitInterrupted
	}
	return exitFailure
}

// explain returns one line that says what failed and what to do, or "" where
// that has been said.
func explain(err error, addr string) string {
	if errors.Is(err, errTaskFailed) || errors.Is(err, errTestFailed) || errors.Is(err, errWaits) || errors.Is(err, errInterrupted) {
		return ""
	}
	what := what(err)
	switch mesh.CodeOf(err) {
	case mesh.Unauthenticated:
		if rpc.Info(err, rpc.InfoIssuers) != "" || errors.Is(err, login.ErrOver) {
			return what + "; log in with 'mesh login', or give a token with MESH_TOKEN or --token"
		}
		return what + "; give a token with MESH_TOKEN or --token"
	case mesh.Timeout:
		return fmt.Sprintf("%s did not answer in time; try again, or allow more with --timeout", addr)
	case mesh.Unsupported:
		return fmt.Sprintf("%s; %s may be an agent rather than a mesh, or an older one", what, addr)
	case mesh.Canceled:
		return "stopped before the end"
	}
	return what
}

// what returns the part of err that is for the user, in one line.
func what(err error) string {
	var e *mesh.Error
	if !errors.As(err, &e) {
		if errors.Is(err, context.DeadlineExceeded) {
			return "no answer in time"
		}
		return oneLine(err.Error())
	}
	text := e.Detail
	if text == "" {
		text = e.Code.String()
	}
	// What is wrong with a file says where that is before it names the field.
	if e.Field != "" && !strings.HasPrefix(text, e.Field) && !strings.Contains(text, ": "+e.Field) {
		text = e.Field + ": " + text
	}
	return oneLine(text)
}

// oneLine makes s safe to print on one line of a terminal.
func oneLine(s string) string { return strings.Join(strings.Fields(printable(s)), " ") }

// printable drops what could steer a terminal: all control and formatting
// characters but line feeds and tabs. Text of agents is not to be trusted.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return -1
		}
		return r
	}, s)
}

// clip shortens s, made one line, to at most n runes.
func clip(s string, n int) string {
	s = oneLine(s)
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}
