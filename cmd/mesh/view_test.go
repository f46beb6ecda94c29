package main

import (
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"go.yaml.in/yaml/v4"
)

// said is output of an agent; then more of it has begins unset.
func said(agent, text string, begins bool) update {
	return update{agent: agent, text: text, artifact: agent + "-1", begins: begins}
}

func moved(state mesh.TaskState, agent, text string) update {
	return update{state: state, agent: agent, text: text}
}

const (
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	failed    = a2apb.TaskState_TASK_STATE_FAILED
	canceled  = a2apb.TaskState_TASK_STATE_CANCELED
	asks      = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
)

func TestAViewShowsATurn(t *testing.T) {
	work := func(id, parent, agent, state, text string) update {
		return update{task: "turn", state: working, execution: &executionNote{id: id, parent: parent, agent: agent, state: state, text: text}}
	}
	labelled := work("b", "main", "worker", "started", "count")
	labelled.execution.label = "w1"
	tests := map[string]struct {
		updates     []update
		rich        string
		plain, note string
	}{
		"text as it comes, with its speaker once": {
			[]update{said("main", "Hel", true), said("main", "lo.", false), moved(completed, "main", "")},
			"main › Hello.\n", "Hello.\n", "",
		},
		"a second speaker on a line of its own": {
			[]update{said("main", "One moment.", true), said("mail", "Sent.", true), moved(completed, "", "")},
			"main › One moment.\nmail › Sent.\n", "One moment.\nSent.\n", "",
		},
		"a note within a text leaves a plain text whole": {
			[]update{said("main", "I am look", true), moved(working, "main", "Looking"), said("main", "ing.", false)},
			"main › I am look\n· Looking\ning.\n", "I am looking.\n", "· Looking\n",
		},
		"sub-agents below who asked them, the speaking agent not among them": {
			[]update{
				work("main", "turn", "main", "started", ""),
				work("a", "main", "knowledge", "started", "find it"), work("a", "main", "knowledge", "working", "searching…"),
				work("a", "main", "knowledge", "working", "searching…"), work("c", "a", "index", "started", ""),
				labelled, work("c", "a", "index", "failed", "no disk"), work("a", "main", "knowledge", "completed", ""),
				work("b", "main", "worker", "canceled", ""),
			},
			"", "", "· knowledge: find it\n· knowledge: searching…\n  · index: started\n· w1 (worker): count\n" +
				"  ✗ index failed: no disk\n✓ knowledge done\n■ worker cancelled\n",
		},
		"a question of agents below once and whole, from who has the stream": {
			[]update{
				work("a", "main", "orchestrator", "started", "two tasks"), work("c", "a", "tasks", "started", "a task"),
				work("c", "a", "tasks", "input_required", "Create this task?\n- title: Ann"),
				work("c", "a", "tasks", "input_required", "Create this task?\n- title: Ann"),
				work("a", "main", "orchestrator", "input_required", "Create this task?\n- title: Ann"),
				moved(asks, "main", "Create this task?\n- title: Ann"),
			},
			"· orchestrator: two tasks\n  · tasks: a task\n  · tasks waits for an answer\n· orchestrator waits for an answer\n" +
				"main › Create this task?\n- title: Ann\n",
			"Create this task?\n- title: Ann\n",
			"· orchestrator: two tasks\n  · tasks: a task\n  · tasks waits for an answer\n· orchestrator waits for an answer\n",
		},
		"long words of agents below are short": {
			[]update{work("c", "a", "tasks", "failed", strings.Repeat("word ", 200)), work("c", "a", "tasks", "canceled", strings.Repeat("word ", 200))},
			"", "", "✗ tasks failed: " + strings.Repeat("word ", 47) + "word…\n■ tasks cancelled: " + strings.Repeat("word ", 23) + "word…\n",
		},
		"steps of a workflow, each once": {
			[]update{
				{state: working, agent: "b", step: 2, steps: 5, stage: "naming_it"},
				{state: working, agent: "b", step: 2, steps: 5, stage: "naming_it", text: "thinking"},
				{state: asks, agent: "b", step: 3, steps: 5, text: "Its name?"},
			},
			"· b: step 2 of 5 (naming it)\n· thinking\n· b: step 3 of 5\nb › Its name?\n",
			"Its name?\n", "· b: step 2 of 5 (naming it)\n· thinking\n· b: step 3 of 5\n",
		},
		"a step that the agent tells in words is not told twice": {
			[]update{{state: working, agent: "b", step: 1, steps: 5, stage: "naming", text: "Step 1 of 5: naming"}},
			"", "", "· Step 1 of 5: naming\n",
		},
		"an answer that comes with the end only": {
			[]update{moved(completed, "third", "All of it.")}, "third › All of it.\n", "All of it.\n", "",
		},
		"an end that repeats the answer does not": {
			[]update{said("main", "All of it.\n", true), moved(completed, "main", "All of it.")},
			"main › All of it.\n", "All of it.\n", "",
		},
		"why a task failed": {
			[]update{said("main", "Well", true), {state: failed, reason: mesh.ReasonInterrupted}},
			"main › Well\n✗ failed: INTERRUPTED\n", "Well\n", "✗ failed: INTERRUPTED\n",
		},
		"a handoff and the way back": {
			[]update{
				said("main", "Sure.", true),
				{state: working, handoff: &handoffNote{from: "main", to: "builder", reason: "a skill"}},
				said("main", "What?", true),
				{state: working, returned: &returnNote{from: "builder", outcome: "cancelled", summary: "left"}},
				{state: canceled, reason: mesh.ReasonHandedOff, text: "You are back."},
			},
			"main › Sure.\n→ Connecting you with builder... (a skill)\nmain › What?\n← back from builder (cancelled): left\n· You are back.\n",
			"Sure.\nWhat?\n",
			"→ Connecting you with builder... (a skill)\n← back from builder (cancelled): left\n· You are back.\n",
		},
		"the task as a whole is no news": {
			[]update{{snapshot: true, state: failed, text: "old"}, {lost: true, resumed: true}, {lost: true}, said("main", "New.", true)},
			"· connection lost, going on where it broke\n· no answer, trying again\nmain › New.\n", "New.\n", "· connection lost, going on where it broke\n· no answer, trying again\n",
		},
		"nothing that steers a terminal": {
			[]update{said("ma\x1b[2Jin", "a\x1b[31mb\u202ec\r\n\td", true)},
			"ma[2Jin › a[31mbc\n\td\n", "a\x1b[31mb\u202ec\r\n\td\n", "",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			show := func(rich bool) (text, note string) {
				v := newView(rich)
				add := func(a, b string) { text, note = text+a, note+b }
				for _, u := range tt.updates {
					add(v.show(u))
				}
				add(v.end(working))
				return text, note
			}
			text, note := show(false)
			if d := cmp.Diff([]string{tt.plain, tt.note}, []string{text, note}); d != "" {
				t.Errorf("plain view: -want +got\n%s", d)
			}
			if tt.rich == "" {
				tt.rich = tt.note
			}
			text, note = show(true)
			if d := cmp.Diff([]string{tt.rich, ""}, []string{text, note}); d != "" {
				t.Errorf("rich view: -want +got\n%s", d)
			}
		})
	}
}

// A stream may end with a state that no update told.
func TestAViewEndsWithTheStateThatWasNotShown(t *testing.T) {
	v := newView(false)
	if _, note := v.end(failed); note != "✗ failed\n" {
		t.Errorf("note %q, want that it failed", note)
	}
	v = newView(false)
	v.show(moved(failed, "", "why"))
	if text, note := v.end(failed); text+note != "" {
		t.Errorf("it was said before, and is again: %q", text+note)
	}
}

// A broken stream is tried again only where that repeats nothing.
func TestATurnGoesOnOnlyWhereNothingIsRepeated(t *testing.T) {
	away := mesh.Errorf(mesh.Unavailable, "op", "away")
	tests := map[string]struct {
		seen []update
		err  error
		want bool
	}{
		"nothing came":                   {nil, away, true},
		"the task came without a cursor": {[]update{{task: "t", snapshot: true}}, away, true},
		"the task came with a cursor":    {[]update{{task: "t", snapshot: true, seq: 2}}, away, true},
		"text came with a cursor":        {[]update{{task: "t", seq: 3, text: "a"}}, away, true},
		"text came without one":          {[]update{{task: "t", snapshot: true}, {task: "t", text: "a"}}, away, false},
		"the mesh refused":               {nil, mesh.Errorf(mesh.Denied, "op", "no"), false},
	}
	for name, tt := range tests {
		turn := newTurn(thread, "", "hi")
		for _, u := range tt.seen {
			turn.note(u)
		}
		if got := turn.retryable(tt.err); got != tt.want {
			t.Errorf("%s: retryable is %v, want %v", name, got, tt.want)
		}
	}
}

// What comes from any agent is read without trusting its shape.
func TestDecodeTakesWhatItKnows(t *testing.T) {
	ext, err := structpb.NewStruct(map[string]any{mesh.ExtensionURI: map[string]any{
		"seq": 7.0, "agent": "b", "step": 2.0, "steps": 5.0, "state": "naming", "execution": "not a struct",
		"handoff_return": map[string]any{"source_agent_id": "b", "outcome": "completed", "summary": "made"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	u := decode(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{StatusUpdate: &a2apb.TaskStatusUpdateEvent{
		TaskId: "t", ContextId: "c", Status: &a2apb.TaskStatus{State: working}, Metadata: ext}}})
	u.raw = nil
	want := update{task: "t", thread: "c", seq: 7, state: working, agent: "b", step: 2, steps: 5, stage: "naming",
		returned: &returnNote{from: "b", outcome: "completed", summary: "made"}}
	if d := cmp.Diff(want, u, cmp.AllowUnexported(update{}, returnNote{}, executionNote{}, handoffNote{})); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	for _, empty := range []*a2apb.StreamResponse{nil, {}, {Payload: &a2apb.StreamResponse_Task{}},
		{Payload: &a2apb.StreamResponse_StatusUpdate{}}, {Payload: &a2apb.StreamResponse_ArtifactUpdate{}}} {
		if u := decode(empty); u.text != "" || u.seq != 0 {
			t.Errorf("decode(%v) = %+v, want nothing in it", empty, u)
		}
	}
}

func TestPartsThatAreNoTextAreNamed(t *testing.T) {
	parts := []*a2apb.Part{
		{Content: &a2apb.Part_Text{Text: "See "}}, {Content: &a2apb.Part_Text{Text: "this:"}},
		{Content: &a2apb.Part_Data{Data: structpb.NewNumberValue(3)}},
		{Content: &a2apb.Part_Url{Url: "https://x/y"}, Filename: "y.png", MediaType: "image/png"},
		{Content: &a2apb.Part_Raw{Raw: []byte("1234")}},
	}
	want := "See this:\n3\n[file y.png (image/png): https://x/y]\n[file 4 bytes]"
	if got := partsText(parts); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzPrintableKeepsTheTerminalSafe(f *testing.F) {
	f.Add("a\x1b[2Jb\x9b31m\u202e\x00\r\n\t\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := printable(s)
		if strings.ContainsAny(got, "\x1b\x00\r\x07\u009b\u202e") {
			t.Errorf("printable(%q) = %q", s, got)
		}
		if strings.ContainsAny(oneLine(s), "\n\t\r") {
			t.Errorf("oneLine(%q) = %q has more than one line", s, oneLine(s))
		}
	})
}

// What an agent says that nobody can see ends no line, and a note does not stand in a sentence.
func TestANoteStandsBehindTheSentence(t *testing.T) {
	v := newView(true)
	got := v.say("main", "Counting", true) + v.say("main", "\r", false)
	text, _ := v.aside("· worker started")
	got += text + v.say("main", " to ten.\n\nThen", false) + v.newline()
	if want := "main › Counting to ten.\n\n· worker started\nThen\n"; got != want {
		t.Errorf("shown is %q, want %q", got, want)
	}
}

// Any text that JSON can have is the same in YAML.
func TestYAMLHasTheTextsOfJSON(t *testing.T) {
	want := "a\u0085--- b\u2028 c\u2029\u007f\ufeff\ufffe\uffff\U0001F600\n\"'"
	line, err := jsonLine(&meshv1.Agent{Name: want})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := yamlDocument(line)
	var got map[string]any
	if err == nil {
		err = yaml.Unmarshal([]byte(doc), &got)
	}
	if err != nil || got["name"] != want {
		t.Errorf("%q, %v of\n%s", got["name"], err, doc)
	}
}
