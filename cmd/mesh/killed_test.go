package main

import (
	"math/rand/v2"
	"testing"
	"time"
)

// killedMidway runs the command and kills it at some moment of the time that it takes.
func killedMidway(t *testing.T, random *rand.Rand, dir string, took time.Duration, env []string, args ...string) {
	t.Helper()
	p := launch(t, dir, "mesh", env, args...)
	moment := someMoment(random, took)
	select {
	case <-moment.C:
		_ = p.cmd.Process.Kill() // it may have ended
	case <-p.ended:
	}
	<-p.ended
}

// killedWithin runs the command, kills the mesh at some moment of the time that the command takes,
// and returns how that ended.
func (m *realMesh) killedWithin(random *rand.Rand, took time.Duration, command func() finished) (ended finished) {
	done := make(chan finished, 1)
	go func() { done <- command() }() // received from below
	select {
	case <-someMoment(random, took).C:
		m.kill9()
		return <-done
	case ended = <-done:
		m.kill9()
		return ended
	}
}

// someMoment is one of the time: that it is any one is the point.
func someMoment(random *rand.Rand, within time.Duration) *time.Timer {
	return time.NewTimer(time.Duration(random.Int64N(int64(within) + 1)))
}
