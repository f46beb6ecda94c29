package edge

import (
	"context"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// progress answers who asks how far a turn is: the one that the message names, or the one
// that is worked on, or the last one. It changes nothing, and wakes nobody.
func (e *Edge) progress(ctx context.Context, in *intake) (m *a2apb.Message, err error) {
	const op = "edge.Send"
	err = e.States.With(ctx, in.key, func(s *thread.State) error {
		if s.Seq == 0 || !s.MayRead(in.call.Principal) {
			return in.threadNotFound(op)
		}
		t := s.NextTurn()
		if in.task != "" {
			if t, err = (ref{in.key, in.task, in.call, in.call.Principal, in.call.Agent}).turn(op, s); err != nil {
				return err
			}
		}
		if all := s.Turns(); t == nil && len(all) > 0 {
			t = all[len(all)-1]
		}
		if t == nil {
			return in.threadNotFound(op)
		}
		e.noteRead(ctx, in.key.ID, &s.Access, in.call.Principal)
		p := s.Progress(t)
		words := text.NobodyWorks()
		if len(p.Working) > 0 {
			words = text.StillWorking(p.Names(), p.Done, p.Total, false)
		}
		m = mesh.Say(words)
		m.ContextId = in.key.ID
		data := p.Data(e.Now(), false)
		data.Fields["task"], data.Fields["state"] = structpb.NewStringValue(string(t.ID)), structpb.NewStringValue(thread.StateWord(t.State))
		m.Metadata = a2a.SetExtension(nil, map[string]*structpb.Value{a2a.KeyProgress: structpb.NewStructValue(data)})
		m.Extensions = []string{mesh.ExtensionURI}
		return nil
	})
	return m, err
}

// threadNotFound is the answer for the thread of the message, named as the caller named it.
func (in *intake) threadNotFound(op string) error {
	e := mesh.ThreadNotFound(op)
	if e.Field = "thread-id"; in.call.Thread == "" {
		e.Field = "message.context_id"
	}
	return e
}
