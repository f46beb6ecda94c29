//go:build !unix

package mcp

import "os/exec"

// There are no process groups here: what the process starts is its own to end.

func ownGroup(*exec.Cmd) {}

func terminate(*exec.Cmd) {}

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
