package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// An ending is how a handoff to a target ends, and what comes of that.
type ending struct {
	act   string
	state string // of the task
	back  string // what who has it back says, "" if the target had the last word
	log   string // how the handoff ends, "" if it goes on
}

const stateCanceled = "TASK_STATE_CANCELED"

// endings are those of a kind of target; those that know nothing of handoffs keep the
// conversation when they complete their task, and give it back when they cancel it.
func endings(kind string) []ending {
	all := []ending{
		{"fail", stateComplete, "Back: error.", "node error"}, {"die", stateComplete, "Back: error.", "node error"},
		{"hang", stateComplete, "Back: error.", "node error"}, {"wait", stateCanceled, "", ""},
	}
	switch kind {
	case castOurs:
		return append(all, ending{"done", stateComplete, "Back: completed.", "agent:ours completed"}, ending{"cancel", stateComplete, "Back: cancelled.", "agent:ours cancelled"})
	case castBuiltin:
		return []ending{{"done", stateComplete, "Back: completed.", "agent:skill-builder completed"}, {"cancel", stateComplete, "Back: cancelled.", "user:local cancelled"},
			{"exit", stateCanceled, "", "user:local cancelled"}}
	}
	return append(all, ending{"done", stateComplete, "", ""}, ending{"cancel", stateComplete, "Back: cancelled.", "node cancelled"})
}

const castBuiltin = "builtin"

// A cell is one conversation of the matrix.
type cell struct {
	way, kind string
	ending
}

func (c cell) String() string { return c.way + ", " + c.kind + ", " + c.act }

// Whatever way its user has into the mesh, to whatever kind of agent in a process of its own
// and however it ends, a handoff is one task with legal states and one end, its history is
// complete, and no event comes twice (S4-026, S4-028, S4-029, S4-042,
// S4-089).
func TestEveryWayTargetAndEndOfAHandoff(t *testing.T) {
	t.Parallel()
	var cells []cell
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		for _, kind := range append([]string{castBuiltin}, castKinds...) {
			for _, e := range endings(kind) {
				cells = append(cells, cell{way, kind, e})
			}
		}
	}
	if !*everyHandoff {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
		cells = cells[:len(cells)/6]
	}
	m := meshOf(t, "agent_return: 1s, agent_time: 5s, agent_silence: 1s", "egress: {allow: [127.0.0.0/8], allow_http: true}\n")
	for _, kind := range castKinds {
		m.cast(t, kind, kind)
	}
	for i, c := range cells {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			c.play(t, m, fmt.Sprint(c.kind, "-", i))
		})
	}
}

// play has the conversation; name is for a target that dies.
func (c cell) play(t *testing.T, m *realMesh, name string) {
	t.Helper()
	target := c.kind
	lines := []string{}
	thing := strings.Map(func(r rune) rune { // that no other skill is for: who wants the same is asked about those
		if r >= '0' && r <= '9' {
			return 'a' + r - '0'
		}
		return r
	}, strings.ReplaceAll(name, "-", ""))
	switch {
	case c.kind == castBuiltin && c.act == "done":
		target = "skill-builder"
		lines = []string{"Help me build a skill for converting " + thing, skillTalks[1].lines[1], "call it money." + strings.ReplaceAll(name, "-", "_") + ", use it for “convert money”", "yes"}
	case c.kind == castBuiltin:
		target, lines = "skill-builder", []string{"Help me build a skill for converting currencies"}
		if c.act == "cancel" {
			lines = append(lines, "cancel")
		}
	case c.act == "die":
		target = name
		m.cast(t, c.kind, name)
	}
	if len(lines) == 0 {
		lines = []string{"go"}
	}
	lines[0] = fmt.Sprintf("to=%s act=%s %s", target, c.act, lines[0])
	id := mesh.NewThreadID()
	if c.act == "wait" {
		stop := make(chan struct{})
		defer func() { <-stop }()
		go func() { defer close(stop); cancelAtWork(t, m, id, target) }() // it is waited for
	}
	var h heardTurn
	text := ""
	for i, line := range lines {
		task := h.task
		if h = ways[c.way](t, m, id, task, line); task != "" && h.task != task {
			t.Errorf("the answer is of the task %s, want %s", h.task, task)
		}
		if text += h.text; i < len(lines)-1 && h.state.String() != stateInput {
			t.Fatalf("%q ended %v: %q %q", line, h.state, h.text, h.status)
		}
	}
	if c.act == "exit" {
		if _, err := meshv1.NewHandoffServiceClient(m.dial()).EndHandoff(inThread(t, id), &meshv1.EndHandoffRequest{ThreadId: id, Outcome: "cancelled"}); err != nil {
			t.Fatal(err)
		}
	}
	c.check(t, m, id, target, h.task, text, len(lines))
}

// cancelAtWork cancels the thread's task when the target is at work on it.
func cancelAtWork(t *testing.T, m *realMesh, thread, target string) {
	ctx := inThread(t, thread)
	for follow := readerOf(ctx, m, thread); ; {
		e, err := follow()
		if err != nil {
			t.Errorf("%s was not at work: %v", target, err)
			return
		}
		if e.GetArtifactAppended() != nil && e.GetActor() == "agent:"+target {
			break
		}
	}
	task := m.log(thread)[0].GetExecutionId()
	if _, err := m.edge().CancelTask(ctx, &a2apb.CancelTaskRequest{Id: task}); err != nil {
		t.Errorf("the task is not canceled: %v", err)
	}
}

// check compares what was heard with the task as it is read, and looks at the log.
func (c cell) check(t *testing.T, m *realMesh, id, target, task, text string, messages int) {
	t.Helper()
	got := getTask(t, m, task)
	if got.GetStatus().GetState().String() != c.state {
		t.Errorf("the task is %v, want %s", got.GetStatus(), c.state)
	}
	if taskText(got) != text {
		t.Errorf("the task has %q, and its user heard %q", taskText(got), text)
	}
	if c.kind != castBuiltin {
		if want := "One moment. " + fmt.Sprintf(castWords, target) + c.back; text != want {
			t.Errorf("heard %q, want %q", text, want)
		}
	} else if !strings.HasPrefix(text, "One moment. ") || !strings.HasSuffix(text, c.back) {
		t.Errorf("heard %q", text)
	}
	log := m.log(id)
	want := "agent:lead to " + target
	if c.log != "" {
		want += ", " + c.log
	}
	if ends := strings.Join(handoffs(log), ", "); ends != want {
		t.Errorf("the handoff: %s, want %s", ends, want)
	}
	users := 0
	for _, h := range got.GetHistory() {
		if h.GetRole() == a2apb.Role_ROLE_USER {
			users++
		}
	}
	if users != messages {
		t.Errorf("the task's history has %d messages of the user, want %d", users, messages)
	}
	checkSound(t, log, messages)
	if t.Failed() {
		t.Log(short(log))
	}
}
