package api

import (
	"fmt"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog/eventpb"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"google.golang.org/protobuf/proto"
)

// What agents may add to a log of one execution: its own events, and the output
// that those who dispatched it log of it. No honest execution comes near: it is
// three quarters of an hour of text in the smallest pieces that are sent. What
// has been added before a restart of the node is not counted.
const (
	maxLogEvents = 100_000
	maxLogBytes  = 64 << 20
	// A tenth of that is kept for the ends of what was begun.
	reserve = 10
	// maxVolumes is of how many executions it is remembered at a time.
	maxVolumes = 10_000
)

// A volume is an amount of events.
type volume struct{ events, bytes int }

func (v volume) plus(o volume) volume { return volume{v.events + o.events, v.bytes + o.bytes} }

// volumes has how much was added of each execution. It remembers a bounded
// number of them and forgets the one that has been quiet the longest. It is safe
// for concurrent use. Use newVolumes.
type volumes struct {
	most volume

	mu sync.Mutex
	of *simplelru.LRU[mesh.ExecutionID, volume]
}

// newVolumes returns volumes that remember known executions, at least 1.
func newVolumes(most volume, known int) *volumes {
	of, err := simplelru.NewLRU[mesh.ExecutionID, volume](known, nil)
	if err != nil {
		panic(err)
	}
	return &volumes{most: most, of: of}
}

// get returns what was added of the execution.
func (v *volumes) get(id mesh.ExecutionID) volume {
	v.mu.Lock()
	defer v.mu.Unlock()
	sum, _ := v.of.Peek(id)
	return sum
}

// add notes what was added.
func (v *volumes) add(more map[mesh.ExecutionID]volume) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, m := range more {
		sum, _ := v.of.Peek(id)
		v.of.Add(id, sum.plus(m))
	}
}

// fits checks that the event's execution has room for it, and counts it.
func (w *writer) fits(i int, e *mesh.Event) error {
	sum := w.volumes.get(e.Execution).plus(w.written[e.Execution])
	one := volume{1, proto.Size(eventpb.EventToProto(e))}
	most := w.volumes.most
	if ends(e) {
		most = most.plus(volume{most.events / reserve, most.bytes / reserve})
	}
	var name string
	switch total := sum.plus(one); {
	case total.events > most.events:
		name = fmt.Sprintf("log.events: %d events", w.volumes.most.events)
	case total.bytes > most.bytes:
		name = fmt.Sprintf("log.bytes: %d bytes", w.volumes.most.bytes)
	default:
		w.written[e.Execution], w.sizes = w.written[e.Execution].plus(one), append(w.sizes, one.bytes)
		return nil
	}
	return &mesh.Error{Code: mesh.Exhausted, Op: w.op, Field: fmt.Sprintf("events[%d]", i),
		Detail: "The log has all that it takes of one execution (" + name + "); only the ends of what was begun can be added; end it, and begin another"}
}

// added is what the log has taken of the events: those that it had already, which
// were sent again, do not count twice.
func (w *writer) added(events []*mesh.Event) map[mesh.ExecutionID]volume {
	out := map[mesh.ExecutionID]volume{}
	for i, size := range w.sizes {
		if e := events[i]; e.Pos != 0 {
			out[e.Execution] = out[e.Execution].plus(volume{1, size})
		}
	}
	return out
}

// ends reports whether the event is the end of something that was begun.
func ends(e *mesh.Event) bool {
	switch b := e.Body.(type) {
	case mesh.SkillReturned, mesh.DispatchSettled:
		return true
	case mesh.TaskMoved:
		return mesh.Terminal(b.State)
	}
	return false
}
