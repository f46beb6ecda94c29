package a2a

import (
	"unicode/utf8"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// What the metadata of a task has under [mesh.KeyTruncated], and that of an artifact of which
// something is left out.
const (
	keyLeftArtifacts = "artifacts_left_out" // number: of those that were read; of a task that came marked more may follow
	keyLeftMessages  = "messages_left_out"  // number: of the history, the oldest
	keyWhole         = "url"                // string: where the whole task is read over HTTP
)

// fitSlack is what of an answer is not the task, and headSize what the mark of an artifact takes
// besides its url, both in bytes.
const (
	fitSlack = 16 << 10
	headSize = 512
)

// WithWhole has tasks that have no room in an answer say where the whole of them is read: at
// returns the URL of the task's id.
func WithWhole(at func(task string) string) Option { return func(s *server) { s.whole = at } }

// fit returns the task as it has room in what the caller takes of an answer: the task itself if
// it has. Else the oldest messages of the history are left out beyond half of the room, and of
// the artifacts what has none then, from the one on that has no room as a whole; text is cut
// between two characters. The metadata of the task and of each artifact of which something is
// left out says so, and a last part of such an artifact where the whole task is read. A task that
// comes marked, as one that was read in part, stays so, whether the rest has room or not.
func (s *server) fit(call mesh.Call, t *a2apb.Task) *a2apb.Task {
	room := call.Room - fitSlack
	if _, cut := t.GetMetadata().GetFields()[mesh.KeyTruncated]; call.Room == 0 || proto.Size(t) <= room && !cut {
		return t
	}
	out := copyTask(t, t.Metadata)
	f := fitter{whole: s.wholeURL(t.GetId())}
	out.Artifacts, out.History = nil, nil
	room -= proto.Size(out) + len(f.whole)
	artifacts := 0
	for _, a := range t.Artifacts {
		artifacts += proto.Size(a)
	}
	var left int
	out.History, left = newest(t.History, max(room/2, room-artifacts))
	for _, m := range out.History {
		room -= proto.Size(m) + sizeOfField
	}
	out.Artifacts = f.artifacts(t.Artifacts, room)
	out.Metadata = f.marked(out.Metadata, keyLeftArtifacts, len(t.Artifacts)-len(out.Artifacts), keyLeftMessages, left)
	return out
}

// sizeOfField is what a message takes in another one besides its own bytes, at most.
const sizeOfField = 8

// newest are the newest messages that have room, in order, and how many are left out.
func newest(all []*a2apb.Message, room int) (out []*a2apb.Message, left int) {
	for left = len(all); left > 0; left-- {
		if room -= proto.Size(all[left-1]) + sizeOfField; room < 0 {
			break
		}
	}
	return all[left:], left
}

// A fitter cuts artifacts.
type fitter struct{ whole string }

func (s *server) wholeURL(task string) string {
	if s.whole == nil {
		return ""
	}
	return s.whole(task)
}

// artifacts are those of all that have room, of which some may be without parts.
func (f fitter) artifacts(all []*a2apb.Artifact, room int) (out []*a2apb.Artifact) {
	heads := make([]int, 0, len(all)) // what each takes without parts, and with a mark
	for _, a := range all {
		head := proto.Size(mesh.ArtifactWith(a, nil)) + headSize + 2*len(f.whole)
		if head > room {
			break
		}
		room -= head
		heads = append(heads, head)
	}
	cut := false
	for i, head := range heads {
		a := all[i]
		if size := proto.Size(a) + sizeOfField; !cut && size <= room+head {
			room -= max(size-head, 0)
			out = append(out, a)
			continue
		}
		cut = true
		parts := f.parts(a.GetParts(), &room)
		kept := mesh.ArtifactWith(a, parts)
		kept.Metadata = f.marked(a.GetMetadata())
		out = append(out, kept)
	}
	return out
}

// parts are those that have room, of which the last one says where all are.
func (f fitter) parts(all []*a2apb.Part, room *int) (out []*a2apb.Part) {
	for _, p := range all {
		size := proto.Size(p) + sizeOfField
		if size > *room {
			if text := opening(p.GetText(), *room-(size-len(p.GetText()))); text != "" {
				p = &a2apb.Part{Content: &a2apb.Part_Text{Text: text}, Metadata: p.Metadata, Filename: p.Filename, MediaType: p.MediaType}
				out = append(out, p)
			}
			*room = 0
			break
		}
		*room -= size
		out = append(out, p)
	}
	if f.whole != "" {
		out = append(out, &a2apb.Part{Content: &a2apb.Part_Url{Url: f.whole}, MediaType: "application/json", Metadata: f.marked(nil)})
	}
	return out
}

// opening is as much of the text as has room, in whole characters.
func opening(text string, room int) string {
	if room <= 0 {
		return ""
	}
	n := min(room, len(text))
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// marked returns metadata like md that says that something is left out, and the numbers that
// are not 0, by name.
func (f fitter) marked(md *structpb.Struct, numbers ...any) *structpb.Struct {
	mark := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	if f.whole != "" {
		mark.Fields[keyWhole] = structpb.NewStringValue(f.whole)
	}
	for i := 0; i+1 < len(numbers); i += 2 {
		if n := numbers[i+1].(int); n > 0 {
			mark.Fields[numbers[i].(string)] = structpb.NewNumberValue(float64(n))
		}
	}
	return withField(md, mesh.KeyTruncated, structpb.NewStructValue(mark))
}
