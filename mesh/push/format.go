package push

import (
	"context"
	"fmt"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// What updates are sent as: in v1.0 (A2A v1.0 §4.3.3), and in v0.3.
const (
	mediaType    = "application/a2a+json"
	mediaTypeV03 = "application/json"
)

// A payload is the body of a request.
type payload struct {
	data      []byte
	mediaType string
}

// A format makes the bodies of the requests of one run: of updates in v1.0, and
// of the task as an update left it in v0.3, which has no push format for updates.
type format struct {
	task   *thread.Snapshot // nil in v1.0
	encode func(*a2apb.Task) ([]byte, error)
	link   thread.Link
}

// link says where the thread's blobs are read.
func (d *Dispatcher) link(key mesh.ThreadKey) thread.Link {
	if d.Blobs == nil {
		return nil
	}
	return func(b mesh.Blob, name string) string { return d.Blobs(key, b, name) }
}

// format returns the format of the sub's config after the event given, up to
// which it reads the task, with the context id to show, if that is what is sent.
func (d *Dispatcher) format(ctx context.Context, s *sub, v03 bool, shown string, at mesh.Seq) (*format, error) {
	if !v03 || d.EncodeV03 == nil {
		return &format{}, nil
	}
	const page = 256
	var from mesh.Seq
	err := d.States.With(ctx, s.key, func(st *thread.State) error {
		t := st.Turn(s.task)
		if t == nil {
			return mesh.TaskNotFound("push.format")
		}
		from = t.Opened - 1
		return nil
	})
	if err != nil {
		return nil, err
	}
	f := &format{task: thread.NewSnapshot(shown, s.task), encode: d.EncodeV03, link: d.link(s.key)}
	for from < at {
		events, err := d.Log.Read(ctx, s.key, from, int(min(page, at-from)))
		if err != nil || len(events) == 0 {
			return f, err
		}
		for _, e := range events {
			f.task.Apply(e)
		}
		from = events[len(events)-1].Seq
	}
	return f, nil
}

// apply adds the next event of the thread.
func (f *format) apply(e *mesh.Event) {
	if f.task != nil {
		f.task.Apply(e)
	}
}

// body returns what is sent for an update, that of the last event.
func (f *format) body(update *a2apb.StreamResponse) (payload, error) {
	out := payload{mediaType: mediaType}
	var err error
	if f.task == nil {
		out.data, err = protojson.Marshal(update)
	} else {
		task, _ := f.task.Task()
		f.link.Task(task)
		out.mediaType = mediaTypeV03
		out.data, err = f.encode(task)
	}
	if err != nil {
		return out, fmt.Errorf("the update cannot be encoded: %w", err)
	}
	return out, nil
}
