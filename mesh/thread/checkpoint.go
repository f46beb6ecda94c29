package thread

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"agentmesh/mesh"
)

// checkpointFormat is how a checkpoint is encoded and what the fold makes of events. It is
// raised with every change of either: tests tell.
const checkpointFormat = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checkpoint encodes all of the state. What is folded from [Restore] of it and the events after
// State.Seq is what is folded from all events. It fails for a state that cannot be encoded,
// which is then to be folded from the log.
func (s *State) Checkpoint() ([]byte, error) {
	c := &coder{buf: []byte{checkpointFormat}}
	s.code(c)
	if c.err != nil {
		return nil, mesh.Errorf(mesh.Unknown, "thread.Checkpoint", ": %w", c.err)
	}
	return sealed(c.buf), nil
}

// sealed adds the checksum.
func sealed(b []byte) []byte { return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)) }

// Restore returns the state that a checkpoint is of. It fails for one that another version of
// the fold made, or that is damaged.
func Restore(checkpoint []byte) (*State, error) {
	const op = "thread.Restore"
	n := len(checkpoint) - crc32.Size
	switch {
	case n < 1 || binary.BigEndian.Uint32(checkpoint[n:]) != crc32.Checksum(checkpoint[:n], castagnoli):
		return nil, mesh.Errorf(mesh.Invalid, op, "the checkpoint is damaged")
	case checkpoint[0] != checkpointFormat:
		return nil, mesh.Errorf(mesh.Invalid, op, "the checkpoint has the format %d, and this is %d", checkpoint[0], checkpointFormat)
	}
	c, s := &coder{buf: checkpoint[1:n], reads: true}, new(State)
	if s.code(c); c.err == nil && len(c.buf) > 0 {
		c.fail(fmt.Errorf("%d bytes are left", len(c.buf)))
	}
	if c.err != nil {
		return nil, mesh.Errorf(mesh.Invalid, op, "the checkpoint cannot be read: %w", c.err)
	}
	return s, nil
}

func (s *State) code(c *coder) {
	number(c, &s.Seq)
	number(c, &s.First)
	number(c, &s.Epoch)
	words(c, &s.Node, &s.Title, &s.Owner)
	c.when(&s.Created)
	c.when(&s.Updated)
	list(c, &s.Participants, func(p *string) { word(c, p) })
	c.flag(&s.Readable)
	c.usage(&s.Usage)
	optional(c, &s.Handoff, c.handoff)
	c.session(&s.session)
	list(c, &s.passages, func(p **passage) { optional(c, p, c.passage) })
	dict(c, &s.notes, func(n *noted) { c.when(&n.at); number(c, &n.dropped) })
	s.codeExecutions(c)
	dict(c, &s.decisions, func(at *mesh.Seq) { number(c, at) })
	dict(c, &s.posted, func(all *[]Posted) { list(c, all, c.posted) })
	dict(c, &s.contexts, func(p **remoteContext) {
		optional(c, p, func(r *remoteContext) { word(c, &r.id); word(c, &r.holder) })
	})
	s.codePlaces(c)
	list(c, &s.media, func(m *medium) {
		number(c, &m.seq)
		word(c, &m.execution)
		optional(c, &m.artifact, func(id *string) { word(c, id) })
	})
	list(c, &s.runs, c.run)
	c.run(&s.run)
	number(c, &s.window.head)
	list(c, &s.window.times, func(ms *int64) { number(c, ms) })
	number(c, &s.seen.at)
	list(c, &s.seen.ids, func(id *string) { word(c, id) })
}

// codeExecutions codes them in order, each once: which are turns they say themselves.
func (s *State) codeExecutions(c *coder) {
	list(c, &s.order, func(x **Execution) { optional(c, x, c.execution) })
	if !c.reads || s.order == nil {
		return
	}
	s.execs = make(map[mesh.ExecutionID]*Execution, len(s.order))
	for _, x := range s.order {
		if x == nil {
			c.fail(errShort)
			return
		}
		s.execs[x.ID] = x
		if x.Kind == mesh.KindTurn {
			s.turns = append(s.turns, x)
		}
	}
}

// codePlaces codes the stretches, each once, and who has which: several share one.
func (s *State) codePlaces(c *coder) {
	var all []*stretches
	known := map[*stretches]int{}
	know := func(r *stretches) {
		if _, has := known[r]; !has && r != nil {
			known[r] = len(all)
			all = append(all, r)
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(s.talks)) {
		know(s.talks[agent])
	}
	for _, id := range slices.Sorted(maps.Keys(s.parts)) {
		know(s.parts[id])
	}
	list(c, &all, func(p **stretches) {
		optional(c, p, func(r *stretches) {
			list(c, (*[]stretch)(r), func(at *stretch) { number(c, &at.from); number(c, &at.to) })
		})
	})
	one := func(p **stretches) {
		at := known[*p]
		switch number(c, &at); {
		case !c.reads:
		case at < 0 || at >= len(all):
			c.fail(errShort)
		default:
			*p = all[at]
		}
	}
	dict(c, &s.talks, one)
	dict(c, &s.parts, one)
}

func (c *coder) handoff(h *Handoff) {
	words(c, &h.From, &h.To, &h.ToName, &h.Reason, &h.Summary, &h.By, &h.Result)
	number(c, &h.RecentMessages)
	for _, p := range []*bool{&h.PreserveState, &h.ReturnExpected, &h.Resume, &h.Known} {
		c.flag(p)
	}
	number(c, &h.HandoffStarted.Session)
	number(c, &h.Seq)
	words(c, &h.Turn, &h.Resting)
	word(c, &h.State)
	word(c, &h.Outcome)
	number(c, &h.Along)
	c.when(&h.Rests)
	number(c, &h.Ended)
	list(c, &h.Artifacts, func(a *mesh.ArtifactRef) { word(c, &a.Task); words(c, &a.ID, &a.Name) })
}

func (c *coder) session(s *session) {
	number(c, &s.step)
	number(c, &s.steps)
	word(c, &s.stage)
	word(c, &s.offering)
	c.flag(&s.offered)
	c.flag(&s.answered)
}

func (c *coder) passage(p *passage) {
	for _, at := range []*mesh.Seq{&p.seq, &p.heard, &p.ended, &p.back} {
		number(c, at)
	}
	word(c, &p.to)
	word(c, &p.outcome)
	word(c, &p.turn)
	list(c, &p.legs, func(l *arrival) { words(c, &l.turn, &l.id); word(c, &l.agent); number(c, &l.from) })
}

func (c *coder) posted(p *Posted) {
	words(c, &p.User, &p.Digest)
	word(c, &p.Task)
	number(c, &p.Seq)
}

func (c *coder) run(r *run) {
	number(c, &r.from)
	number(c, &r.to)
	word(c, &r.turn)
	c.flag(&r.below)
	list(c, &r.ends, func(at *mesh.Seq) { number(c, at) })
	number(c, &r.marked)
}

func (c *coder) usage(u *mesh.Usage) {
	for _, p := range []*int64{&u.Prompt, &u.Completion, &u.Cached, &u.CacheWrite, &u.Unpriced} {
		number(c, p)
	}
	c.float(&u.Cost)
}

func (c *coder) budget(b *mesh.Budget) {
	for _, p := range []*int64{&b.Calls, &b.Tokens, &b.Cost, &b.Agents} {
		number(c, p)
	}
}
