package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// fileOf is the file of a thread with the events, which get their seqs.
func fileOf(t *testing.T, id string, events ...*meshv1.Event) []byte {
	t.Helper()
	var out bytes.Buffer
	w := newLines(&out)
	w.put(fileHead{Format: threadFormat, Version: threadVersion, Tenant: "acme", Thread: id, Events: int64(len(events))})
	for i, e := range events {
		e.Seq = int64(i + 1)
		w.event(e)
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// readFile reads the file of a thread.
func readThreadFile(file []byte) (id string, events []*meshv1.Event, err error) {
	r := newThreadReader(bytes.NewReader(file))
	head, err := r.head()
	for n := int64(0); err == nil && n < head.Events; n++ {
		var e *meshv1.Event
		if e, err = r.event(); err == nil {
			events = append(events, e)
		}
	}
	if err == nil {
		var line []byte
		if line, err = r.next("the hash of it"); err == nil {
			err = r.end(line)
		}
	}
	return head.Thread, events, err
}

// threadEvents are events of all sorts, also with what this program does not know: at the top
// of one, and deep in another.
func threadEvents(t *testing.T, id string) []*meshv1.Event {
	t.Helper()
	x := string(mesh.NewExecutionID(id))
	foreign := new(meshv1.Event)
	if err := proto.Unmarshal([]byte("\x12\x01f\x9a\x1f\x03abc"), foreign); err != nil || len(foreign.ProtoReflect().GetUnknown()) == 0 {
		t.Fatal("the event is known", err)
	}
	deep := &a2apb.Message{MessageId: "m", ContextId: id, TaskId: x, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"of": structpb.NewStringValue(x), "n": structpb.NewNumberValue(1e300)}},
		Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "in " + x + " \u2028 </script>"}}, {Content: &a2apb.Part_Raw{Raw: []byte{0, 255}}}}}
	known := proto.CloneOf(deep)
	deep.Parts[0].ProtoReflect().SetUnknown([]byte("\x9a\x1f\x03abc"))
	return []*meshv1.Event{
		{Id: "a", Time: timestamppb.Now(), ExecutionId: x, Actor: "user:ann", Epoch: 3, Body: &meshv1.Event_TaskOpened{TaskOpened: &meshv1.TaskOpened{Execution: &meshv1.Execution{Id: x, Kind: "turn"}}}},
		foreign,
		{ExecutionId: x, Body: &meshv1.Event_MessagePosted{MessagePosted: &meshv1.MessagePosted{Message: deep, User: "ann", Digest: []byte("\x00\xff")}}},
		{ExecutionId: x, Body: &meshv1.Event_MessagePosted{MessagePosted: &meshv1.MessagePosted{Message: known}}},
		{ExecutionId: x, Body: &meshv1.Event_ResultsDelivered{ResultsDelivered: &meshv1.ResultsDelivered{Executions: []string{x, "other"}}}},
		{ExecutionId: x, Body: &meshv1.Event_StateNoted{StateNoted: &meshv1.StateNoted{Agent: "a", Data: []byte(`{"of":"` + x + `"}`)}}},
	}
}

// A thread is read from its file as it was written, with what this program does not know.
func TestAThreadIsReadFromItsFileAsItWas(t *testing.T) {
	id := mesh.NewThreadID()
	want := threadEvents(t, id)
	of, got, err := readThreadFile(fileOf(t, id, want...))
	if err != nil || of != id {
		t.Fatal(of, err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// Whatever byte of a file is changed, and wherever it is cut off or goes on, it is refused with
// the line, but for what says the same in JSON.
func TestEveryChangeOfAFileIsFound(t *testing.T) {
	file := fileOf(t, mesh.NewThreadID(), threadEvents(t, mesh.NewThreadID())...)
	refused := func(what string, file []byte) {
		t.Helper()
		_, _, err := readThreadFile(file)
		if !mesh.IsCode(err, mesh.Invalid) || !strings.HasPrefix(mesh.DetailOf(err), "line ") || !strings.HasSuffix(mesh.DetailOf(err), "; nothing was imported") {
			t.Errorf("%s: %v", what, err)
		}
	}
	end := bytes.LastIndexByte(file[:len(file)-1], '\n') + 1
	for i := range end {
		changed := slices.Clone(file)
		changed[i] ^= 1
		refused(fmt.Sprintf("byte %d", i), changed)
	}
	for i := range len(file) - len("\"}\n") {
		refused(fmt.Sprintf("cut after %d", i), file[:i])
	}
	refused("with another line", append(slices.Clone(file), "{}\n"...))
	lines := bytes.SplitAfter(file, []byte("\n"))
	for i := range len(lines) - 1 {
		refused(fmt.Sprintf("without line %d", i+1), bytes.Join(slices.Delete(slices.Clone(lines), i, i+1), nil))
		refused(fmt.Sprintf("with line %d twice", i+1), bytes.Join(slices.Insert(slices.Clone(lines), i, lines[i]), nil))
	}
}

func TestWhatIsNoThreadIsRefusedWithLineAndField(t *testing.T) {
	id := mesh.NewThreadID()
	head := func(s string) string { return strings.ReplaceAll(s, "ID", id) + "\n" }
	good := head(`{"format":"agentmesh.thread","version":1,"tenantId":"acme","threadId":"ID","events":1}`)
	for name, tt := range map[string]struct{ file, want string }{
		"nothing":          {"", "line 1: is missing"},
		"no JSON":          {"hello\n", "line 1: format is not"},
		"another format":   {`{"format":"x"}`, "line 1: format is not agentmesh.thread"},
		"events alone":     {`{"seq":"1"}`, "line 1: format is not"},
		"another version":  {head(`{"format":"agentmesh.thread","version":3,"threadId":"ID","events":1}`), "line 1: version is 3"},
		"no id":            {head(`{"format":"agentmesh.thread","version":1,"threadId":"x","events":1}`), `line 1: threadId must be a UUID v4, and is "x"`},
		"no events":        {head(`{"format":"agentmesh.thread","version":1,"threadId":"ID","events":0}`), "line 1: events must be above 0"},
		"an unknown field": {good + `{"seq":"1","sek":2}` + "\n", `line 2: is no event: unknown field "sek"`},
		"a wrong type":     {good + `{"seq":true}` + "\n", `line 2: is no event: invalid value for int64 field seq: true`},
		"raw that is none": {good + `{"raw":"/////w=="}` + "\n", "line 2: raw is no event"},
		"a line too long":  {good + `{"raw":"` + strings.Repeat("a", maxLine) + "\"}\n", "line 2: has more than"},
		"no end":           {good + `{"seq":"1"}` + "\n", "line 3: is missing: the file ends before the hash"},
		"another end":      {good + `{"seq":"1"}` + "\n" + `{"seq":"2"}` + "\n", "line 3: sha256 is missing: there are more events"},
	} {
		if _, _, err := readThreadFile([]byte(tt.file)); !strings.HasPrefix(mesh.DetailOf(err), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	err := atLine(&mesh.Error{Code: mesh.Invalid, Field: "events[7].execution_id", Detail: "is odd"})
	if mesh.DetailOf(err) != "line 9: execution_id is odd; nothing was imported" {
		t.Errorf("of the mesh: %v", err)
	}
	if other := errors.New("x"); !errors.Is(atLine(other), other) || atLine(nil) != nil {
		t.Error("other errors are changed")
	}
}

// A thread under another id has that wherever the thread, its tasks and executions are named,
// and others are not.
func TestAThreadUnderAnotherIDNamesItsOwnExecutions(t *testing.T) {
	id, as := mesh.NewThreadID(), mesh.NewThreadID()
	events := threadEvents(t, id)
	x := events[0].GetExecutionId()
	y := strings.ReplaceAll(as, "-", "") + x[32:]
	rename := renamer(id, as)
	for _, e := range events {
		rename(e)
	}
	m := events[3].GetMessagePosted().GetMessage()
	for what, is := range map[string]string{
		"execution": events[0].GetExecutionId(), "opened": events[0].GetTaskOpened().GetExecution().GetId(), "message": m.GetTaskId(),
		"metadata": m.GetMetadata().GetFields()["of"].GetStringValue(), "list": events[4].GetResultsDelivered().GetExecutions()[0],
	} {
		if is != y {
			t.Errorf("%s: %s, want %s", what, is, y)
		}
	}
	if m.GetContextId() != as || !strings.Contains(m.GetParts()[0].GetText(), "in "+y) || string(events[5].GetStateNoted().GetData()) != `{"of":"`+y+`"}` || events[4].GetResultsDelivered().GetExecutions()[1] != "other" {
		t.Errorf("the message is %v", m)
	}
}

// A thread goes from one mesh to another by its commands, as it was, and under another id.
func TestAThreadGoesToAnotherMesh(t *testing.T) {
	t.Parallel()
	here, there := person{up(t, t.TempDir()), ""}, person{up(t, t.TempDir()), ""}
	id, as := mesh.NewThreadID(), mesh.NewThreadID()
	here.mesh("send", "--thread", id, "Create a task to call Ann").succeeds(t)
	file := here.mesh("threads", "export", id).succeeds(t)
	path := t.TempDir() + "/thread.jsonl"
	writeFile(t, path, file)
	there.mesh("threads", "import", path).succeeds(t)
	there.mesh("threads", "import", path).fails(t, exitFailure, id)
	there.mesh("threads", "import", path, "--as", as).succeeds(t)
	there.mesh("threads", "import", path, "--as", "x").fails(t, exitUsage, "--as")
	there.mesh("threads", "import", path+"x").fails(t, exitUsage, "FILE")
	writeFile(t, path+"2", strings.Replace(file, "call Ann", "call Bob", 1))
	here.mesh("threads", "import", path+"2", "--as", as).fails(t, exitUsage, "sha256")
	here.mesh("threads", "show", as).fails(t, exitNotFound, "not found")
	if again := there.mesh("threads", "export", id).succeeds(t); again != file {
		t.Errorf("it is\n%s\nand was\n%s", again, file)
	}
	if other := there.mesh("threads", "export", as).succeeds(t); strings.Contains(other, id) || strings.Contains(other, strings.ReplaceAll(id, "-", "")) {
		t.Errorf("under another id it names the old one: %s", other)
	}
	there.mesh("send", "--thread", as, "What are my tasks?").succeeds(t)
	there.stop()
	there.verify().want(t, exitOK, "")
}
