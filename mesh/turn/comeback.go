package turn

import (
	"slices"

	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/thread"
)

// offer tells the leg's agent, in the message that it gets, of the session that it handed
// over and that its user left before it was done: as it comes back, to say so; with the
// user's next message, to offer it; and with the one after, that it did.
func (d *driver) offer(s *thread.State, l *leg) {
	about := d.left(s, l)
	if about == nil {
		return
	}
	l.message.Metadata = a2a.SetExtension(l.message.Metadata, map[string]*structpb.Value{a2a.KeyResume: structpb.NewStructValue(about)})
	if !slices.Contains(l.message.Extensions, mesh.ExtensionURI) {
		l.message.Extensions = append(l.message.Extensions, mesh.ExtensionURI)
	}
}

// left describes the session that the leg's agent is to know of, or is nil.
func (d *driver) left(s *thread.State, l *leg) *structpb.Struct {
	at, ok := s.Session(d.Now())
	if !ok || l.exec.Kind != mesh.KindAgent || l.exec.Agent != s.Handoff.From || l.user != s.Handoff.By ||
		at.Answered || !at.Resumable(d.Now(), d.Retention) {
		return nil
	}
	to, err := d.Directory.Resolve(d.key.Tenant, at.Agent)
	if err != nil { // it is offered when it is there
		return nil
	}
	text, number, yes := structpb.NewStringValue, structpb.NewNumberValue, structpb.NewBoolValue
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"agent": text(at.Agent), "name": text(to.Card.GetName()), "handoff_reason": text(s.Handoff.Reason), "context_summary": text(s.Handoff.Summary),
		"step": number(float64(at.Step)), "steps": number(float64(at.Steps)), "state": text(at.Stage), "parked": yes(s.Handoff.Outcome == mesh.HandoffParked), "offered": yes(at.Offered),
	}}
}

// forget drops what the leg's agent noted in sessions before, if that is older than it is
// kept, where the leg begins another one.
func (d *driver) forget(s *thread.State, l *leg) []*mesh.Event {
	noted := s.Noted(l.exec.Agent)
	within := l.exec.Kind == mesh.KindHandoff && l.handoff == nil // it began before
	if l.resumed || within || noted.IsZero() || thread.Kept(noted, d.Now(), d.Retention) {
		return nil
	}
	return []*mesh.Event{d.event(l.turn, "node", mesh.StateNoted{Agent: l.exec.Agent})}
}
