package thread

import (
	"cmp"
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

const (
	// minRun is how many events a run has at least: what is shorter is read with the rest.
	minRun = 128
	// markEvery and marks bound what a brief reader has of a run: of its end as many bytes of
	// text as marks-1 times markEvery, at least.
	markEvery = 4 << 10
	marks     = 3
)

// A run is a stretch of a thread that has nothing but text which agents put out in one turn, in
// very many events. Who wants to know what happened there need not read them.
type run struct {
	from, to mesh.Seq
	turn     mesh.ExecutionID
	below    bool // some of it is not of who has the user's stream
	// ends are where its last markEvery bytes of text begin, and those before, oldest first;
	// marked is how many bytes came since the last one.
	ends   []mesh.Seq
	marked int
}

// A Span is the events of a thread from one Seq to another.
type Span struct{ From, To mesh.Seq }

// gather applies the event to the run that goes on.
func (s *State) gather(e *mesh.Event) {
	size, turn := 0, (*Execution)(nil)
	if b, ok := e.Body.(mesh.ArtifactAppended); ok {
		if size = textSize(b.Artifact); size >= 0 {
			turn = s.TurnOf(e.Execution)
		}
	}
	if r := &s.run; turn == nil || r.turn != turn.ID || r.to != e.Seq-1 {
		if r.long() {
			r.ends = slices.Clone(r.ends[:1])
			s.runs = append(s.runs, *r)
		}
		*r = run{}
	}
	if turn == nil {
		return
	}
	r := &s.run
	if r.turn == "" {
		*r = run{from: e.Seq, turn: turn.ID, ends: []mesh.Seq{e.Seq}}
	}
	r.to, r.below = e.Seq, r.below || s.execs[e.Execution].Parent != turn.ID
	if r.marked += size; r.marked >= markEvery {
		r.marked = 0
		if len(r.ends) == marks {
			r.ends = slices.Delete(r.ends, 0, 1)
		}
		r.ends = append(r.ends, e.Seq+1)
	}
}

// textSize is how many bytes of text the piece has, or -1 if it has something else.
func textSize(a *a2apb.Artifact) (n int) {
	for _, p := range a.GetParts() {
		if _, isText := p.GetContent().(*a2apb.Part_Text); !isText {
			return -1
		}
		n += len(p.GetText())
	}
	return n
}

func (r *run) long() bool { return r.turn != "" && r.to-r.from >= minRun-1 }

// BesideOutput are the events with Seqs above after and up to last that are not in the midst
// of long output, in order: all that say anything but what agents put out.
func (s *State) BesideOutput(after, last mesh.Seq) []Span {
	return s.beside(after, last, func(r *run) mesh.Seq { return r.to })
}

// Brief are the events with Seqs above after and up to last for a reader who needs of very long
// output no more than its end, in order. Nothing is left out of what agents put out that
// were dispatched in the turn of the grant: it may be their result.
func (p Part) Brief(after, last mesh.Seq) []Span {
	return p.s.beside(after, last, func(r *run) mesh.Seq {
		if p.g != nil && r.turn == p.g.Turn && r.below {
			return 0
		}
		return r.ends[0] - 1
	})
}

// beside are the events outside of runs, and of each run what comes after the Seq until.
func (s *State) beside(after, last mesh.Seq, until func(*run) mesh.Seq) []Span {
	var out []Span
	i, _ := slices.BinarySearchFunc(s.runs, after+1, func(r run, at mesh.Seq) int { return cmp.Compare(r.to, at) })
	runs := s.runs[i:]
	if s.run.long() {
		runs = append(runs[:len(runs):len(runs)], s.run)
	}
	for i := range runs {
		r := &runs[i]
		if r.from > last {
			break
		}
		to := until(r)
		if to-r.from < minRun/2 || to <= after { // as good as nothing
			continue
		}
		if r.from > after+1 {
			out = append(out, Span{after + 1, r.from - 1})
		}
		after = to
	}
	if after < last {
		out = append(out, Span{after + 1, last})
	}
	return out
}
