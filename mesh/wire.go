package mesh

import (
	"sync/atomic"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A Wire is an artifact's wire bytes, which go into everything that it is sent in:
// it is encoded once, for its log and for all who follow that. It is shared, and
// may be used concurrently; nil has no bytes.
type Wire struct {
	of    *a2apb.Artifact
	bytes []byte
	memo  [Forms]atomic.Pointer[[]byte]
}

// Forms is how many forms of one thing a Wire remembers.
const Forms = 4

// WireOf encodes the artifact, which nobody changes any more. It is nil for one
// that cannot be: whoever sends it finds out why.
func WireOf(a *a2apb.Artifact) *Wire {
	b, err := proto.Marshal(a)
	if a == nil || err != nil {
		return nil
	}
	return &Wire{of: a, bytes: b}
}

// WireIn finds the bytes of the artifact in a message that it was decoded from, by
// the numbers of the fields that lead to it. Nobody changes either any more. Where
// they are not in one piece, or there is no message, it encodes the artifact.
func WireIn(message []byte, a *a2apb.Artifact, path ...protowire.Number) *Wire {
	found := message
	for _, field := range path {
		var ok bool
		if found, ok = only(found, field); !ok {
			return WireOf(a)
		}
	}
	if a == nil {
		return nil
	}
	return &Wire{of: a, bytes: found}
}

// only returns the bytes of a field of a message, if it is there once.
func only(b []byte, field protowire.Number) (found []byte, ok bool) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, false
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return nil, false
		}
		if number == field {
			if ok || kind != protowire.BytesType {
				return nil, false
			}
			v, _ := protowire.ConsumeBytes(b)
			found, ok = v[:len(v):len(v)], true
		}
		b = b[n:]
	}
	return found, ok
}

// Equal is for comparisons of bodies: what an artifact is encoded as says nothing
// that the artifact does not.
func (w *Wire) Equal(*Wire) bool { return true }

// Bytes are the artifact's wire bytes, if they are at hand: those of the artifact
// that it has now, whatever it had before. Nobody changes them.
func (b ArtifactAppended) Bytes() ([]byte, bool) {
	if b.Wire == nil || b.Wire.of != b.Artifact {
		return nil, false
	}
	return b.Wire.bytes, true
}

// Memo returns what make made of the body, which has Bytes, for whoever was first
// to ask for that form of it, below [Forms]: what goes into it is the same for all
// who ask.
func (b ArtifactAppended) Memo(form int, make func() []byte) []byte {
	at := &b.Wire.memo[form]
	if was := at.Load(); was != nil {
		return *was
	}
	made := make()
	at.Store(&made)
	return made
}
