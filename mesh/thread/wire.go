package thread

import (
	"unicode/utf8"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Numbers of fields. An update is put together around the bytes of its artifact,
// however large that is; a test holds it against what would be encoded.
const (
	responseArtifactUpdate = 4 // of StreamResponse

	updateTask, updateContext, updateArtifact, updateAppend, updateLast, updateMetadata = 1, 2, 3, 4, 5, 6
)

// wireOf returns a StreamResponse of the update, whose artifact has the bytes; nil
// if it holds text that is not UTF-8.
func wireOf(u *a2apb.TaskArtifactUpdateEvent, artifact []byte) []byte {
	var metadata []byte
	if u.Metadata != nil {
		var err error
		if metadata, err = (proto.MarshalOptions{Deterministic: true}).Marshal(u.Metadata); err != nil {
			return nil
		}
	}
	if !utf8.ValidString(u.TaskId) || !utf8.ValidString(u.ContextId) {
		return nil
	}
	const flags = 4
	most := len(u.TaskId) + len(u.ContextId) + len(artifact) + len(metadata) + flags + 4*(1+protowire.SizeVarint(1<<31))
	head := 1 + protowire.SizeVarint(uint64(most))
	b := make([]byte, head, head+most)
	bytes := func(field protowire.Number, v []byte) {
		b = protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
	}
	text := func(field protowire.Number, v string) {
		if v != "" {
			b = protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
		}
	}
	flag := func(field protowire.Number, v bool) {
		if v {
			b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), 1)
		}
	}
	text(updateTask, u.TaskId)
	text(updateContext, u.ContextId)
	bytes(updateArtifact, artifact)
	flag(updateAppend, u.Append)
	flag(updateLast, u.LastChunk)
	if u.Metadata != nil {
		bytes(updateMetadata, metadata)
	}
	// The length goes before what it counts, where there is room for it.
	size := uint64(len(b) - head)
	start := head - 1 - protowire.SizeVarint(size)
	protowire.AppendVarint(protowire.AppendTag(b[start:start], responseArtifactUpdate, protowire.BytesType), size)
	return b[start:]
}
