package eventpb_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/threadlog/eventpb"
)

func event(t *rapid.T, body mesh.Body) *mesh.Event {
	return &mesh.Event{
		ID: text.Draw(t, "event id"), Time: when.Draw(t, "time"), Execution: mesh.ExecutionID(text.Draw(t, "event execution")),
		Actor: text.Draw(t, "actor"), Epoch: mesh.Epoch(num.Draw(t, "event epoch")), Body: body,
	}
}

func TestEveryKindOfEventSurvivesTheWay(t *testing.T) {
	for name, draw := range bodies {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				e := event(t, draw(t))
				b, err := eventpb.Encode(e)
				if err != nil {
					t.Fatal(err)
				}
				got, err := eventpb.Decode(b)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(e, got, protocmp.Transform()); diff != "" {
					t.Fatalf("stored (-want +got):\n%s", diff)
				}
				e.Seq = mesh.Seq(num.Draw(t, "seq"))
				if got, err = eventpb.EventFromProto(eventpb.EventToProto(e)); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(e, got, protocmp.Transform()); diff != "" {
					t.Fatalf("as a message (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A kind that is added to package mesh, or to the proto, and not here would be
// lost without a word.
func TestNoKindOfEventIsForgotten(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../eventkinds.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "isBody" {
			kinds[f.Recv.List[0].Type.(*ast.Ident).Name] = true
		}
	}
	delete(kinds, "Foreign") // has tests of its own
	for name := range kinds {
		if bodies[name] == nil {
			t.Errorf("mesh.%s is not tested here", name)
		}
	}
	if len(kinds) != len(bodies) {
		t.Errorf("package mesh has %d kinds, the tests %d", len(kinds), len(bodies))
	}

	fields := new(meshv1.Event).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	if fields.Len() != len(kinds) {
		t.Errorf("mesh.v1 has %d kinds, package mesh %d", fields.Len(), len(kinds))
	}
	for i := range fields.Len() {
		p := new(meshv1.Event)
		p.ProtoReflect().Mutable(fields.Get(i))
		e, err := eventpb.EventFromProto(p)
		if err != nil {
			t.Errorf("%s: %v", fields.Get(i).Name(), err)
			continue
		}
		if got := reflect.TypeOf(e.Body).Name(); !kinds[got] || got != string(fields.Get(i).Message().Name()) {
			t.Errorf("%s becomes %s", fields.Get(i).Name(), got)
		}
		if got := eventpb.KindOf(p); got != string(fields.Get(i).Name()) {
			t.Errorf("%s is called %s", fields.Get(i).Name(), got)
		}
	}
}

// A field that is added to a kind and not drawn here would be lost just so.
func TestNoFieldOfAKindIsForgotten(t *testing.T) {
	for name, draw := range bodies {
		examples := rapid.Custom(draw)
		drawn := map[string]bool{}
		for i := range 50 {
			noteFields(drawn, name, reflect.ValueOf(examples.Example(i)))
		}
		for f, ok := range drawn {
			if !ok {
				t.Errorf("the tests never set %s", f)
			}
		}
	}
}

// noteFields notes of every field, and of those of our own structs in it,
// whether it is set.
func noteFields(drawn map[string]bool, path string, v reflect.Value) {
	for i := range v.NumField() {
		f, p := v.Field(i), path+"."+v.Type().Field(i).Name
		drawn[p] = drawn[p] || !f.IsZero()
		if f.Kind() == reflect.Struct && f.Type().PkgPath() == reflect.TypeFor[mesh.Event]().PkgPath() {
			noteFields(drawn, p, f)
		}
	}
}

// foreign returns bytes of an event of a kind that does not exist yet, laid out
// as no encoder of ours would.
func foreign() []byte {
	var b []byte
	b = protowire.AppendTag(b, 1007, protowire.BytesType)
	b = protowire.AppendString(b, "a body of tomorrow")
	b = protowire.AppendTag(b, 5, protowire.BytesType)
	b = protowire.AppendString(b, "agent:a")
	b = protowire.AppendTag(b, 2, protowire.BytesType)
	return protowire.AppendString(b, "the-id")
}

func TestAKindOfTomorrowSurvivesByteForByte(t *testing.T) {
	raw := foreign()
	e, err := eventpb.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := &mesh.Event{ID: "the-id", Actor: "agent:a", Body: mesh.Foreign{Raw: raw}}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
	again, err := eventpb.Encode(e)
	if err != nil || !bytes.Equal(raw, again) {
		t.Errorf("encoded again: %x, %v; want %x", again, err, raw)
	}
	if got := eventpb.KindOf(eventpb.EventToProto(e)); got != "unknown" {
		t.Errorf("it is called %s", got)
	}

	// Over the wire it goes with its body too, and may get another envelope.
	e.Seq = 7
	over, err := eventpb.EventFromProto(eventpb.EventToProto(e))
	if err != nil || over.Seq != 7 || over.ID != "the-id" {
		t.Fatalf("got %+v, %v", over, err)
	}
	over.Epoch, over.Seq = 3, 0
	b, err := eventpb.Encode(over)
	if err != nil || !bytes.Contains(b, []byte("a body of tomorrow")) {
		t.Fatalf("got %q, %v", b, err)
	}
	last, err := eventpb.Decode(b)
	if err != nil || last.Epoch != 3 || last.Actor != "agent:a" {
		t.Errorf("got %+v, %v", last, err)
	}
}

func TestA2AMessagesAreNotCopied(t *testing.T) {
	msg := &a2apb.Message{MessageId: "m"}
	p := eventpb.EventToProto(&mesh.Event{Body: mesh.TaskMoved{Message: msg}})
	if p.GetTaskMoved().Message != msg {
		t.Error("the message was copied on the way out")
	}
	e, err := eventpb.EventFromProto(p)
	if err != nil || e.Body.(mesh.TaskMoved).Message != msg {
		t.Errorf("the message was copied on the way in, %v", err)
	}
}

func TestWhatHasNoFormIsRefusedAndNamed(t *testing.T) {
	far := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		event *mesh.Event
		words string
	}{
		"no body":                 {&mesh.Event{}, "<nil>"},
		"a pointer":               {&mesh.Event{Body: &mesh.TaskMoved{}}, "*mesh.TaskMoved"},
		"time":                    {&mesh.Event{Time: far, Body: mesh.TaskMoved{}}, "9999"},
		"deadline of a task":      {&mesh.Event{Body: mesh.TaskOpened{Execution: mesh.Execution{Deadline: far}}}, "9999"},
		"deadline of a dispatch":  {&mesh.Event{Body: mesh.DispatchIssued{Child: mesh.Execution{Deadline: far}}}, "9999"},
		"end of a limit":          {&mesh.Event{Body: mesh.LimitTripped{Free: far}}, "9999"},
		"text":                    {&mesh.Event{Body: mesh.CancelRequested{By: "\xff"}}, "cancel_requested"},
		"id":                      {&mesh.Event{ID: "\xff", Body: mesh.TaskMoved{}}, "UTF-8"},
		"foreign garbage":         {&mesh.Event{Body: mesh.Foreign{Raw: []byte{0xff}}}, "broken"},
		"foreign nothing":         {&mesh.Event{Body: mesh.Foreign{}}, "missing"},
		"foreign of a known kind": {&mesh.Event{Body: mesh.Foreign{Raw: encoded(t, mesh.TaskMoved{})}}, "knows"},
		"foreign at no time":      {&mesh.Event{Time: far, Body: mesh.Foreign{Raw: foreign()}}, "9999"},
		"foreign text":            {&mesh.Event{Actor: "\xff", Body: mesh.Foreign{Raw: foreign()}}, "UTF-8"},
	} {
		b, err := eventpb.Encode(c.event)
		if !mesh.IsCode(err, mesh.Invalid) || !strings.Contains(mesh.DetailOf(err), c.words) {
			t.Errorf("%s: got %x, %v; want Invalid with %q", name, b, err, c.words)
		}
	}
	if e, err := eventpb.EventFromProto(&meshv1.Event{}); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("a message without a body: %v, %v", e, err)
	}
	late := eventpb.EventToProto(&mesh.Event{Body: mesh.TaskMoved{}})
	late.Time = &timestamppb.Timestamp{Seconds: math.MaxInt64}
	if e, err := eventpb.EventFromProto(late); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("a message at no time: %v, %v", e, err)
	}
}

func encoded(t testing.TB, body mesh.Body) []byte {
	b, err := eventpb.Encode(&mesh.Event{ID: "i", Time: time.Unix(1, 0), Body: body})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSeqIsNotStored(t *testing.T) {
	b, err := eventpb.Encode(&mesh.Event{Seq: 9, Pos: 9, Body: mesh.TaskMoved{}})
	if err != nil {
		t.Fatal(err)
	}
	p := new(meshv1.Event)
	if err := proto.Unmarshal(b, p); err != nil || p.Seq != 0 {
		t.Errorf("stored Seq is %d, %v", p.Seq, err)
	}
	p.Seq = 5
	if b, err = proto.Marshal(p); err != nil {
		t.Fatal(err)
	}
	if e, err := eventpb.Decode(b); err != nil || e.Seq != 0 {
		t.Errorf("got %+v, %v", e, err)
	}
}

func TestTimesAreOfTheMillisecond(t *testing.T) {
	at := time.Date(2026, 11, 20, 1, 2, 3, 987_654_321, time.FixedZone("", 7200))
	e, err := eventpb.Decode(encodedAt(t, at))
	if want := time.Date(2026, 11, 19, 23, 2, 3, 987_000_000, time.UTC); err != nil || e.Time != want {
		t.Errorf("got %v, %v; want %v", e.Time, err, want)
	}
	if e, err = eventpb.Decode(encodedAt(t, time.Time{})); err != nil || !e.Time.IsZero() {
		t.Errorf("no time becomes %v, %v", e.Time, err)
	}
}

func encodedAt(t *testing.T, at time.Time) []byte {
	b, err := eventpb.Encode(&mesh.Event{Time: at, Body: mesh.TaskMoved{}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzDecode(f *testing.F) {
	f.Add(foreign())
	f.Add([]byte{})
	f.Add([]byte{0x08, 0x01})
	for _, body := range []mesh.Body{
		mesh.TaskMoved{State: 3, Message: &a2apb.Message{MessageId: "m"}},
		mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "a", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "t"}}}}},
		mesh.TaskOpened{Execution: mesh.Execution{ID: "x", DependsOn: []mesh.ExecutionID{"d"}, Deadline: time.Unix(9, 0)}},
		mesh.ModelReplied{Tools: []mesh.ToolUse{{ID: "t"}}, Usage: mesh.Usage{Prompt: 1}},
		mesh.SkillReturned{Duration: time.Second, Files: []string{"f"}},
	} {
		f.Add(encoded(f, body))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := eventpb.Decode(b)
		if err != nil {
			if !mesh.IsCode(err, mesh.Invalid) {
				t.Fatalf("%v is not Invalid", err)
			}
			return
		}
		again, err := eventpb.Encode(e)
		if err != nil {
			t.Fatalf("what was decoded is not encoded: %v", err)
		}
		if _, ok := e.Body.(mesh.Foreign); ok && !bytes.Equal(b, again) {
			t.Fatalf("a foreign event changed from %x to %x", b, again)
		}
		e2, err := eventpb.Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, e2, protocmp.Transform()); diff != "" && !strings.Contains(diff, "NaN") {
			t.Fatal(diff)
		}
	})
}

func BenchmarkEncodeArtifact(b *testing.B) {
	e := chunk()
	for b.Loop() {
		if _, err := eventpb.Encode(e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeArtifact(b *testing.B) {
	raw, err := eventpb.Encode(chunk())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := eventpb.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func chunk() *mesh.Event {
	return &mesh.Event{Time: time.Now(), Execution: mesh.NewExecutionID(mesh.NewThreadID()), Actor: "agent:main", Epoch: 1,
		Body: mesh.ArtifactAppended{Append: true, Artifact: &a2apb.Artifact{ArtifactId: "answer",
			Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: strings.Repeat("word ", 20)}}}}}}
}
