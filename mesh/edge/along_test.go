package edge_test

import (
	"bytes"
	"slices"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/handoff"
)

func raw(name string, data []byte) *a2apb.Part {
	return &a2apb.Part{Content: &a2apb.Part_Raw{Raw: data}, MediaType: "image/png", Filename: name}
}

func link(url string) *a2apb.Part {
	return &a2apb.Part{Content: &a2apb.Part_Url{Url: url}, MediaType: "application/pdf"}
}

// S4-075, S4-076: a specialist gets the summary, what the user says now, and the pictures and
// files of the conversation as the parts that they were; nothing else word by word, unless
// somebody says how many messages. So does one of others, trusted or not.
func TestPicturesAndFilesGoAlongWithTheSummary(t *testing.T) {
	picture, chart, big := raw("a.png", []byte("pixels")), raw("chart.png", []byte("bars")), raw("big.png", bytes.Repeat([]byte("x"), 700<<10))
	contract := link("https://files.example/contract.pdf")
	two := []string{"main: Here is a chart.", "user: go"}
	for name, tt := range map[string]struct {
		recent int
		said   []string // word by word
		of     []as
		text   string
	}{
		"the summary alone": {0, nil, nil, "go"},
		"and two messages":  {2, two, nil, "go"},
		"and all that there are": {20, []string{"user: look", "main: seen", "user: look at this too", "main: seen", "user: draw",
			"main: Here is a chart.", "user: go"}, nil, "go"},
		"to one of others that knows nothing of us": {2, two, []as{foreign, untrusted}, "Context: wants the chart in bluego"},
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			w.agent("main", func(s *scene) {
				switch s.text() {
				case "go":
					_, err := s.w.any().handoffs.Start(s.ctx, s.call.Principal.Grant, handoff.Start{
						Target: "smith", Summary: "wants the chart in blue", RecentMessages: &tt.recent, PreserveState: true, ReturnExpected: true})
					s.must(err)
					s.move(completed, "")
				case "draw":
					s.ensure()
					s.send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
						TaskId: s.task, ContextId: s.msg.ContextId,
						Artifact: &a2apb.Artifact{ArtifactId: "c", Parts: append(text("Here is a chart."), chart)}}}})
					s.move(completed, "")
				default:
					s.answer("seen")
				}
			})
			told := make(chan *scene, 1)
			w.agent("smith", func(s *scene) { told <- s; s.answer("done") }, tt.of...)
			with := func(words string, parts ...*a2apb.Part) {
				req := say(words)
				req.Message.Parts = append(req.Message.Parts, parts...)
				w.hear(w.post(w.ctx(w.thread), req))
			}
			with("look", picture, contract)
			with("look at this too", big)
			with("draw")
			with("go", picture)
			s := <-told
			var files []*a2apb.Part
			for _, p := range s.msg.GetParts() {
				if p.GetText() == "" {
					files = append(files, p)
				}
			}
			want := []*a2apb.Part{picture, contract, big, chart}
			if !slices.EqualFunc(files, want, func(a, b *a2apb.Part) bool { return proto.Equal(a, b) }) {
				t.Errorf("%d files went along: %.300v", len(files), files)
			}
			f := s.told("handoff").GetFields()
			if n := f["earlier_parts"].GetNumberValue(); n != 3 || f["context_summary"].GetStringValue() != "wants the chart in blue" {
				t.Errorf("it is told of %v earlier parts", n)
			}
			var said []string
			for _, v := range f["recent_messages"].GetListValue().GetValues() {
				one := v.GetStructValue().GetFields()
				who := one["role"].GetStringValue()
				if who == "agent" {
					who = one["agent"].GetStringValue()
				}
				said = append(said, who+": "+one["text"].GetStringValue())
			}
			if s.text() != tt.text || !slices.Equal(said, tt.said) {
				t.Errorf("it got %q, and word by word %q", s.text(), said)
			}
			if h := w.fold().Handoff; h.Along != len(tt.said) || f["conversation_history_count"].GetNumberValue() != float64(h.Along) {
				t.Errorf("%d messages went along, and it is told of %v", h.Along, f["conversation_history_count"])
			}
		})
	}
}

// S4-058, S4-049: a picture goes along however much was said since, and so does one that an
// agent asked about.
func TestPicturesGoAlongHoweverLongAgoTheyWereShown(t *testing.T) {
	sent, asked, drawn := raw("a.png", []byte("pixels")), raw("q.png", []byte("px")), raw("new.png", []byte("px2"))
	w := build(t)
	w.agent("main", func(s *scene) {
		artifact := func(more bool, part *a2apb.Part) {
			s.send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
				TaskId: s.task, ContextId: s.msg.ContextId, Append: more, Artifact: &a2apb.Artifact{ArtifactId: "c", Parts: []*a2apb.Part{part}}}}})
		}
		switch s.text() {
		case "go":
			s.must(s.give("smith", 0))
			s.move(completed, "")
		case "long":
			s.ensure()
			artifact(false, raw("draft.png", []byte("px1")))
			artifact(false, drawn) // in place of the draft
			for range 2100 {
				artifact(true, text("x ")[0])
			}
			s.move(completed, "")
		case "which?":
			s.ensure()
			s.send(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
				TaskId: s.task, ContextId: s.msg.ContextId, Status: &a2apb.TaskStatus{State: asks, Message: &a2apb.Message{
					MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_AGENT, Parts: append(text("Is it this?"), asked)}}}}})
		default:
			s.answer("seen")
		}
	})
	told := make(chan *scene, 1)
	w.agent("smith", func(s *scene) { told <- s; s.answer("done") })
	look := say("look")
	look.Message.Parts = append(look.Message.Parts, sent)
	w.hear(w.post(w.ctx(w.thread), look))
	for _, words := range []string{"which?", "long", "go"} {
		w.hear(w.send(words))
	}
	s := <-told
	want := append(text("go"), sent, asked, drawn)
	if !slices.EqualFunc(s.msg.GetParts(), want, func(a, b *a2apb.Part) bool { return proto.Equal(a, b) }) {
		t.Errorf("%d parts went along: %.300v", len(s.msg.GetParts()), s.msg.GetParts())
	}
}

// What does not fit stays behind, the oldest first, and the handoff goes on.
func TestMorePicturesThanFitDoNotStopAHandoff(t *testing.T) {
	w := build(t)
	w.agent("main", func(s *scene) {
		if s.text() != "go" {
			s.answer("seen")
			return
		}
		s.must(s.give("smith", 0))
		s.move(completed, "")
	})
	told := make(chan *scene, 1)
	w.agent("smith", func(s *scene) { told <- s; s.answer("done") })
	for i := range 4 {
		req := say("look")
		req.Message.Parts = append(req.Message.Parts, raw("x", bytes.Repeat([]byte{byte(i)}, 400<<10)))
		w.hear(w.post(w.ctx(w.thread), req))
	}
	if h := w.hear(w.send("go")); h.state != completed {
		t.Fatalf("heard %v", h)
	}
	s := <-told
	if n := len(s.msg.GetParts()); n != 3 || s.msg.Parts[1].GetRaw()[0] != 2 || s.msg.Parts[2].GetRaw()[0] != 3 || proto.Size(s.msg) > mesh.MaxEvent {
		t.Errorf("%d parts went along", n)
	}
}
