package tasks

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/rows"
)

// What begins the keys of rows of each sort. Names in keys say how long they are, so that none
// is the beginning of another.
const (
	rowThread = 'c' // tenant, thread: a thread.Listed
	rowPlace  = 'o' // tenant, who may read it, agent, state, place: the thread, if the task's id has it not
	rowTally  = 'u' // tenant, user: a tally
	rowSum    = 'd' // tenant, user, day, agent, model: a Sum
	// tenant, user, day, thread: a Sum.
	rowThreadSum = 'e'
)

// What follows the key of a thread in the keys of its other rows, which therefore are in one page
// with it, mostly: names of threads are random, and each page costs.
const (
	ofThreadSummary = "s" // what package cache made
	ofThreadTask    = "t" // and the task: an entry
	ofThreadSum     = "u" // and day and user: there is such a row of rowThreadSum
)

// Who may read tasks: those with a role for it, everybody, and a user.
const (
	byRole   = '*'
	byAll    = 'r'
	byMember = 'm'
)

// form is that of the rows.
const form = 3

func name(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }

func cutName(s string) (name, rest string) {
	n, used := binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
	if used <= 0 || n > uint64(len(s)-used) {
		return "", ""
	}
	return s[used : used+int(n)], s[used+int(n):]
}

// rowKey is the key of a row, or what begins those, by names.
func rowKey(sort byte, tenant mesh.TenantID, names ...string) string {
	var room [192]byte // on the stack
	return string(appendKey(room[:0], sort, tenant, names...))
}

func appendKey(b []byte, sort byte, tenant mesh.TenantID, names ...string) []byte {
	b = name(append(b, sort), string(tenant))
	for _, n := range names {
		b = name(b, n)
	}
	return b
}

// threadKey is the key of a thread's row, and begins those of all its rows.
func threadKey(key mesh.ThreadKey) string { return rowKey(rowThread, key.Tenant, key.ID) }

func taskKey(key mesh.ThreadKey, id mesh.ExecutionID) string {
	var room [192]byte // on the stack
	return string(append(append(appendKey(room[:0], rowThread, key.Tenant, key.ID), ofThreadTask...), id...))
}

func summaryKey(key mesh.ThreadKey) string { return threadKey(key) + ofThreadSummary }

// threadOf is the thread of which the row with the key is.
func threadOf(key string) mesh.ThreadKey {
	tenant, rest := cutName(key[1:])
	id, _ := cutName(rest)
	return mesh.ThreadKey{Tenant: mesh.TenantID(tenant), ID: id}
}

// An entry is what is known of a task that may be over.
type entry struct {
	place
	agent string // that it began with
	state mesh.TaskState
	ended mesh.Seq // of the terminal event, or 0
}

func (e *entry) encode() string {
	b := binary.AppendVarint(nil, e.at)
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(e.state)), uint64(e.ended))
	return string(append(b, e.agent...))
}

func decodeEntry(id mesh.ExecutionID, s string) entry {
	b := []byte(s)
	at, n := binary.Varint(b)
	state, k := binary.Uvarint(b[max(n, 0):])
	n += max(k, 0)
	ended, k := binary.Uvarint(b[max(n, 0):])
	n += max(k, 0)
	return entry{place: place{at, id}, agent: string(b[max(n, 0):]), state: mesh.TaskState(state), ended: mesh.Seq(ended)}
}

// places yields the keys of the rows that place the task in lists of those who have access.
func (e *entry) places(tenant mesh.TenantID, a *thread.Access) (all []string) {
	who := []string{string(byRole)}
	if a.Readable {
		who = append(who, string(byAll))
	} else {
		for _, u := range append([]string{a.Owner}, a.Participants...) {
			if w := byMemberOf(u); !slices.Contains(who, w) {
				who = append(who, w)
			}
		}
	}
	agents := []string{"", e.agent}
	if e.agent == "" {
		agents = agents[:1]
	}
	var room [256]byte
	all = make([]string, 0, 4*len(who))
	for _, w := range who {
		for _, agent := range agents {
			b := append(appendKey(room[:0], rowPlace, tenant, w, agent), 0)
			at := len(b) - 1 // of the state
			b = e.place.append(b)
			all = append(all, string(b))
			b[at] = byte(e.state)
			all = append(all, string(b))
		}
	}
	return all
}

func byMemberOf(user string) string { return string(byMember) + user }

// listKey begins the keys of a list.
func listKey(tenant mesh.TenantID, who, agent string, state mesh.TaskState) string {
	return rowKey(rowPlace, tenant, who, agent) + string([]byte{byte(state)})
}

// append appends what orders places as compare does.
func (p place) append(b []byte) []byte {
	return append(binary.BigEndian.AppendUint64(b, ^(uint64(p.at)^1<<63)), p.id...)
}

func timeKey(at int64) string {
	return string(binary.BigEndian.AppendUint64(nil, ^(uint64(at) ^ 1<<63)))
}

func placeOf(key string) place {
	b := []byte(key[:8])
	return place{int64(^binary.BigEndian.Uint64(b) ^ 1<<63), mesh.ExecutionID(key[8:])}
}

// lists are what begins the keys of the lists in which the query's tasks are; none is in two.
func (q Query) lists() (all []string) {
	who := []string{string(byRole)}
	if p := q.Caller; p.Grant == nil && !p.Can(mesh.ActAdminTenant) && !p.Can(mesh.ActReadTenant) {
		who = []string{string(byAll), byMemberOf(p.User)}
	}
	for _, w := range who {
		all = append(all, listKey(q.Tenant, w, q.Agent, q.State))
	}
	return all
}

// beyond is the key after those of the list that are not before Since.
func (q Query) beyond(list string) string {
	if q.Since.IsZero() {
		return rows.Beyond(list)
	}
	ms := q.Since.UnixMilli()
	if q.Since.After(time.UnixMilli(ms)) {
		ms++
	}
	if ms == math.MinInt64 {
		return rows.Beyond(list)
	}
	return list + timeKey(ms-1)
}
