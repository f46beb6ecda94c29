package offline

import (
	"slices"
	"sync"
)

// A memo remembers the skills that texts describe: the requests of a
// conversation tell the same again and again. It changes nothing but the time
// that a plan takes. It is safe for concurrent use, and a nil one remembers
// nothing.
type memo struct {
	mu    sync.Mutex
	known map[source][]skill
	size  int // of the texts, in bytes
}

// maxMemo bounds the texts that are remembered, in bytes.
const maxMemo = 4 << 20

// A source is a text, and the way in which skills are described in it.
type source struct {
	form form
	text string
	more string
}

type form uint8

const (
	usages     form = iota // of a prompt, for commands
	ofUseSkill             // a description and a schema
	ofTool                 // name and description, and a schema
	foundSkills
	foundHints
)

// skills returns the skills of the source, learned, as read finds them there.
// They are shared: they are not to be changed.
func (m *memo) skills(from source, read func() []skill) []skill {
	if m != nil {
		m.mu.Lock()
		out, ok := m.known[from]
		m.mu.Unlock()
		if ok {
			return out
		}
	}
	out := slices.Clip(read())
	for i := range out {
		out[i] = out[i].learned()
	}
	size := len(from.text) + len(from.more)
	if m == nil || size > maxMemo/4 {
		return out
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || m.size+size > maxMemo {
		m.known, m.size = map[source][]skill{}, 0 // what is in use comes back with the next request
	}
	m.known[from] = out
	m.size += size
	return out
}
