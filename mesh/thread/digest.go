package thread

import (
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// maxDigested bounds the text that is joined in one event of a digest, in bytes.
const maxDigested = 64 << 10

// A Digest makes of the events of a thread a few of which a [Snapshot] of one turn is made as it
// is of all of them: what the turn's user is not shown is left out, and the text of pieces that
// follow each other is in one. Use NewDigest.
type Digest struct {
	view    *View
	events  []*mesh.Event
	bytes   int
	joined  strings.Builder // the text of the last event, if more can be joined to it
	working int             // the index of a status that the next one of its kind replaces, or -1
}

// NewDigest returns the digest of no event. The execution has the stream of the turn, and is of
// the agent; both are "" where the turn begins.
func NewDigest(turn, has mesh.ExecutionID, agent string) *Digest {
	return &Digest{view: &View{stream: stream{turn: turn, has: has, agent: agent}}, working: -1}
}

// Stream is which execution has the stream of the turn after the last event, and its agent.
func (d *Digest) Stream() (has mesh.ExecutionID, agent string) { return d.view.has, d.view.agent }

// Bytes is about how many bytes the events have.
func (d *Digest) Bytes() int { return d.bytes }

// Apply adds the next event of the thread.
func (d *Digest) Apply(e *mesh.Event) {
	had := d.view.stream
	r := d.view.Apply(e)
	posted, opened := false, false
	if e.Execution == d.view.turn {
		_, posted = e.Body.(mesh.MessagePosted)
		_, opened = e.Body.(mesh.TaskOpened)
	}
	switch {
	case r.GetArtifactUpdate() != nil && d.join(e):
		return
	case r == nil && !posted && !opened && had == d.view.stream:
		return
	}
	d.settle()
	if _, moved := e.Body.(mesh.TaskMoved); moved && r.GetStatusUpdate().GetStatus().GetState() == a2apb.TaskState_TASK_STATE_WORKING {
		if d.working >= 0 { // which nobody sees any more
			d.bytes -= eventSize(d.events[d.working])
			d.events = append(d.events[:d.working], d.events[d.working+1:]...)
		}
		d.working = len(d.events)
	} else if posted || r.GetStatusUpdate() != nil {
		d.working = -1
	}
	d.events = append(d.events, e)
	d.bytes += eventSize(e)
}

func eventSize(e *mesh.Event) int {
	const envelope = 128
	size, _ := mesh.BodySize(e.Body)
	return size + envelope
}

// join joins the piece to the last event, if it continues that.
func (d *Digest) join(e *mesh.Event) bool {
	b := e.Body.(mesh.ArtifactAppended)
	if len(d.events) == 0 || !b.Append || !onlyText(b.Artifact) || d.joined.Len() > maxDigested {
		return false
	}
	last := d.events[len(d.events)-1]
	to, ok := last.Body.(mesh.ArtifactAppended)
	if !ok || last.Execution != e.Execution || to.Artifact.GetArtifactId() != b.Artifact.GetArtifactId() ||
		len(to.Artifact.GetParts()) != 1 || !plainText(to.Artifact.GetParts()[0]) {
		return false
	}
	if d.joined.Len() == 0 { // the event is the log's
		d.joined.WriteString(to.Artifact.GetParts()[0].GetText())
		c := *last
		last, d.events[len(d.events)-1] = &c, &c
	}
	words := b.Artifact.GetParts()[0].GetText()
	d.joined.WriteString(words)
	d.bytes += len(words)
	last.Seq, last.Pos, last.Size = e.Seq, e.Pos, 0
	return true
}

// onlyText reports whether the piece is text and says nothing of its artifact.
func onlyText(a *a2apb.Artifact) bool {
	return len(a.GetParts()) == 1 && plainText(a.GetParts()[0]) && a.Name == "" && a.Description == "" && a.Metadata == nil && len(a.Extensions) == 0
}

// settle has the last event have all text that was joined to it.
func (d *Digest) settle() {
	if d.joined.Len() == 0 {
		return
	}
	last := d.events[len(d.events)-1]
	b := last.Body.(mesh.ArtifactAppended)
	text := &a2apb.Part{Content: &a2apb.Part_Text{Text: d.joined.String()}}
	last.Body = mesh.ArtifactAppended{Artifact: mesh.ArtifactWith(b.Artifact, []*a2apb.Part{text}), Append: b.Append}
	d.joined.Reset()
}

// Take returns the events since the last Take, which are the caller's. Seqs are in order, and
// the last event need not be among them.
func (d *Digest) Take() []*mesh.Event {
	d.settle()
	events := d.events
	d.events, d.bytes, d.working = nil, 0, -1
	return events
}

// A Long is a turn in which much happened: from which event on, and up to which.
type Long struct {
	Turn     mesh.ExecutionID
	From, To mesh.Seq
}

// Long are the turns that have as many events or more, and one among the last ones, twice as
// many.
func (s *State) Long(events mesh.Seq) (all []Long) {
	for i := len(s.turns) - 1; i >= 0; i-- {
		t := s.turns[i]
		to := t.Ended
		if to == 0 {
			to = s.Seq
		}
		if to-t.Opened >= events && to > s.Seq-2*events {
			all = append(all, Long{t.ID, t.Opened, to})
		}
	}
	return all
}
