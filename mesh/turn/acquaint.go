package turn

import (
	"context"
	"slices"
	"strconv"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/thread"
)

// maxMedia is how many pictures and files of a conversation go along with a handoff.
const maxMedia = thread.MaxMedia

// acquaint tells the agent that takes over what it must know: the summary, as many of the last
// messages as the handoff says, and the pictures and files of the conversation that are not
// in the message already, behind its own parts, the newest as far as there is room.
func (d *driver) acquaint(ctx context.Context, l *leg) error {
	recent := []*structpb.Value{}
	if n := l.handoff.RecentMessages; n > 0 {
		before, err := d.before(ctx)
		if err != nil {
			return err
		}
		// The rest of the handoff has its share too.
		recent = recentOf(before, n, (maxLeg-maxFrame-proto.Size(l.message))/2)
	}
	data := handoffData(d.key, l.user, l.handoff, recent)
	n, err := d.bring(ctx, l, maxLeg-maxFrame-proto.Size(l.message)-proto.Size(data))
	if err != nil {
		return err
	}
	if n > 0 {
		data.Fields["earlier_parts"] = structpb.NewNumberValue(float64(n))
	}
	l.tell(d.key, a2a.KeyHandoff, data)
	return nil
}

// bring adds to the leg's message those pictures and files of the conversation that it has
// not, the last ones within room, and returns how many.
func (d *driver) bring(ctx context.Context, l *leg, room int) (int, error) {
	var said []mesh.Seq
	if err := d.States.With(ctx, d.key, func(s *thread.State) error { said = s.Media(); return nil }); err != nil {
		return 0, err
	}
	var more []*a2apb.Part
	for _, seq := range slices.Backward(said) {
		events, err := d.Log.Read(ctx, d.key, seq-1, 1)
		if err != nil {
			return 0, mesh.Wrap("turn.bring", err)
		}
		for _, e := range events {
			more, room = l.lacking(thread.MediaOf(e), more, room)
		}
	}
	slices.Reverse(more)
	l.message.Parts = append(l.message.Parts, more...)
	return len(more), nil
}

// lacking adds to more those of the parts that neither it nor the message has, the last one
// first, within room, and returns it with the room that is left.
func (l *leg) lacking(parts, more []*a2apb.Part, room int) ([]*a2apb.Part, int) {
	for _, p := range slices.Backward(parts) {
		same := func(o *a2apb.Part) bool { return proto.Equal(o, p) }
		size := proto.Size(p) + 16 // its frame
		if size > room || len(more) == maxMedia || slices.ContainsFunc(l.message.Parts, same) || slices.ContainsFunc(more, same) {
			continue
		}
		room -= size
		more = append(more, p)
	}
	return more, room
}

// before is what was said in the thread until now, as far as its last events have it.
func (d *driver) before(ctx context.Context) (*thread.Transcript, error) {
	const window = 2000 // events in which it is looked for
	tail, err := d.Log.Tail(ctx, d.key)
	if err != nil {
		return nil, mesh.Wrap("turn.before", err)
	}
	var said *thread.Transcript
	after := max(0, tail-window)
	err = d.States.With(ctx, d.key, func(s *thread.State) error {
		said = s.Transcript(after)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for after < tail {
		page, err := d.Log.Read(ctx, d.key, after, 256)
		if err != nil {
			return nil, mesh.Wrap("turn.before", err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			said.Apply(e)
		}
		after = said.Seq
	}
	return said, nil
}

// recentOf returns the last n things that were said to and by the user, or fewer when those
// have more than room bytes.
func recentOf(before *thread.Transcript, n, room int) []*structpb.Value {
	last := before.Said()
	out := []*structpb.Value{}
	for _, s := range slices.Backward(last[max(0, len(last)-n):]) {
		one := structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"role": structpb.NewStringValue(s.Role), "agent": structpb.NewStringValue(s.Agent), "text": structpb.NewStringValue(s.Text),
		}})
		if room -= proto.Size(one); room < 0 {
			break
		}
		out = append(out, one)
	}
	slices.Reverse(out)
	return out
}

// tellParked tells who has the conversation back of a session that was parked, until that
// agent, or another one, was heard.
func (l *leg) tellParked(key mesh.ThreadKey, s *thread.State) {
	h := s.Handoff
	if h == nil || h.Outcome != mesh.HandoffParked || h.Active() || h.Known || l.resumed || l.exec.Kind != mesh.KindAgent {
		return
	}
	l.message.Metadata = a2a.SetExtension(l.message.Metadata, map[string]*structpb.Value{
		a2a.KeyHandoffParked: structpb.NewStructValue(handoffData(key, l.user, h, nil))})
}

// handoffData is meshv1.Handoff as JSON, by the names of its fields (S4-031),
// with the recent messages (S4-032).
func handoffData(key mesh.ThreadKey, user string, h *thread.Handoff, recent []*structpb.Value) *structpb.Struct {
	text := structpb.NewStringValue
	state := string(h.State)
	if !h.Active() || h.Outcome != "" {
		state = string(h.Outcome)
	}
	along := h.Along
	if recent != nil { // they are about to
		along = len(recent)
	}
	f := map[string]*structpb.Value{
		"type": text("handoff"), "seq": seqValue(h),
		"thread_id": text(key.ID), "tenant_id": text(string(key.Tenant)), "user_id": text(user),
		"source_agent_id": text(h.From), "target_agent_id": text(h.To),
		"handoff_reason": text(h.Reason), "context_summary": text(h.Summary),
		"conversation_history_count": structpb.NewNumberValue(float64(along)),
		"preserve_state":             structpb.NewBoolValue(h.PreserveState),
		"return_expected":            structpb.NewBoolValue(h.ReturnExpected),
		"resume":                     structpb.NewBoolValue(h.Resume),
		"state":                      text(state), "result_summary": text(h.Result),
	}
	if h.Outcome != "" {
		f["outcome"] = text(string(h.Outcome))
	}
	if len(h.Artifacts) > 0 {
		var list []*structpb.Value
		for _, a := range h.Artifacts {
			list = append(list, structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
				"task_id": text(string(a.Task)), "artifact_id": text(a.ID), "name": text(a.Name)}}))
		}
		f["artifacts"] = structpb.NewListValue(&structpb.ListValue{Values: list})
	}
	if recent != nil {
		f["recent_messages"] = structpb.NewListValue(&structpb.ListValue{Values: recent})
	}
	return &structpb.Struct{Fields: f}
}

func seqValue(h *thread.Handoff) *structpb.Value {
	return structpb.NewStringValue(strconv.FormatInt(int64(h.Seq), 10))
}
