package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// How text is put together: the first piece goes out at once, then pieces of
// chunkSize bytes, or what came within chunkTime.
const (
	chunkTime = 50 * time.Millisecond
	chunkSize = 2 << 10
)

// Bounds of what an agent may say, in bytes.
const (
	maxPiece    = 256 << 10            // one piece of text, one status message
	maxArtifact = mesh.MaxEvent - 4096 // one whole artifact without its files; an event has more than the artifact
	maxOutput   = 16 << 20             // one task
)

// ResponseArtifact is the id of the artifact that the text of a task's first
// run becomes. The text of later runs has ids that begin with it.
const ResponseArtifact = "response"

// A writer turns the outputs of one run into updates of its task, until it is
// closed. Its fields are guarded by the task's mu.
type writer struct {
	task   *task
	id     string // of the artifact that the text becomes
	open   []byte // text that was not sent yet
	sent   time.Time
	began  bool // the first piece was sent
	made   int  // artifacts that were named here
	closed bool
	timer  *time.Timer
	armed  bool
	timers sync.WaitGroup // what the timer runs
}

// newWriter returns the writer of a run that the message starts. Runs after
// the first get an artifact of their own: the first one's is complete.
func newWriter(t *task, m *a2apb.Message, resumed bool) *writer {
	w := &writer{task: t, id: ResponseArtifact}
	if resumed {
		w.id += "-" + m.GetMessageId()
	}
	return w
}

// take adds an output, or returns the question that it asks.
func (w *writer) take(out Output) (asked Ask, err error) {
	ask, ok := out.(Ask)
	switch {
	case !ok:
		return Ask{}, w.put(out)
	case ask.Text == "":
		return Ask{}, illegal("a question without words")
	case len(ask.Text) > maxPiece:
		return Ask{}, illegal(fmt.Sprintf("a question of %d bytes; the limit is %d", len(ask.Text), maxPiece))
	}
	return ask, nil
}

// put adds an output. The error says why it cannot go to a client.
func (w *writer) put(out Output) error {
	t := w.task
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.closed {
		return nil
	}
	switch out := out.(type) {
	case Text:
		return w.text(out.Text)
	case Artifact:
		return w.artifact(out.Artifact)
	case Data:
		return w.data(out)
	case Progress:
		return w.progress(out)
	}
	return nil
}

func (w *writer) text(s string) error {
	if s == "" {
		return nil
	}
	if err := w.count(len(s)); err != nil {
		return err
	}
	w.open = append(w.open, s...)
	late := chunkTime - time.Since(w.sent)
	switch {
	case !w.began || len(w.open) >= chunkSize || late <= 0:
		w.flush(false)
	case !w.armed:
		w.arm(late)
	}
	return nil
}

// arm has the open text sent after d. close waits for what the timer runs.
func (w *writer) arm(d time.Duration) {
	w.armed = true
	w.timers.Add(1)
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.tick)
	} else {
		w.timer.Reset(d)
	}
}

func (w *writer) tick() {
	defer w.timers.Done()
	w.task.mu.Lock()
	defer w.task.mu.Unlock()
	w.armed = false
	if !w.closed {
		w.flush(false)
	}
}

// disarm stops the timer if it has not fired.
func (w *writer) disarm() {
	if w.armed && w.timer.Stop() {
		w.armed = false
		w.timers.Done()
	}
}

// flush sends the open text, but for the beginning of a character whose rest
// is to come. last says that no text follows.
func (w *writer) flush(last bool) {
	w.disarm()
	end := len(w.open)
	if !last {
		end -= partial(w.open)
	}
	text := strings.ToValidUTF8(string(w.open[:end]), "\uFFFD")
	w.open = append(w.open[:0], w.open[end:]...)
	for text != "" {
		n := len(text)
		if n > maxPiece {
			for n = maxPiece; !utf8.RuneStart(text[n]); n-- {
			}
		}
		w.task.piece(w.id, text[:n], last && n == len(text))
		w.began = true
		text = text[n:]
	}
	w.sent = time.Now()
}

// partial returns how many bytes at the end of b begin a character without
// completing it.
func partial(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

func (w *writer) artifact(a *a2apb.Artifact) error {
	switch {
	case a == nil || len(a.GetParts()) == 0:
		return illegal("an artifact without parts")
	case a.ArtifactId == "":
		w.made++ // the same when the run is repeated: what was shown of it is then replaced
		a.ArtifactId = fmt.Sprintf("artifact%s-%d", strings.TrimPrefix(w.id, ResponseArtifact), w.made)
	case len(a.ArtifactId) > a2a.MaxID || a.ArtifactId == ResponseArtifact || strings.HasPrefix(a.ArtifactId, ResponseArtifact+"-"):
		return illegal("an artifact whose id is too long or reserved for its text")
	}
	for _, p := range a.GetParts() {
		if p.GetContent() == nil {
			return illegal("an artifact with an empty part")
		}
	}
	// Text that is not UTF-8 has no wire form.
	data, err := proto.Marshal(a)
	if err != nil {
		return illegal("an artifact that cannot be sent: %w", err)
	}
	if n := mesh.LoggedSize(a.GetParts(), len(data)); n > maxArtifact || len(data) > mesh.MaxMessage {
		return illegal(fmt.Sprintf("an artifact of %d bytes, %d without its files; the limits are %d and %d", len(data), n, mesh.MaxMessage, maxArtifact))
	}
	if err := w.count(len(data)); err != nil {
		return err
	}
	w.flush(false)
	w.task.put(a)
	return nil
}

func (w *writer) data(d Data) error {
	data, err := json.Marshal(d.Value)
	if err != nil {
		return illegal("data that has no JSON form: %w", err)
	}
	v := new(structpb.Value)
	if err := protojson.Unmarshal(data, v); err != nil {
		return illegal("data that has no JSON form: %w", err)
	}
	return w.artifact(&a2apb.Artifact{Name: strings.ToValidUTF8(d.Name, "\uFFFD"), Parts: []*a2apb.Part{a2a.DataPart(v)}})
}

func (w *writer) progress(p Progress) error {
	m, err := w.say(p.Text)
	if err != nil {
		return err
	}
	ext := map[string]*structpb.Value{}
	if p.Step > 0 {
		ext[a2a.KeyStep] = structpb.NewNumberValue(float64(p.Step))
	}
	if p.Steps > 0 {
		ext[a2a.KeySteps] = structpb.NewNumberValue(float64(p.Steps))
	}
	if p.State != "" {
		ext[a2a.KeyState] = structpb.NewStringValue(strings.ToValidUTF8(p.State, "\uFFFD"))
	}
	if m == nil && len(ext) == 0 {
		return nil
	}
	w.flush(false)
	w.task.move(a2apb.TaskState_TASK_STATE_WORKING, m, ext)
	return nil
}

// say returns a message of the agent, or nil for no text.
func (w *writer) say(text string) (*a2apb.Message, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxPiece {
		return nil, illegal(fmt.Sprintf("a status of %d bytes; the limit is %d", len(text), maxPiece))
	}
	if err := w.count(len(text)); err != nil {
		return nil, err
	}
	return a2a.NewMessage(a2apb.Role_ROLE_AGENT, strings.ToValidUTF8(text, "\uFFFD")), nil
}

func (w *writer) count(n int) error {
	w.task.size += n
	if w.task.size > maxOutput {
		return illegal(fmt.Sprintf("more than the %d MiB that one task may have", maxOutput>>20))
	}
	return nil
}

// handOver sends what is open and returns how many artifact updates the task
// has had, for the node to wait for before the stream changes hands.
func (w *writer) handOver() int64 {
	w.task.mu.Lock()
	defer w.task.mu.Unlock()
	if !w.closed {
		w.flush(false)
	}
	return w.task.sent
}

// end sends what is open, moves the task and closes the writer; what comes
// later is lost. It is called once.
func (w *writer) end(o outcome) {
	t := w.task
	t.mu.Lock()
	w.flush(true)
	w.closed = true
	var m *a2apb.Message
	if o.text != "" {
		m = a2a.NewMessage(a2apb.Role_ROLE_AGENT, strings.ToValidUTF8(o.text, "\uFFFD"))
	}
	ext := map[string]*structpb.Value{}
	if o.reason != "" {
		ext[a2a.KeyReason] = structpb.NewStringValue(o.reason)
	}
	if r := o.asked.Report; r != nil {
		ext[keyReport] = r.value()
	}
	if q := o.asked.Questions; len(q) > 0 {
		ext[mesh.KeyAsks] = mesh.AsksValue(q)
	}
	if o.asked.Help != nil {
		name, v := o.asked.Help.Value()
		ext[name] = v
	}
	t.cancel = nil
	t.move(o.state, m, ext)
	t.mu.Unlock()
	w.timers.Wait()
}

// leave closes the writer of a run that was cut because its process stops: the task is
// not over.
func (w *writer) leave() {
	w.task.mu.Lock()
	w.disarm()
	w.closed, w.task.cancel = true, nil
	w.task.mu.Unlock()
	w.timers.Wait()
}

// illegal is the error of an agent that yields what cannot go to a client.
func illegal(what string, args ...any) *mesh.Error {
	e := mesh.Errorf(mesh.Unknown, "agent.Run", "The agent gave "+what, args...)
	e.Reason = mesh.ReasonIllegal
	return e
}
