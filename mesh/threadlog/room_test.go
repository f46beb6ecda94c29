package threadlog_test

import (
	"context"
	"testing"
	"testing/synctest"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/threadlog"
)

// What is held is appended again as often as there is no room, and not where the store fails
// for another reason, seems to have room each time, or nobody waits any more.
func TestWhatThereIsNoRoomForIsHeld(t *testing.T) {
	full := mesh.Errorf(mesh.Unavailable, "test", "the disk is full")
	for name, tt := range map[string]struct {
		err   error
		fails int  // so often
		known bool // that the store takes nothing
		want  mesh.Code
		calls int
	}{
		"for long":              {full, 100, true, mesh.Unknown, 101},
		"that nobody knows of":  {full, 3, false, mesh.Unknown, 4},
		"that never is":         {full, 100, false, mesh.Unavailable, 10},
		"for another reason":    {mesh.Errorf(mesh.Conflict, "test", "another one won"), 100, true, mesh.Conflict, 1},
		"where there is always": {full, 0, false, mesh.Unknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := threadlog.New(mem.Open(), threadlog.WithRoom(func(context.Context) bool { return tt.known }))
				calls := 0
				err := log.Hold(t.Context(), func() error {
					if calls++; calls <= tt.fails {
						return tt.err
					}
					return nil
				})
				if (err == nil) != (tt.want == mesh.Unknown) || err != nil && !mesh.IsCode(err, tt.want) || calls != tt.calls {
					t.Errorf("after %d calls: %v", calls, err)
				}
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log := threadlog.New(mem.Open(), threadlog.WithRoom(func(context.Context) bool { return true }))
	if err := log.Hold(ctx, func() error { return full }); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("for somebody who left: %v", err)
	}
}
