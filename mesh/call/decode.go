package call

import (
	"unicode/utf8"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Numbers of fields.
const (
	fieldUpdate = 4 // of StreamResponse

	updateTask, updateContext, fieldArtifact, updateAppend, updateLast = 1, 2, 3, 4, 5 // of TaskArtifactUpdateEvent

	artifactID, artifactParts = 1, 4 // of Artifact
	partText                  = 1    // of Part
)

// decode reads the wire bytes of a response into it: as proto.Unmarshal does, but for
// less if it is a piece of text, as most are. last, which may be nil, is the update
// before it, whose ids it is likely to have.
func decode(wire []byte, into *a2apb.StreamResponse, last *a2apb.TaskArtifactUpdateEvent) error {
	if u := pieceOfText(wire, last); u != nil {
		into.Payload = u
		return nil
	}
	return proto.Unmarshal(wire, into)
}

// pieceOfText is the payload of a response that is a piece of one text and has
// nothing that is not read here; nil for all others, and for what is malformed.
func pieceOfText(wire []byte, last *a2apb.TaskArtifactUpdateEvent) *a2apb.StreamResponse_ArtifactUpdate {
	of := &struct { // in one piece
		payload  a2apb.StreamResponse_ArtifactUpdate
		update   a2apb.TaskArtifactUpdateEvent
		artifact a2apb.Artifact
		parts    [1]*a2apb.Part
		part     a2apb.Part
		text     a2apb.Part_Text
	}{}
	var artifact, part []byte
	f := fields{rest: wire}
	update := f.message(fieldUpdate)
	f.end()
	for f.rest = update; f.next(); {
		switch f.number {
		case updateTask:
			of.update.TaskId = f.text(last.GetTaskId())
		case updateContext:
			of.update.ContextId = f.text(last.GetContextId())
		case fieldArtifact:
			f.failed = f.failed || artifact != nil // else they would be merged
			artifact = f.bytes()
		case updateAppend:
			of.update.Append = f.flag()
		case updateLast:
			of.update.LastChunk = f.flag()
		default:
			return nil
		}
	}
	for f.rest = artifact; f.next(); {
		switch f.number {
		case artifactID:
			of.artifact.ArtifactId = f.text(last.GetArtifact().GetArtifactId())
		case artifactParts:
			f.failed = f.failed || part != nil
			part = f.bytes()
		default:
			return nil
		}
	}
	f.rest = part
	if f.next(); f.number != partText {
		return nil
	}
	of.text.Text = f.text("")
	if f.end(); f.failed || part == nil {
		return nil
	}
	of.part.Content, of.parts[0] = &of.text, &of.part
	of.artifact.Parts, of.update.Artifact = of.parts[:], &of.artifact
	of.payload.ArtifactUpdate = &of.update
	return &of.payload
}

// fields reads a message field by field, and fails for good with what it cannot read.
type fields struct {
	rest   []byte
	number protowire.Number
	kind   protowire.Type
	failed bool
}

// next goes to the next field; false if there is none.
func (f *fields) next() bool {
	f.number = 0
	if f.failed || len(f.rest) == 0 {
		return false
	}
	var n int
	f.number, f.kind, n = protowire.ConsumeTag(f.rest)
	return f.consumed(n)
}

// end fails if there is more.
func (f *fields) end() { f.failed = f.failed || len(f.rest) > 0 }

func (f *fields) consumed(n int) bool {
	if n < 0 {
		f.failed = true
		return false
	}
	f.rest = f.rest[n:]
	return true
}

// message goes to the next field, which must have that number, and returns its bytes.
func (f *fields) message(number protowire.Number) []byte {
	f.failed = !f.next() || f.number != number
	return f.bytes()
}

// bytes are those of the field, which are never nil if it can be read.
func (f *fields) bytes() []byte {
	if f.failed || f.kind != protowire.BytesType {
		f.failed = true
		return nil
	}
	b, n := protowire.ConsumeBytes(f.rest)
	f.consumed(n)
	return b
}

// text is that of the field: likely itself, if it is that.
func (f *fields) text(likely string) string {
	b := f.bytes()
	if string(b) == likely {
		return likely
	}
	f.failed = f.failed || !utf8.Valid(b)
	return string(b)
}

func (f *fields) flag() bool {
	if f.failed || f.kind != protowire.VarintType {
		f.failed = true
		return false
	}
	v, n := protowire.ConsumeVarint(f.rest)
	f.consumed(n)
	return v != 0
}
