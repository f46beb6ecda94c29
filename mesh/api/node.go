package api

import (
	"context"
	"sync"

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
	defer s.copying.Unlock()
	return s.backup(stream.Context(), proto.CloneOf(s.made), stream.Send)
}

// ListAlarms implements the RPC.
func (s *Node) ListAlarms(context.Context, *meshv1.ListAlarmsRequest) (*meshv1.ListAlarmsResponse, error) {
	res := &meshv1.ListAlarmsResponse{}
	for _, a := range s.alarms.List() {
		res.Alarms = append(res.Alarms, &meshv1.Alarm{Setting: a.Setting, Of: a.Of, Since: stamp(a.Since), Meanwhile: a.Meanwhile, Detail: a.Detail})
	}
	return res, nil
}
