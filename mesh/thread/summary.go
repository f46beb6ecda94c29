package thread

// Summary returns the state without its executions, messages and calls: what lists tell of a
// thread, which is little however long it is. It has who may see it, its title and times, what
// it used, who is active, the last handoff and its session, and nothing else.
func (s *State) Summary() *State {
	sum := &State{Seq: s.Seq, First: s.First, Created: s.Created, Updated: s.Updated, Title: s.Title, Access: s.Access, Usage: s.Usage, Handoff: s.Handoff, session: s.session}
	if h := s.Handoff; h != nil {
		sum.notes = map[string]noted{h.To: s.notes[h.To]}
	}
	if t := s.NextTurn(); t != nil { // with one at work no session is over by time
		sum.turns = []*Execution{{State: t.State}}
	}
	return sum
}
