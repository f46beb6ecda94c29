package agent

import (
	"strings"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A task is the record of one execution while this process knows it: an
// append-only list of updates, and what they add up to. Adding an update costs
// the same however many there are.
type task struct {
	id      string
	context string
	tenant  mesh.TenantID

	mu      sync.Mutex
	status  *a2apb.TaskStatus
	history []*a2apb.Message
	// updates are shared and read-only; the Seq of updates[i] is i+1, and those
	// that move the task have it in our extension's data, which callers may
	// have to be spared.
	updates   []*a2apb.StreamResponse
	artifacts []*artifact
	byID      map[string]*artifact
	sent      int64           // artifact updates among them
	messages  map[string]bool // ids of the user's messages
	size      int             // bytes of output
	touched   time.Time
	followers int
	// changed is closed with the next update; nil while nobody waits.
	changed chan struct{}
	// cancel ends the run; nil while none is under way.
	cancel func(cause error)
}

// An artifact is put together from its pieces, which it shares with the
// updates: a text that grows, or a whole artifact.
type artifact struct {
	id     string
	pieces []string
	whole  *a2apb.Artifact
}

func newTask(g *mesh.Grant) *task {
	return &task{
		id: string(g.Execution), context: g.Thread, tenant: g.Tenant,
		status:   status(a2apb.TaskState_TASK_STATE_WORKING, nil),
		messages: map[string]bool{}, byID: map[string]*artifact{},
		touched: time.Now(),
	}
}

func status(state mesh.TaskState, m *a2apb.Message) *a2apb.TaskStatus {
	now := time.Now().UTC().Truncate(time.Millisecond)
	return &a2apb.TaskStatus{State: state, Message: m, Timestamp: timestamppb.New(now)}
}

// begin takes the user's message and the means to end the run that it starts.
// If the task waited for it, its followers learn that it goes on. The caller
// holds mu.
func (t *task) begin(m *a2apb.Message, cancel func(cause error)) {
	t.messages[m.GetMessageId()] = true
	if mesh.Interrupted(t.status.State) {
		if asked := t.status.Message; asked != nil {
			t.history = append(t.history, asked)
		}
		t.move(a2apb.TaskState_TASK_STATE_WORKING, nil, nil)
	}
	t.history = append(t.history, m)
	t.cancel = cancel
}

// move changes the state; nothing follows a terminal one. ext is our
// extension's data, or nil. The caller holds mu.
func (t *task) move(state mesh.TaskState, m *a2apb.Message, ext map[string]*structpb.Value) {
	if mesh.Terminal(t.status.State) {
		return
	}
	if m != nil {
		m.TaskId, m.ContextId = t.id, t.context
	}
	t.status = status(state, m)
	md := a2a.SetSeq(nil, t.next())
	for k, v := range ext {
		a2a.Extension(md).Fields[k] = v
	}
	t.add(a2a.StatusResponse(&a2apb.TaskStatusUpdateEvent{
		TaskId: t.id, ContextId: t.context, Status: t.status, Metadata: md,
	}))
}

// piece adds text to the artifact with the id, or begins it. The caller holds
// mu.
func (t *task) piece(id, text string, last bool) {
	a, known := t.artifact(id)
	a.pieces = append(a.pieces, text)
	t.output(&a2apb.Artifact{ArtifactId: id, Parts: []*a2apb.Part{a2a.TextPart(text)}}, known, last)
}

// put adds a whole artifact, or replaces it. The caller holds mu.
func (t *task) put(whole *a2apb.Artifact) {
	a, _ := t.artifact(whole.ArtifactId)
	a.whole = whole
	t.output(whole, false, true)
}

func (t *task) output(a *a2apb.Artifact, more, last bool) {
	if mesh.Terminal(t.status.State) {
		return
	}
	t.sent++
	t.add(a2a.ArtifactResponse(&a2apb.TaskArtifactUpdateEvent{
		TaskId: t.id, ContextId: t.context, Artifact: a, Append: more, LastChunk: last,
	}))
}

// artifact returns the artifact with the id, and whether it was there before.
func (t *task) artifact(id string) (*artifact, bool) {
	if a, ok := t.byID[id]; ok {
		return a, true
	}
	a := &artifact{id: id}
	t.artifacts = append(t.artifacts, a)
	t.byID[id] = a
	return a, false
}

func (t *task) next() mesh.Seq { return mesh.Seq(len(t.updates) + 1) }

func (t *task) add(r *a2apb.StreamResponse) {
	t.updates = append(t.updates, r)
	t.touched = time.Now()
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// snapshot returns the task as it stands and the cursor after it. The caller
// holds mu; the task is the receiver's, what it points to is shared.
func (t *task) snapshot() (*a2apb.Task, mesh.Seq) {
	out := &a2apb.Task{
		Id: t.id, ContextId: t.context, Status: t.status,
		History: t.history[:len(t.history):len(t.history)],
	}
	for _, a := range t.artifacts {
		whole := a.whole
		if whole == nil {
			whole = &a2apb.Artifact{ArtifactId: a.id, Parts: []*a2apb.Part{a2a.TextPart(strings.Join(a.pieces, ""))}}
		}
		out.Artifacts = append(out.Artifacts, whole)
	}
	return out, mesh.Seq(len(t.updates))
}

// since returns the updates after the cursor; if there are none, it returns
// what is closed with the next one, or nil when none will come.
func (t *task) since(after mesh.Seq) ([]*a2apb.StreamResponse, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.updates); int(after) < n {
		return t.updates[max(after, 0):n:n], nil
	}
	if mesh.Terminal(t.status.State) {
		return nil, nil
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return nil, t.changed
}

// join counts followers, which keep the task from being forgotten.
func (t *task) join(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers += n
}

// idle reports since when nothing happens to the task and nobody looks at it;
// false if something may.
func (t *task) idle() (since time.Time, size int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.touched, t.size, t.cancel == nil && t.followers == 0
}
