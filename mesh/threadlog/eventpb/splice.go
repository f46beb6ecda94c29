package eventpb

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

// Numbers of fields. Most events are pieces of output, which are put together from
// bytes instead of being built as a message first; a test holds them against that.
const (
	eventID, eventTime, eventExecution, eventActor, eventEpoch, eventArtifact = 2, 3, 4, 5, 6, 21

	timeSeconds, timeNanos = 1, 2

	appendedArtifact, appendedAppend, appendedLast, appendedMetadata = 1, 2, 3, 4
)

// appendArtifact is Append for a piece of output, of which it copies the bytes if
// they are at hand.
func appendArtifact(to []byte, op string, e *mesh.Event, body mesh.ArtifactAppended) ([]byte, error) {
	for _, text := range [...]string{e.ID, string(e.Execution), e.Actor} {
		if !utf8.ValidString(text) {
			return to, notUTF8(op, "artifact_appended", nil)
		}
	}
	artifact, ok := body.Bytes()
	var err error
	if !ok && body.Artifact != nil {
		if artifact, err = proto.Marshal(body.Artifact); err != nil {
			return to, notUTF8(op, "artifact_appended", err)
		}
	}
	var metadata []byte
	if body.Metadata != nil {
		if metadata, err = proto.Marshal(body.Metadata); err != nil {
			return to, notUTF8(op, "artifact_appended", err)
		}
	}
	b := appendText(to, eventID, e.ID)
	if !e.Time.IsZero() {
		at := millis(e.Time)
		if y := at.Year(); y < 1 || y > 9999 {
			return to, errTime(op, "time")
		}
		var in [24]byte
		b = appendBytes(b, eventTime, appendNumber(appendNumber(in[:0], timeSeconds, at.Unix()), timeNanos, int64(at.Nanosecond())))
	}
	b = appendText(b, eventExecution, string(e.Execution))
	b = appendText(b, eventActor, e.Actor)
	b = appendNumber(b, eventEpoch, int64(e.Epoch))

	hasArtifact, hasMetadata := body.Artifact != nil, body.Metadata != nil
	size := sizeOf(hasArtifact, len(artifact)) + sizeOf(body.Append, -1) + sizeOf(body.LastChunk, -1) + sizeOf(hasMetadata, len(metadata))
	b = protowire.AppendVarint(protowire.AppendTag(b, eventArtifact, protowire.BytesType), uint64(size))
	if hasArtifact {
		b = appendBytes(b, appendedArtifact, artifact)
	}
	b = appendNumber(b, appendedAppend, int64(protowire.EncodeBool(body.Append)))
	b = appendNumber(b, appendedLast, int64(protowire.EncodeBool(body.LastChunk)))
	if hasMetadata {
		b = appendBytes(b, appendedMetadata, metadata)
	}
	return b, nil
}

// sizeOf is that of a field with a number below 16, if it is there: of n bytes, or
// of a bool if n is below 0.
func sizeOf(there bool, n int) int {
	switch {
	case !there:
		return 0
	case n < 0:
		return 2
	}
	return 1 + protowire.SizeBytes(n)
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func appendText(b []byte, field protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func appendNumber(b []byte, field protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}
