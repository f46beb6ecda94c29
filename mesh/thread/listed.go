package thread

import (
	"encoding/binary"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// Listed is what lists of tasks must know of a thread beside its tasks.
type Listed struct {
	// Seq is of the last event of which it knows.
	Seq mesh.Seq
	Access
	// Counted is the user for whom the thread is counted, "" for nobody.
	Counted string
	Ledger  Ledger
	// Views are of the tasks that are not over, in no mode.
	Views []*View
}

// Task is the task whose view it is.
func (v *View) Task() mesh.ExecutionID { return v.turn }

// Encode returns all of it, for [DecodeListed].
func (l *Listed) Encode() []byte {
	c := &coder{buf: []byte{checkpointFormat}}
	l.code(c)
	return c.buf
}

// DecodeListed returns what was encoded. It fails for what another version of the fold made.
func DecodeListed(b []byte) (*Listed, error) {
	const op = "thread.DecodeListed"
	if len(b) == 0 || b[0] != checkpointFormat {
		return nil, mesh.Errorf(mesh.Invalid, op, "what is kept of the thread is of another version")
	}
	c, l := &coder{buf: b[1:], reads: true}, new(Listed)
	if l.code(c); c.err != nil || len(c.buf) > 0 {
		return nil, mesh.Errorf(mesh.Invalid, op, "what is kept of the thread cannot be read: %w", c.err)
	}
	return l, nil
}

func (l *Listed) code(c *coder) {
	number(c, &l.Seq)
	words(c, &l.Owner, &l.Counted)
	list(c, &l.Participants, func(p *string) { word(c, p) })
	c.flag(&l.Readable)
	list(c, &l.Ledger.open, func(x *errand) {
		word(c, &x.id)
		words(c, &x.user, &x.agent)
		c.flag(&x.dispatched)
		number(c, &x.at)
	})
	list(c, &l.Views, func(p **View) {
		optional(c, p, func(v *View) {
			words(c, &v.turn, &v.has)
			words(c, &v.agent, &v.ctx)
		})
	})
}

// EncodeSummary returns the [State.Summary], for [DecodeSummary].
func (s *State) EncodeSummary() ([]byte, error) {
	sum, works := s.Summary(), int64(0)
	if t := sum.NextTurn(); t != nil {
		works = int64(t.State)
	}
	b, err := sum.Checkpoint()
	return append(binary.AppendVarint(nil, works), b...), err
}

// DecodeSummary returns the summary that was encoded. It fails for what another version of the
// fold made.
func DecodeSummary(b []byte) (*State, error) {
	works, n := binary.Varint(b)
	sum, err := Restore(b[max(n, 0):])
	if err == nil && works != 0 {
		sum.turns = []*Execution{{State: a2apb.TaskState(works)}}
	}
	return sum, err
}
