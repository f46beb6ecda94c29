package api

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/backup"
)

// sent takes what is streamed.
type sent struct {
	grpc.ServerStream
	ctx    context.Context
	pieces []*meshv1.BackupDataResponse
	takes  func() error // nil if it takes all at once
}

func (s *sent) Context() context.Context { return s.ctx }

func (s *sent) Send(p *meshv1.BackupDataResponse) error {
	s.pieces = append(s.pieces, p)
	if s.takes != nil {
		return s.takes()
	}
	return nil
}

// Who takes nothing of a copy is given up, so that what was deleted meanwhile goes; who is slow is not.
func TestACopyThatNobodyTakesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := NewNode(alarm.New(nil, nil))
		ended := false
		node.WithBackup(func(ctx context.Context, _ *meshv1.BackupManifest, take backup.Take) error {
			defer func() { ended = true }()
			for range 3 {
				if err := take(&meshv1.BackupDataResponse{}); err != nil {
					return err
				}
			}
			return nil
		}, "v1", "here")
		slow := &sent{ctx: t.Context(), takes: func() error { time.Sleep(patience - 1); return nil }}
		if err := node.BackupData(nil, slow); err != nil || len(slow.pieces) != 3 {
			t.Errorf("who is slow gets %d pieces, %v", len(slow.pieces), err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended = false
		stuck := &sent{ctx: ctx, takes: func() error { <-ctx.Done(); return ctx.Err() }}
		err := node.BackupData(nil, stuck)
		if !mesh.IsCode(err, mesh.Timeout) || ended {
			t.Errorf("who takes nothing: %v", err)
		}
		stop() // as a stream ends when its call has returned
		node.Wait()
		if !ended {
			t.Error("the copy goes on")
		}
		if err := node.BackupData(nil, slow); err != nil {
			t.Errorf("the next copy: %v", err)
		}
	})
}

func TestOneBackupIsMadeAtATime(t *testing.T) {
	node := NewNode(alarm.New(nil, nil))
	if err := node.BackupData(nil, &sent{ctx: t.Context()}); !mesh.IsCode(err, mesh.Unsupported) {
		t.Errorf("of a node that keeps nothing itself: %v", err)
	}
	var second error
	node.WithBackup(func(_ context.Context, made *meshv1.BackupManifest, take backup.Take) error {
		second = node.BackupData(nil, &sent{ctx: t.Context()})
		return backup.NewSource(take).End(made)
	}, "v1", "here")
	for range 2 {
		to := &sent{ctx: t.Context()}
		if err := node.BackupData(nil, to); err != nil || !mesh.IsCode(second, mesh.Precondition) {
			t.Fatalf("%v; another one meanwhile: %v", err, second)
		}
		if m := to.pieces[0].GetManifest(); m.GetProgram() != "v1" || m.GetNode() != "here" || m.GetFormat() != backup.Format {
			t.Errorf("its manifest is %v", m)
		}
	}
}
