package notify

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"strconv"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

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
// concurrent use. Use newMemory.
type memory struct {
	window time.Duration
	at     *simplelru.LRU[digest, time.Time]
}

func newMemory(window time.Duration) memory {
	at, err := simplelru.NewLRU[digest, time.Time](maxTold, nil)
	if err != nil {
		panic(err) // maxTold is positive
	}
	return memory{window, at}
}

// add reports whether it has not been told within the window, and notes it.
func (m memory) add(what digest, now time.Time) bool {
	if at, known := m.at.Peek(what); known && now.Sub(at) < m.window {
		return false
	}
	m.at.Add(what, now)
	return true
}

// forget lets it be told again.
func (m memory) forget(what digest) { m.at.Remove(what) }
