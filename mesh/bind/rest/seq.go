package rest

import (
	"google.golang.org/protobuf/proto"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/a2a"
)

// seqOf returns the place in its thread that the event tells of itself, or 0.
func seqOf(m proto.Message) int64 {
	switch m := m.(type) {
	case *meshv1.FollowThreadResponse:
		return m.GetEvent().GetSeq()
	case *a2apb.StreamResponse:
		seq, _ := a2a.SeqOf(m)
		return int64(seq)
	}
	return 0
}

// plain returns an update without the data of our extension, which the edge put
// there for us and not for the client.
func plain(m proto.Message) proto.Message {
	if r, ok := m.(*a2apb.StreamResponse); ok {
		return a2a.Plain(r)
	}
	return m
}
