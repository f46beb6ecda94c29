package thread

import (
	"cmp"
	"slices"
	"strconv"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agentmesh/mesh"
)

// A View turns the events of a thread into what the user of one task is told:
// the updates of one A2A task, whichever agents work on it. It shows the
// output of the execution that has the user's stream, and nothing that an
// agent says after it lost it.
//
// Two views that are given the same events in the same mode give the same
// updates.
type View struct {
	stream
	ctx  string
	mode Mode
	kids map[mesh.ExecutionID]mesh.Execution
	// detail is the Seq after which the user is told what those say; 0 for never.
	detail mesh.Seq
	// passage is that of the last handoff, of views that are extended. reached says that it is
	// in its next state with the event that is applied.
	passage *passage
	reached bool
}

// Mode says who the updates are for.
type Mode struct {
	// Extended adds our extension's data and the updates that carry only such.
	Extended bool
	// Seq adds the Seq to every update's extension data.
	Seq bool
	// Context is shown in place of the thread's id, if it is not "".
	Context string
	// Link says where blobs are read.
	Link Link
}

// View returns a view of the turn that goes on after the event with the given
// Seq, at most s.Seq. It returns nil if there is no such turn.
func (s *State) View(threadID string, turn mesh.ExecutionID, after mesh.Seq, mode Mode) *View {
	t := s.Turn(turn)
	if t == nil {
		return nil
	}
	if mode.Context == threadID {
		mode.Context = ""
	}
	v := &View{stream: t.stream(after), ctx: cmp.Or(mode.Context, threadID), mode: mode}
	if mode.Extended {
		v.detail, v.passage = t.Detail, s.passage(after, turn)
		for _, x := range s.order {
			if x.Opened <= after && (x.Ended == 0 || x.Ended > after) && s.shown(x, turn) {
				v.know(x.Execution)
			}
		}
	}
	return v
}

// shown reports whether a view of the turn tells of the execution: it is below
// the turn, and each was dispatched by one that was not over.
func (s *State) shown(x *Execution, turn mesh.ExecutionID) bool {
	for x.Parent != "" && x.Parent != turn {
		p := s.execs[x.Parent]
		if p == nil || p.Ended != 0 && p.Ended < x.Opened {
			return false
		}
		x = p
	}
	return x.Parent == turn
}

// Context is the context id that the view shows.
func (v *View) Context() string { return v.ctx }

// Over reports whether the task's terminal update was given: nothing follows.
func (v *View) Over() bool { return v.over }

// MayUpdate reports whether a View that is not extended may return an update for an
// event of the kind; of other events nobody need be told.
func MayUpdate(b mesh.Body) bool {
	switch b.(type) {
	case mesh.ArtifactAppended, mesh.TaskMoved, mesh.HandoffStarted, mesh.HandoffEnded:
		return true
	}
	return false
}

// Apply adds the next event and returns the update that the user gets for it,
// or nil. The update may share parts with the event: both are read-only.
func (v *View) Apply(e *mesh.Event) *a2apb.StreamResponse {
	if v.over {
		return nil
	}
	agent := v.agent
	v.reached = v.passage.apply(e) == v.turn
	r := v.update(e)
	if r == nil && v.reached { // an agent that was waited for works in silence
		r = v.status(e, a2apb.TaskState_TASK_STATE_WORKING, nil, nil, "agent", agent)
	}
	v.mode.Link.update(r)
	return r
}

// update is the update for what the event itself says.
func (v *View) update(e *mesh.Event) *a2apb.StreamResponse {
	switch b := e.Body.(type) {
	case mesh.ArtifactAppended:
		if v.carries(e.Execution) {
			return v.artifact(e, b)
		}
		return v.chunk(e, b)
	case mesh.MessagePosted:
		if v.mode.Extended && v.detail == 0 && e.Execution == v.turn && wantsDetail(b.Message) {
			v.detail = e.Seq
		}
	case mesh.TaskMoved:
		v.apply(e)
		return v.moved(e, b)
	case mesh.DispatchAccepted:
		return v.accepted(e, b)
	case mesh.DispatchIssued:
		return v.issued(e, b, v.apply(e))
	case mesh.DispatchSettled:
		return v.settled(e, b)
	case mesh.HandoffStarted:
		return v.handoff(e, b)
	case mesh.HandoffEnded:
		return v.handoffReturn(e, b)
	}
	return nil
}

// Wire returns the wire bytes of the update that Apply returned for the event, if
// they are at hand: all views of the event in the same mode share them.
func (v *View) Wire(e *mesh.Event, r *a2apb.StreamResponse) []byte {
	b, ok := e.Body.(mesh.ArtifactAppended)
	u := r.GetArtifactUpdate()
	if !ok || u == nil || u.Artifact != b.Artifact { // the bytes are not of what is shown
		return nil
	}
	artifact, ok := b.Bytes()
	if !ok {
		return nil
	}
	if v.mode.Context != "" { // these share nothing with others
		return wireOf(u, artifact)
	}
	form := 0
	if v.mode.Extended {
		form++
	}
	if v.mode.Seq {
		form += 2
	}
	return b.Memo(form, func() []byte { return wireOf(u, artifact) })
}

func (v *View) artifact(e *mesh.Event, b mesh.ArtifactAppended) *a2apb.StreamResponse {
	var all struct { // in one piece: most updates are these
		response a2apb.StreamResponse
		payload  a2apb.StreamResponse_ArtifactUpdate
		update   a2apb.TaskArtifactUpdateEvent
	}
	u := &all.update
	u.TaskId, u.ContextId, u.Metadata = string(v.turn), v.ctx, v.metadata(e.Seq, b.Metadata, "agent", v.agent)
	u.Artifact, u.Append, u.LastChunk = b.Artifact, b.Append, b.LastChunk
	all.payload.ArtifactUpdate, all.response.Payload = u, &all.payload
	return &all.response
}

// wantsDetail reports whether the message asks for what agents say that others dispatched.
func wantsDetail(m *a2apb.Message) bool {
	return m.GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["detail"].GetBoolValue()
}

// chunk tells what an agent says that another one dispatched, to those who asked for it.
// It is no output of the task.
func (v *View) chunk(e *mesh.Event, b mesh.ArtifactAppended) *a2apb.StreamResponse {
	x, below := v.kids[e.Execution]
	if !below || v.detail == 0 || e.Seq <= v.detail || x.Parent == v.turn {
		return nil
	}
	var words string
	others := 0
	for _, p := range b.Artifact.GetParts() { // they may be pieces of one text
		if _, isText := p.GetContent().(*a2apb.Part_Text); !isText {
			others++
		}
		words += p.GetText()
	}
	if words == "" && others == 0 {
		return nil
	}
	return v.status(e, a2apb.TaskState_TASK_STATE_WORKING, nil, nil, "agent", x.Agent, "execution", map[string]any{
		"id": string(x.ID), "parent": string(x.Parent), "agent": x.Agent, "label": x.Label, "kind": string(x.Kind),
		"state": "output", "text": words, "artifact": b.Artifact.GetArtifactId(), "append": b.Append, "other_parts": float64(others),
	})
}

func (v *View) moved(e *mesh.Event, b mesh.TaskMoved) *a2apb.StreamResponse {
	kid, below := v.kids[e.Execution]
	if mesh.Terminal(b.State) {
		delete(v.kids, e.Execution)
	}
	switch {
	case e.Execution == v.turn:
		return v.status(e, b.State, b.Message, b.Metadata, "agent", v.agent, "reason", b.Reason)
	case v.carries(e.Execution):
		if b.State == a2apb.TaskState_TASK_STATE_WORKING && (b.Message != nil || v.mode.Extended && b.Metadata != nil) {
			return v.status(e, b.State, b.Message, b.Metadata, "agent", v.agent, "reason", b.Reason)
		}
	case v.mode.Extended && below:
		words := mesh.TextOf(b.Message)
		if b.Reason == mesh.ReasonDelivered { // they are not the agent's
			words = ""
		}
		return v.progress(e, kid, StateWord(b.State), words)
	}
	return nil
}

func (v *View) accepted(e *mesh.Event, b mesh.DispatchAccepted) *a2apb.StreamResponse {
	_, below := v.kids[e.Execution]
	if !v.mode.Extended || !below || b.Child.Parent != e.Execution || b.Child.Kind == mesh.KindTurn {
		return nil
	}
	v.know(b.Child)
	return v.progress(e, b.Child, "queued", b.Child.Text)
}

func (v *View) issued(e *mesh.Event, b mesh.DispatchIssued, gave bool) *a2apb.StreamResponse {
	if !v.mode.Extended || b.Child.Parent != e.Execution || b.Child.Kind == mesh.KindTurn {
		return nil
	}
	if gave {
		v.know(b.Child)
		return v.progress(e, b.Child, "started", "")
	}
	if _, below := v.kids[e.Execution]; !below {
		return nil
	}
	v.know(b.Child)
	return v.progress(e, b.Child, "started", b.Child.Text)
}

func (v *View) settled(e *mesh.Event, b mesh.DispatchSettled) *a2apb.StreamResponse {
	k, ok := v.kids[b.Child]
	if !ok || !v.mode.Extended {
		return nil
	}
	if mesh.Terminal(b.State) {
		delete(v.kids, b.Child)
	}
	if b.Reason == mesh.ReasonAsked {
		return v.progress(e, k, StateWord(a2apb.TaskState_TASK_STATE_INPUT_REQUIRED), b.Result)
	}
	if b.Reason == mesh.ReasonDependency {
		return v.progress(e, k, "skipped", b.Result)
	}
	return v.progress(e, k, StateWord(b.State), b.Reason)
}

// progress tells of an execution below the task, to extended readers.
func (v *View) progress(e *mesh.Event, x mesh.Execution, state, words string) *a2apb.StreamResponse {
	return v.status(e, a2apb.TaskState_TASK_STATE_WORKING, nil, nil, "agent", x.Agent, "execution", map[string]any{
		"id": string(x.ID), "parent": string(x.Parent), "agent": x.Agent, "label": x.Label,
		"kind": string(x.Kind), "state": state, "text": words,
	})
}

func (v *View) status(e *mesh.Event, state mesh.TaskState, msg *a2apb.Message, md *structpb.Struct, ext ...any) *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		TaskId: string(v.turn), ContextId: v.ctx,
		Status:   &a2apb.TaskStatus{State: state, Message: v.address(msg), Timestamp: timestamppb.New(e.Time)},
		Metadata: v.metadata(e.Seq, md, ext...),
	}}}
}

// address gives a message the ids of the task that it is shown in.
func (v *View) address(m *a2apb.Message) *a2apb.Message {
	if m == nil || m.TaskId == string(v.turn) && m.ContextId == v.ctx {
		return m
	}
	return &a2apb.Message{
		MessageId: m.MessageId, ContextId: v.ctx, TaskId: string(v.turn), Role: m.Role, Parts: m.Parts,
		Metadata: m.Metadata, Extensions: m.Extensions, ReferenceTaskIds: m.ReferenceTaskIds,
	}
}

// say makes a message of the mesh itself; its id is stable.
func (v *View) say(e *mesh.Event, words string) *a2apb.Message {
	return &a2apb.Message{
		MessageId: string(v.turn) + "-" + strconv.FormatInt(int64(e.Seq), 10),
		ContextId: v.ctx, TaskId: string(v.turn), Role: a2apb.Role_ROLE_AGENT,
		Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}},
	}
}

// metadata returns md with our extension's data added, as the mode asks for:
// the Seq, and the given keys and values. Empty text is left out. What the
// agent put under our key, its progress, is kept.
func (v *View) metadata(seq mesh.Seq, md *structpb.Struct, ext ...any) *structpb.Struct {
	given := md.GetFields()[mesh.ExtensionURI]
	if !v.mode.Extended && !v.mode.Seq && given == nil {
		return md
	}
	fields := map[string]*structpb.Value{}
	if v.mode.Extended {
		for k, val := range given.GetStructValue().GetFields() {
			fields[k] = val
		}
		for pair := range slices.Chunk(ext, 2) {
			if s, isText := pair[1].(string); isText && s == "" {
				continue
			}
			val, err := structpb.NewValue(pair[1])
			if err != nil { // text that is not UTF-8
				continue
			}
			fields[pair[0].(string)] = val
		}
		if v.reached && v.passage != nil {
			fields["handoff_state"] = v.passage.data()
		}
	}
	if v.mode.Extended || v.mode.Seq {
		fields["seq"] = structpb.NewNumberValue(float64(seq))
	}
	out := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(md.GetFields())+1)}
	for k, val := range md.GetFields() {
		if k != mesh.ExtensionURI {
			out.Fields[k] = val
		}
	}
	if len(fields) > 0 {
		out.Fields[mesh.ExtensionURI] = structpb.NewStructValue(&structpb.Struct{Fields: fields})
	}
	if len(out.Fields) == 0 {
		return nil
	}
	return out
}

func (v *View) know(x mesh.Execution) {
	if v.kids == nil {
		v.kids = map[mesh.ExecutionID]mesh.Execution{}
	}
	v.kids[x.ID] = x
}

// StateWord is the state as clients of the extension read it.
func StateWord(s mesh.TaskState) string {
	switch s {
	case a2apb.TaskState_TASK_STATE_COMPLETED:
		return "completed"
	case a2apb.TaskState_TASK_STATE_FAILED, a2apb.TaskState_TASK_STATE_REJECTED:
		return "failed"
	case a2apb.TaskState_TASK_STATE_CANCELED:
		return "canceled"
	case a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, a2apb.TaskState_TASK_STATE_AUTH_REQUIRED:
		return "input_required"
	}
	return "working"
}
