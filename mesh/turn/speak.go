package turn

import (
	"context"
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// maxSpoken is how much of an answer is spoken, in bytes: what OpenAI takes.
const maxSpoken = 4096

// spoken is the event by which the leg's answer is heard, or nil: where nobody wants it, there are no
// words, or nothing speaks at the moment. The answer in text is in the log, or among what is unsaved.
func (d *driver) spoken(ctx context.Context, l *leg, out outcome) *mesh.Event {
	done := out.last.State == a2apb.TaskState_TASK_STATE_COMPLETED || out.last.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
	if d.Speak == nil || out.kind != legOver || !done || !mesh.WantsSpeech(l.message) {
		return nil
	}
	words, err := d.words(ctx, l, out)
	if err == nil && words == "" {
		return nil
	}
	var part *a2apb.Part
	if err == nil {
		part, err = d.Speak(ctx, words)
	}
	if err != nil {
		d.Logger.WarnContext(ctx, "answer not spoken", "thread", d.key, "err", err)
		return nil
	}
	mesh.MarkHeard(part, words) // models and agents have it as text
	a := namespaced(&a2apb.Artifact{ArtifactId: mesh.SpeechArtifact(l.message.GetMessageId()), Name: "speech", Parts: []*a2apb.Part{part}}, l.ordinal)
	return d.event(l.exec.ID, "node", mesh.ArtifactAppended{Artifact: a, LastChunk: true})
}

// words is what the agent answered in the leg, as far as it is spoken.
func (d *driver) words(ctx context.Context, l *leg, out outcome) (string, error) {
	var order []string
	texts := map[string][]byte{} // as far as they may be spoken: an answer may have many pieces
	take := func(e *mesh.Event) {
		b, ok := e.Body.(mesh.ArtifactAppended)
		if !ok || e.Execution != l.exec.ID {
			return
		}
		id := b.Artifact.GetArtifactId()
		if !b.Append {
			delete(texts, id)
		}
		for _, p := range b.Artifact.GetParts() {
			if len(texts[id]) < maxSpoken {
				texts[id] = append(texts[id], p.GetText()...)
			}
		}
		if len(texts[id]) > 0 && !slices.Contains(order, id) {
			order = append(order, id)
		}
	}
	for after := l.from; ; {
		page, err := d.Log.Read(ctx, d.key, after, 256)
		if err != nil {
			return "", mesh.Wrap("turn.words", err)
		}
		for _, e := range page {
			take(e)
			after = e.Seq
		}
		if len(page) == 0 {
			break
		}
	}
	for _, e := range out.unsaved {
		take(e)
	}
	said := make([]string, 0, len(order)+1)
	for _, id := range order {
		said = append(said, string(texts[id]))
	}
	said = append(said, mesh.TextOf(out.last.Message))
	return mesh.Clip(strings.TrimSpace(strings.Join(said, "\n\n")), maxSpoken-len("…")), nil
}
