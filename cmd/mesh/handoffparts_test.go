package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	legacy "github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// galleryParts are what an agent shows that is not text: a picture in bytes, one elsewhere,
// and a file elsewhere.
func galleryParts() []*a2apb.Part {
	return []*a2apb.Part{
		{Content: &a2apb.Part_Raw{Raw: []byte(tinyPNG)}, MediaType: "image/png", Filename: "chart.png"},
		{Content: &a2apb.Part_Url{Url: "https://files.example/map.jpg"}, MediaType: "image/jpeg", Filename: "map.jpg"},
		{Content: &a2apb.Part_Url{Url: "https://files.example/report.pdf?v=2"}, MediaType: "application/pdf", Filename: "report.pdf"},
	}
}

// sdkGallery are the same for agents on the official SDK.
func sdkGallery() (all []*a2a.Part) {
	for _, p := range galleryParts() {
		part := a2a.NewFileURLPart(a2a.URL(p.GetUrl()), p.GetMediaType())
		if len(p.GetRaw()) > 0 {
			part = a2a.NewRawPart(p.GetRaw())
		}
		part.MediaType, part.Filename = p.GetMediaType(), p.GetFilename()
		all = append(all, part)
	}
	return all
}

// wordsOf are the texts among the parts.
func wordsOf(parts []*a2apb.Part) (text string) {
	for _, p := range parts {
		text += p.GetText()
	}
	return text
}

// shownParts are the parts that are no text, as one compares them.
func shownParts(parts []*a2apb.Part) (all []string) {
	for _, p := range parts {
		switch c := p.GetContent().(type) {
		case *a2apb.Part_Text:
		case *a2apb.Part_Raw:
			all = append(all, fmt.Sprintf("%s %s %x", p.GetMediaType(), p.GetFilename(), c.Raw))
		case *a2apb.Part_Url:
			all = append(all, fmt.Sprintf("%s %s %s", p.GetMediaType(), p.GetFilename(), c.Url))
		default:
			all = append(all, fmt.Sprintf("%T", c))
		}
	}
	return all
}

// legacyParts are the same as A2A v0.3 has them.
func legacyParts(t *testing.T, parts legacy.ContentParts) (all []*a2apb.Part) {
	t.Helper()
	for _, p := range parts {
		switch p := p.(type) {
		case legacy.TextPart:
			all = append(all, &a2apb.Part{Content: &a2apb.Part_Text{Text: p.Text}})
		case legacy.FilePart:
			switch f := p.File.(type) {
			case legacy.FileBytes:
				raw, err := base64.StdEncoding.DecodeString(f.Bytes)
				if err != nil {
					t.Errorf("the bytes of %s: %v", f.Name, err)
				}
				all = append(all, &a2apb.Part{Content: &a2apb.Part_Raw{Raw: raw}, MediaType: f.MimeType, Filename: f.Name})
			case legacy.FileURI:
				all = append(all, &a2apb.Part{Content: &a2apb.Part_Url{Url: f.URI}, MediaType: f.MimeType, Filename: f.Name})
			}
		}
	}
	return all
}

// artifactParts are all parts of the task's artifacts.
func artifactParts(task *a2apb.Task) (all []*a2apb.Part) {
	for _, a := range task.GetArtifacts() {
		all = append(all, a.GetParts()...)
	}
	return all
}

// S4-058: whatever way its user has into the mesh, and whatever kind of agent in a process of
// its own has the conversation, text comes as text as it is said, and pictures and files as
// the parts that they are, with their bytes or their address, type and name, in artifacts and
// in the question. So they are read later, from the task and from the log.
func TestPicturesAndFilesOfWhoHasTheConversationStayWhatTheyAre(t *testing.T) {
	t.Parallel()
	m := meshOf(t, "agent_silence: 1s", "egress: {allow: [127.0.0.0/8], allow_http: true}\n")
	for _, kind := range castKinds {
		m.cast(t, kind, kind)
	}
	for _, kind := range castKinds {
		for _, way := range slices.Sorted(maps.Keys(ways)) {
			t.Run(kind+", "+way, func(t *testing.T) {
				t.Parallel()
				id := mesh.NewThreadID()
				h := ways[way](t, m, id, "", "to="+kind+" act=show go")
				said, state, want := fmt.Sprintf(castWords, kind), stateInput, shownParts(append(galleryParts(), galleryParts()[0]))
				last := "Is it this one?"
				if kind == castOurs { // whose questions are text
					last, state, want = "Back: completed.", stateComplete, want[:3]
				}
				if text := wordsOf(h.parts); !strings.Contains(text, said) || !strings.Contains(text, last) || h.state.String() != state {
					t.Errorf("it ended %v with %q", h.state, text)
				}
				if d := cmp.Diff(want, shownParts(h.parts)); d != "" {
					t.Errorf("heard (-want +got)\n%s", d)
				}
				m.readParts(t, id, h.task, want)
			})
		}
	}
}

// readParts checks what is read of a conversation later.
func (m *realMesh) readParts(t *testing.T, id, task string, want []string) {
	t.Helper()
	byGRPC, err := m.edge().GetTask(inThread(t, id), &a2apb.GetTaskRequest{Id: task})
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":%q}}`, task)
	resp := m.request(http.MethodPost, "/", http.Header{"Content-Type": {"application/json"}, "A2A-Version": {"1.0"}}, []byte(body))
	var answer struct{ Result json.RawMessage }
	byRPC := new(a2apb.Task)
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(answer.Result, byRPC); err != nil {
		t.Fatal(err)
	}
	for way, got := range map[string]*a2apb.Task{"gRPC": byGRPC, "REST": getTask(t, m, task), "JSON-RPC": byRPC} {
		if d := cmp.Diff(want, shownParts(append(artifactParts(got), got.GetStatus().GetMessage().GetParts()...))); d != "" {
			t.Errorf("the task over %s (-want +got)\n%s", way, d)
		}
	}
	var logged []*a2apb.Part
	for _, e := range m.log(id) {
		if strings.HasPrefix(e.GetActor(), "agent:") {
			logged = append(logged, e.GetArtifactAppended().GetArtifact().GetParts()...)
		}
		if e.GetTaskMoved().GetState() == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && e.GetExecutionId() == task {
			logged = append(logged, e.GetTaskMoved().GetMessage().GetParts()...)
		}
	}
	if d := cmp.Diff(want, shownParts(logged)); d != "" {
		t.Errorf("the log (-want +got)\n%s", d)
	}
}

// S4-024: of agents in processes of their own that are asked at once, whoever asked for detail
// is told that they give pictures and files, and has these by the ids of the sub-tasks as the
// parts that they are.
func TestPicturesAndFilesOfThoseWhoAreAskedAtOnceAreThereById(t *testing.T) {
	t.Parallel()
	m := meshOf(t, "agent_silence: 1s", "egress: {allow: [127.0.0.0/8], allow_http: true}\n",
		"agents: {streaming: {time: 5m}, v03: {time: 5m}}\nchains: {both: {description: Asks both, stages: [{name: ask, agents: [streaming, v03]}]}}\n")
	for _, kind := range []string{castStreaming, castV03} {
		m.cast(t, kind, kind)
	}
	id := mesh.NewThreadID()
	req := userMessage(id, "act=give")
	detail, err := structpb.NewStruct(map[string]any{mesh.ExtensionURI: map[string]any{"detail": true}})
	if err != nil {
		t.Fatal(err)
	}
	req.Message.Metadata = detail
	stream, err := m.edge().SendStreamingMessage(mesh.WithCall(timely(t), mesh.Call{Thread: id, Agent: "both", Extensions: []string{mesh.ExtensionURI}}), req)
	if err != nil {
		t.Fatal(err)
	}
	given, ids := map[string]float64{}, map[string]string{}
	for err == nil {
		var u *a2apb.StreamResponse
		u, err = stream.Recv()
		x := u.GetStatusUpdate().GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["execution"].GetStructValue().GetFields()
		if x["state"].GetStringValue() == "output" {
			given[x["agent"].GetStringValue()] += x["other_parts"].GetNumberValue()
			ids[x["agent"].GetStringValue()] = x["id"].GetStringValue()
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]float64{castStreaming: 3, castV03: 3}, given); d != "" {
		t.Errorf("parts that are no text (-want +got)\n%s", d)
	}
	for agent, execution := range ids {
		got, err := meshv1.NewExecutionServiceClient(m.dial()).GetExecution(inThread(t, id), &meshv1.GetExecutionRequest{ThreadId: id, ExecutionId: execution})
		if err != nil {
			t.Fatal(err)
		}
		parts := artifactParts(&a2apb.Task{Artifacts: got.GetExecution().GetArtifacts()})
		if d := cmp.Diff(shownParts(galleryParts()), shownParts(parts)); d != "" || wordsOf(parts) != fmt.Sprintf(castWords, agent) {
			t.Errorf("%s gave %q, and (-want +got)\n%s", agent, wordsOf(parts), d)
		}
	}
}
