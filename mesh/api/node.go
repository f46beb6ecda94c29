package api

import (
	"context"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/alarm"
)

// Node serves mesh.v1.NodeService.
type Node struct {
	meshv1.UnimplementedNodeServiceServer
	alarms *alarm.Set
}

// NewNode returns the server of the alarms.
func NewNode(alarms *alarm.Set) *Node { return &Node{alarms: alarms} }

// ListAlarms implements the RPC.
func (s *Node) ListAlarms(context.Context, *meshv1.ListAlarmsRequest) (*meshv1.ListAlarmsResponse, error) {
	res := &meshv1.ListAlarmsResponse{}
	for _, a := range s.alarms.List() {
		res.Alarms = append(res.Alarms, &meshv1.Alarm{Setting: a.Setting, Of: a.Of, Since: stamp(a.Since), Meanwhile: a.Meanwhile, Detail: a.Detail})
	}
	return res, nil
}
