package rest

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// seqOf returns the event's place in its thread, or 0 if it has none. With
// strip it removes the Seq from the metadata of an A2A update, where the edge
// put it for us and not for the client. The message is the caller's own.
func seqOf(m proto.Message, strip bool) int64 {
	switch m := m.(type) {
	case *meshv1.FollowThreadResponse:
		return m.GetEvent().GetSeq()
	case *a2apb.StreamResponse:
		switch p := m.GetPayload().(type) {
		case *a2apb.StreamResponse_Task:
			return takeSeq(&p.Task.Metadata, strip)
		case *a2apb.StreamResponse_Message:
			return takeSeq(&p.Message.Metadata, strip)
		case *a2apb.StreamResponse_StatusUpdate:
			return takeSeq(&p.StatusUpdate.Metadata, strip)
		case *a2apb.StreamResponse_ArtifactUpdate:
			return takeSeq(&p.ArtifactUpdate.Metadata, strip)
		}
	}
	return 0
}

// takeSeq reads the Seq in the metadata. With strip it also removes it, and
// what is empty without it.
func takeSeq(metadata **structpb.Struct, strip bool) int64 {
	ours := (*metadata).GetFields()[mesh.ExtensionURI].GetStructValue()
	value, ok := ours.GetFields()["seq"]
	if !ok {
		return 0
	}
	if strip {
		delete(ours.Fields, "seq")
		if len(ours.Fields) == 0 {
			delete((*metadata).Fields, mesh.ExtensionURI)
		}
		if len((*metadata).Fields) == 0 {
			*metadata = nil
		}
	}
	return int64(value.GetNumberValue())
}
