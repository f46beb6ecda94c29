package notify

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"strconv"
	"time"

	"agentmesh/mesh/skill"
)

// A digest stands for all that makes two notifications the same. A failure is
// the same whoever meets it; a success is one of its user's own.
type digest [sha256.Size]byte

func digestOf(rule int, o Origin, skillName string, r *skill.Result) digest {
	h := sha256.New()
	parts := []string{strconv.Itoa(rule), string(o.Tenant), skillName, r.Status, r.Whole()}
	if !r.Failed() {
		parts = append(parts, o.User)
	}
	for _, part := range parts {
		_ = binary.Write(h, binary.LittleEndian, uint64(len(part))) // so that parts cannot run into each other; a hash takes all
		_, _ = io.WriteString(h, part)
	}
	return digest(h.Sum(nil))
}

// maxTold bounds a memory. What is told beyond that in one window makes it
// forget the oldest, which may then be told once more.
const maxTold = 4096

// A memory knows what was told within the window. It is not safe for
// concurrent use.
type memory struct {
	window time.Duration
	at     map[digest]time.Time
	order  []entry // oldest first
}

type entry struct {
	what digest
	at   time.Time
}

// add reports whether it has not been told within the window, and notes it.
func (m *memory) add(what digest, now time.Time) bool {
	for len(m.order) > 0 && (now.Sub(m.order[0].at) >= m.window || len(m.order) >= maxTold) {
		if oldest := m.order[0]; m.at[oldest.what].Equal(oldest.at) {
			delete(m.at, oldest.what)
		}
		m.order = m.order[1:]
	}
	if _, known := m.at[what]; known {
		return false
	}
	if m.at == nil {
		m.at = make(map[digest]time.Time)
	}
	m.at[what] = now
	m.order = append(m.order, entry{what, now})
	return true
}

// forget lets it be told again.
func (m *memory) forget(what digest) { delete(m.at, what) }
