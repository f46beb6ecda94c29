package api

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/backup"
	"agentmesh/mesh/transfer"
)

// A Backup has take get a copy of what the node keeps, with what made says of who made it.
type Backup func(ctx context.Context, made *meshv1.BackupManifest, take backup.Take) error

// Node serves mesh.v1.NodeService.
type Node struct {
	meshv1.UnimplementedNodeServiceServer
	alarms *alarm.Set

	backup  Backup // nil if others copy what the node keeps
	made    *meshv1.BackupManifest
	copying sync.Mutex // one copy at a time
	copies  sync.WaitGroup

	tenants *transfer.Tenants
	usage   func(context.Context) ([]*meshv1.TenantUsage, error)
}

// NewNode returns the server of the alarms.
func NewNode(alarms *alarm.Set) *Node { return &Node{alarms: alarms} }

// WithBackup has backups made so, by the program of that version on the node at the address.
// It returns s.
func (s *Node) WithBackup(backup Backup, program, address string) *Node {
	s.backup, s.made = backup, &meshv1.BackupManifest{Program: program, Node: address}
	return s
}

// BackupData implements the RPC.
func (s *Node) BackupData(_ *meshv1.BackupDataRequest, stream grpc.ServerStreamingServer[meshv1.BackupDataResponse]) error {
	const op = "api.BackupData"
	if s.backup == nil {
		return mesh.Errorf(mesh.Unsupported, op, "the node keeps nothing in a folder of its own; back up the database that it uses")
	}
	if !s.copying.TryLock() {
		return mesh.Errorf(mesh.Precondition, op, "another backup is being made; try again when it has ended")
	}
	return s.patiently(op, stream.Send, func(take backup.Take) error {
		return s.backup(stream.Context(), proto.CloneOf(s.made), take)
	})
}

// patience is how long who takes a copy may take nothing of it.
const patience = 2 * time.Minute

// patiently has give a take that sends, and returns its error: Timeout when nothing was taken for
// as long as there is patience. What is deleted stays in the node's folder while that is copied,
// for which one who is stuck is not waited. What is under way then ends with the stream, when the
// caller has returned; Wait waits for it.
func (s *Node) patiently(op string, send backup.Take, give func(backup.Take) error) error {
	stuck, ended := make(chan struct{}), make(chan error, 1)
	giveUp := sync.OnceFunc(func() { close(stuck) })
	s.copies.Go(func() {
		defer s.copying.Unlock()
		ended <- give(func(p *meshv1.BackupDataResponse) error {
			defer time.AfterFunc(patience, giveUp).Stop()
			return send(p)
		})
	})
	select {
	case err := <-ended:
		return err
	case <-stuck:
		return mesh.Errorf(mesh.Timeout, op, "nothing of the copy was taken for %s, so it was ended; make it anew, and take it as it comes", patience)
	}
}

// Wait waits for copies that have ended for who took them. The server has stopped before.
func (s *Node) Wait() { s.copies.Wait() }

// ListAlarms implements the RPC.
func (s *Node) ListAlarms(context.Context, *meshv1.ListAlarmsRequest) (*meshv1.ListAlarmsResponse, error) {
	res := &meshv1.ListAlarmsResponse{}
	for _, a := range s.alarms.List() {
		res.Alarms = append(res.Alarms, &meshv1.Alarm{Setting: a.Setting, Of: a.Of, Since: stamp(a.Since), Meanwhile: a.Meanwhile, Detail: a.Detail})
	}
	return res, nil
}
