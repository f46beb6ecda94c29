package mesh

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// A Blob names bytes that are kept beside the log, by what they are. Who has the name does
// not have the bytes: they are read as part of a thread that refers to them.
type Blob struct {
	// Hash is the SHA-256 of the bytes, in 64 hexadecimal digits, lower-case.
	Hash string
	Size int64
}

// BlobScheme begins the URL of a part that stands for a blob, which goes on as HASH:SIZE.
const BlobScheme = "urn:agentmesh:blob:"

// URL is what a part has as its url that stands for the blob: in the log, and in messages of
// those who have uploaded it. Faces show where it is read instead.
func (b Blob) URL() string { return BlobScheme + b.Hash + ":" + strconv.FormatInt(b.Size, 10) }

// ParseBlob returns the blob that a part with that url stands for; false if it is another url.
func ParseBlob(url string) (b Blob, ok bool) {
	name, ours := strings.CutPrefix(url, BlobScheme)
	hash, size, two := strings.Cut(name, ":")
	n, err := strconv.ParseInt(size, 10, 64)
	b = Blob{Hash: hash, Size: n}
	return b, ours && two && err == nil && n >= 0 && ValidHash(hash) && b.URL() == url
}

// ValidHash reports whether s is as the Hash of a Blob is.
func ValidHash(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 32 && strings.ToLower(s) == s
}

// Validate returns an Invalid error that names the field of the blob.
func (b Blob) Validate() error {
	const op = "mesh.Blob"
	switch {
	case !ValidHash(b.Hash):
		return InvalidField(op, "sha256", "must be the SHA-256 of the bytes, 64 hexadecimal digits in lower case, and is %q", clip(b.Hash))
	case b.Size < 0:
		return InvalidField(op, "size", "must be how many bytes there are, and is %d", b.Size)
	}
	return nil
}

// PartsOf are the parts that the body has. They are the body's.
func PartsOf(b Body) []*a2apb.Part {
	switch b := b.(type) {
	case MessagePosted:
		return b.Message.GetParts()
	case ArtifactAppended:
		return b.Artifact.GetParts()
	case TaskMoved:
		return b.Message.GetParts()
	case DispatchIssued:
		return b.Message.GetParts()
	}
	return nil
}

// withParts is the body with other parts. It shares the rest.
func withParts(b Body, parts []*a2apb.Part) Body {
	switch b := b.(type) {
	case MessagePosted:
		b.Message = MessageWith(b.Message, parts)
		return b
	case ArtifactAppended:
		b.Artifact, b.Wire = ArtifactWith(b.Artifact, parts), nil
		return b
	case TaskMoved:
		b.Message = MessageWith(b.Message, parts)
		return b
	case DispatchIssued:
		b.Message = MessageWith(b.Message, parts)
		return b
	}
	return b
}

// MessageWith is the message with other parts. It shares the rest.
func MessageWith(m *a2apb.Message, parts []*a2apb.Part) *a2apb.Message {
	out := &a2apb.Message{MessageId: m.MessageId, ContextId: m.ContextId, TaskId: m.TaskId, Role: m.Role, Parts: parts,
		Metadata: m.Metadata, Extensions: m.Extensions, ReferenceTaskIds: m.ReferenceTaskIds}
	out.ProtoReflect().SetUnknown(m.ProtoReflect().GetUnknown())
	return out
}

// ArtifactWith is the artifact with other parts. It shares the rest.
func ArtifactWith(a *a2apb.Artifact, parts []*a2apb.Part) *a2apb.Artifact {
	out := &a2apb.Artifact{ArtifactId: a.ArtifactId, Name: a.Name, Description: a.Description, Parts: parts, Metadata: a.Metadata, Extensions: a.Extensions}
	out.ProtoReflect().SetUnknown(a.ProtoReflect().GetUnknown())
	return out
}

// partWith is the part with other content. It shares the rest.
func partWith(p *a2apb.Part, url string) *a2apb.Part {
	out := &a2apb.Part{Content: &a2apb.Part_Url{Url: url}, Metadata: p.Metadata, Filename: p.Filename, MediaType: p.MediaType}
	out.ProtoReflect().SetUnknown(p.ProtoReflect().GetUnknown())
	return out
}

// Blobs yields the blobs that the parts refer to.
func Blobs(parts []*a2apb.Part) iter.Seq[Blob] {
	return func(yield func(Blob) bool) {
		for _, p := range parts {
			if u, ok := p.GetContent().(*a2apb.Part_Url); ok {
				if b, ok := ParseBlob(u.Url); ok && !yield(b) {
					return
				}
			}
		}
	}
}

// Linked are the parts with what at returns, given the name of the file, as the urls of those that stand for blobs; the parts
// themselves, and false, if none does.
func Linked(parts []*a2apb.Part, at func(b Blob, filename string) string) (out []*a2apb.Part, changed bool) {
	out = parts
	for i, p := range parts {
		u, ok := p.GetContent().(*a2apb.Part_Url)
		if !ok {
			continue
		}
		if b, ok := ParseBlob(u.Url); ok {
			if !changed {
				out, changed = slices.Clone(parts), true
			}
			out[i] = partWith(p, at(b, p.GetFilename()))
		}
	}
	return out, changed
}

// minSpilled is how large the bytes of a part are that are kept beside the log, at least.
const minSpilled = 64 << 10

// maxLogged is what of MaxEvent a body may have: the rest is what is logged with it.
const maxLogged = MaxEvent - 16<<10

// spilled are the indexes of the parts whose bytes are kept beside the log, so that the others
// have room in an event: the largest ones, if all of size bytes have not.
func spilled(parts []*a2apb.Part, size int) (beside []int) {
	if size <= maxLogged {
		return nil
	}
	var files []int
	for i, p := range parts {
		if len(p.GetRaw()) >= minSpilled {
			files = append(files, i)
		}
	}
	slices.SortStableFunc(files, func(a, b int) int { return cmp.Compare(len(parts[b].GetRaw()), len(parts[a].GetRaw())) })
	for _, i := range files {
		if size <= maxLogged {
			break
		}
		size -= len(parts[i].GetRaw()) - blobRoom
		beside = append(beside, i)
	}
	return beside
}

// blobRoom is what the reference takes at most that stands for bytes.
const blobRoom = 128

// BodySize is about how many bytes a body with parts has, and how many of them are logged: what
// is kept beside the log is not.
func BodySize(b Body) (all, logged int) {
	switch b := b.(type) {
	case ArtifactAppended:
		if wire, ok := b.Bytes(); ok {
			all = len(wire) + proto.Size(b.Metadata)
		} else {
			all = proto.Size(b.Artifact) + proto.Size(b.Metadata)
		}
	case TaskMoved:
		all = proto.Size(b.Message) + proto.Size(b.Metadata) + len(b.RemoteTask) + len(b.RemoteContext)
	case MessagePosted:
		all = proto.Size(b.Message)
	case DispatchIssued:
		all = proto.Size(b.Message)
	}
	return all, LoggedSize(PartsOf(b), all)
}

// LoggedSize is how many of size bytes are logged of what has the parts.
func LoggedSize(parts []*a2apb.Part, size int) int {
	for _, i := range spilled(parts, size) {
		size -= len(parts[i].GetRaw()) - blobRoom
	}
	return size
}

// Spill is the body with references in place of the bytes that are kept beside the log: keep
// keeps them. It is the body itself where all of it has room.
func Spill(b Body, keep func(data []byte) (Blob, error)) (Body, error) {
	parts := PartsOf(b)
	if !slices.ContainsFunc(parts, func(p *a2apb.Part) bool { return len(p.GetRaw()) >= minSpilled }) {
		return b, nil
	}
	size, _ := BodySize(b)
	beside := spilled(parts, size)
	if len(beside) == 0 {
		return b, nil
	}
	parts = slices.Clone(parts)
	for _, i := range beside {
		blob, err := keep(parts[i].GetRaw())
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
		parts[i] = partWith(parts[i], blob.URL())
	}
	return withParts(b, parts), nil
}
