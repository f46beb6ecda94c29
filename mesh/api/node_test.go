package api

import (
	"context"
	"testing"

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
}

func (s *sent) Context() context.Context { return s.ctx }

func (s *sent) Send(p *meshv1.BackupDataResponse) error {
	s.pieces = append(s.pieces, p)
	return nil
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
