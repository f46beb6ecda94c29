package edge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/thread"
)

// unheard is the error of a message that would be taken, were it not for its audio, which is to be
// transcribed first: that takes too long to do while a thread's decision is made. It reaches nobody.
type unheard struct{ parts []*a2apb.Part }

func (*unheard) Error() string { return "the message has audio that is not transcribed yet" }

// taken accepts the message, once its audio is text.
func (e *Edge) taken(ctx context.Context, in *intake) (mesh.ExecutionID, mesh.Seq, error) {
	id, cursor, err := e.acceptOpen(ctx, in)
	if deaf := (*unheard)(nil); errors.As(err, &deaf) {
		if err := e.hear(ctx, in, deaf); err != nil {
			return "", 0, err
		}
		return e.acceptOpen(ctx, in)
	}
	return id, cursor, err
}

// acceptOpen is accept while the edge is open.
func (e *Edge) acceptOpen(ctx context.Context, in *intake) (mesh.ExecutionID, mesh.Seq, error) {
	appended, err := e.take()
	if err != nil {
		return "", 0, err
	}
	defer appended()
	return e.accept(ctx, in)
}

// listens returns unheard if the message has audio that is to be transcribed: what its receiver does
// not take as it is. It is asked last, so that nothing is transcribed of what is refused.
func (e *Edge) listens(s *thread.State, in *intake, t *thread.Execution) error {
	if e.Hear == nil || in.heard || !slices.ContainsFunc(in.msg.GetParts(), mesh.IsAudio) {
		return nil
	}
	var modes []string // of an answer none: it is read as text, as a yes is
	if t == nil || !mesh.Interrupted(t.State) {
		if a, known := e.judge(in.key.Tenant, e.receiver(s, in, t)); known {
			modes = a.InputModes()
		}
	}
	var parts []*a2apb.Part
	for _, p := range in.msg.GetParts() {
		if mesh.IsAudio(p) && !slices.ContainsFunc(modes, func(m string) bool { return registry.Accepts(m, p.GetMediaType()) }) {
			parts = append(parts, p)
		}
	}
	if parts == nil {
		return nil
	}
	return &unheard{parts}
}

// hear makes text of the audio of the message.
func (e *Edge) hear(ctx context.Context, in *intake, deaf *unheard) (err error) {
	in.heard = true
	in.msg.Parts, err = e.Hear(ctx, in.key, in.msg.GetParts(), func(p *a2apb.Part) bool { return slices.Contains(deaf.parts, p) })
	if err != nil {
		return err
	}
	return in.fits()
}

// fits refuses a message that is too long for the log.
func (in *intake) fits() error {
	if n := mesh.LoggedSize(in.msg.GetParts(), proto.Size(in.msg)); n > mesh.MaxLogged {
		return &mesh.Error{Code: mesh.Exhausted, Op: "edge.Send", Field: "message",
			Detail: fmt.Sprintf("message is %d bytes long without its files, and the limit is %d; send less, or upload a file and send a part with its url", n, mesh.MaxLogged)}
	}
	return nil
}
