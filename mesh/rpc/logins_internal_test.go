package rpc

import (
	"fmt"
	"testing"
	"time"
)

// A minute later all that failed meanwhile is told, and the memory of addresses is
// bounded.
func TestFailedLogInsAreToldOnceAMinute(t *testing.T) {
	l := newLogins(nil, nil)
	now := time.Now()
	for i, want := range []int{1, 0, 0} {
		if n := l.note("a", now); n != want {
			t.Errorf("failure %d: %d are told", i+1, n)
		}
	}
	if n := l.note("a", now.Add(tellEvery)); n != 3 {
		t.Errorf("a minute later %d are told", n)
	}
	for i := range maxAddresses + 10 {
		l.note(fmt.Sprint(i), now)
	}
	if n := l.failed.Len(); n != maxAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
}
