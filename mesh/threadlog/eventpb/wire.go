// Package eventpb is the proto form of the nouns: what package mesh says in Go,
// mesh.v1 says in bytes.
//
// It guarantees that an event survives the way there and back, times to the
// millisecond, and that one of a kind that this version does not know comes
// back byte for byte. A2A messages, artifacts and metadata are never copied:
// both forms point to the same ones, which therefore nobody changes.
//
// All functions are pure and may run concurrently. They check form, not sense:
// whether a state may follow another is for package thread.
package eventpb

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// Append appends to b the bytes that a log keeps of the event, without Seq and Pos.
// It returns an Invalid error for an event without a body, for text that is not
// UTF-8, and for times that no calendar has.
func Append(b []byte, e *mesh.Event) ([]byte, error) {
	const op = "eventpb.Append"
	switch body := e.Body.(type) {
	case mesh.Foreign:
		raw, err := encodeForeign(op, e, body)
		return append(b, raw...), err
	case mesh.ArtifactAppended:
		return appendArtifact(b, op, e, body)
	}
	p := EventToProto(e)
	p.Seq = 0
	if p.Body == nil {
		return b, mesh.InvalidField(op, "body", "must be an event body of package mesh, and is %T", e.Body)
	}
	if err := checkTimes(op, p); err != nil {
		return b, err
	}
	out, err := proto.MarshalOptions{}.MarshalAppend(b, p)
	if err != nil {
		return b, notUTF8(op, KindOf(p), err)
	}
	return out, nil
}

// Encode returns what Append appends.
func Encode(e *mesh.Event) ([]byte, error) { return Append(nil, e) }

func notUTF8(op, kind string, err error) error {
	e := mesh.Errorf(mesh.Invalid, op, "The event %s holds text that is not UTF-8", kind)
	e.Err = err
	return e
}

func errTime(op, field string) error {
	return mesh.InvalidField(op, field, "must be between the years 1 and 9999")
}

// Decode returns the event that Encode made the bytes of. Its Seq and Pos are
// 0. It keeps b, which therefore is not written to again.
func Decode(b []byte) (*mesh.Event, error) {
	const op = "eventpb.Decode"
	p := new(meshv1.Event)
	if err := proto.Unmarshal(b, p); err != nil {
		return nil, mesh.Errorf(mesh.Invalid, op, "The stored event is broken: %w", err)
	}
	p.Seq = 0
	e, err := fromProto(op, p)
	if err != nil {
		return nil, err
	}
	switch body := e.Body.(type) {
	case mesh.Foreign:
		e.Body = mesh.Foreign{Raw: b}
	case mesh.ArtifactAppended:
		body.Wire = mesh.WireIn(b, body.Artifact, eventArtifact, appendedArtifact)
		e.Body = body
	}
	return e, nil
}

// EventToProto returns the event as a message. An event whose body is not one
// of package mesh becomes a message without a body.
func EventToProto(e *mesh.Event) *meshv1.Event {
	p := new(meshv1.Event)
	if f, ok := e.Body.(mesh.Foreign); ok {
		// What cannot be parsed has no fields to show; Encode refuses it.
		_ = proto.Unmarshal(f.Raw, p)
	}
	setEnvelope(p, e)
	bodyToProto(p, e.Body)
	return p
}

// EventFromProto returns the event that the message describes. A message with
// a body that this version does not know becomes a [mesh.Foreign]; one without
// any is Invalid, as is one with times that no calendar has.
func EventFromProto(p *meshv1.Event) (*mesh.Event, error) {
	return fromProto("eventpb.EventFromProto", p)
}

// KindOf names the kind of the event's body as in mesh.v1, "task_moved", or is
// "unknown".
func KindOf(p *meshv1.Event) string {
	m := p.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("body")); f != nil {
		return string(f.Name())
	}
	return "unknown"
}

func fromProto(op string, p *meshv1.Event) (*mesh.Event, error) {
	if err := checkTimes(op, p); err != nil {
		return nil, err
	}
	e := &mesh.Event{
		Seq: mesh.Seq(p.Seq), ID: p.Id, Time: timeFromProto(p.Time),
		Execution: mesh.ExecutionID(p.ExecutionId), Actor: p.Actor, Epoch: mesh.Epoch(p.Epoch),
	}
	e.Body = bodyFromProto(p)
	if e.Body != nil {
		return e, nil
	}
	if len(p.ProtoReflect().GetUnknown()) == 0 {
		return nil, mesh.InvalidField(op, "body", "is missing; say what happened")
	}
	seq := p.Seq
	p.Seq = 0
	raw, err := proto.Marshal(p)
	p.Seq = seq
	if err != nil {
		return nil, mesh.Errorf(mesh.Invalid, op, "The event holds text that is not UTF-8: %w", err)
	}
	e.Body = mesh.Foreign{Raw: raw}
	return e, nil
}

// encodeForeign returns the raw bytes as they are, unless the event has another
// envelope than they have: then only the envelope is written anew.
func encodeForeign(op string, e *mesh.Event, f mesh.Foreign) ([]byte, error) {
	was, err := Decode(f.Raw)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if _, ok := was.Body.(mesh.Foreign); !ok {
		return nil, mesh.InvalidField(op, "body", "is foreign but of a kind that this version knows; send it as that")
	}
	if was.ID == e.ID && was.Time.Equal(millis(e.Time)) && was.Execution == e.Execution &&
		was.Actor == e.Actor && was.Epoch == e.Epoch {
		return f.Raw, nil
	}
	p := EventToProto(e)
	p.Seq = 0
	if err := checkTimes(op, p); err != nil {
		return nil, err
	}
	b, err := proto.Marshal(p)
	if err != nil {
		return nil, notUTF8(op, KindOf(p), err)
	}
	return b, nil
}

func setEnvelope(p *meshv1.Event, e *mesh.Event) {
	p.Seq = int64(e.Seq)
	p.Id = e.ID
	p.Time = timeToProto(e.Time)
	p.ExecutionId = string(e.Execution)
	p.Actor = e.Actor
	p.Epoch = int64(e.Epoch)
}

func checkTimes(op string, p *meshv1.Event) error {
	if p.Time != nil && p.Time.CheckValid() != nil {
		return errTime(op, "time")
	}
	d := p.GetTaskOpened().GetExecution().GetDeadline()
	for _, child := range []*meshv1.Execution{p.GetDispatchAccepted().GetChild(), p.GetDispatchIssued().GetChild()} {
		if d == nil {
			d = child.GetDeadline()
		}
	}
	if d != nil && d.CheckValid() != nil {
		return errTime(op, "deadline")
	}
	if free := p.GetLimitTripped().GetFree(); free != nil && free.CheckValid() != nil {
		return errTime(op, "free")
	}
	return nil
}

func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(millis(t))
}

func timeFromProto(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return millis(t.AsTime())
}

func millis(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// RepliedSince reports whether the encoded event is a ModelReplied of that time or later,
// without decoding more than that.
func RepliedSince(b []byte, since time.Time) bool {
	const fieldTime, firstBody, modelReplied = 3, 20, 24
	var at []byte
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		if field >= firstBody {
			if field != modelReplied {
				return false
			}
			var t timestamppb.Timestamp
			return proto.Unmarshal(at, &t) == nil && !t.AsTime().Before(since)
		}
		b = b[n:]
		if field == fieldTime && kind == protowire.BytesType {
			at, _ = protowire.ConsumeBytes(b)
		}
		if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
			return false
		}
		b = b[n:]
	}
	return false
}
