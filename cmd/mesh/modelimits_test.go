package main

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/skills"
)

// In every mode and through every face the planner goes on at a limit with each
// yes, in whatever language, until all is done, once. After a no, and after words
// that are neither, it makes nothing more of it; the user is always told what is
// done and what is not, and words that are a request of their own are carried
// out (S3-042, S3-044, S3-114, S0-076).
func TestInEveryModeTheAnswerAtALimitCounts(t *testing.T) {
	t.Parallel()
	const request = "Create a task to call Ann, create a task to call Bob and create a task to call Carol"
	people := []string{"Ann", "Bob", "Carol"}
	tests := map[string]struct {
		answers []string
		made    int      // how many of the three; which, agents that work at once decide
		other   []string // tasks that are made beside them
		told    string
	}{
		"yes":              {answers: []string{"ja", "yes please"}, made: 3},
		"no":               {answers: []string{"no"}, made: 1},
		"yes and no":       {answers: []string{"weiter bitte", "nein danke"}, made: 2},
		"neither":          {answers: []string{"maybe"}, made: 1, told: "I did not understand “maybe”"},
		"yes and neither":  {answers: []string{"yes", "what?"}, made: 2},
		"something else":   {answers: []string{"no, create a task to call Dave"}, made: 1, other: []string{"Call Dave"}},
		"yes, but not all": {answers: []string{"yes, but only for Bob"}, made: 1, told: "I did not understand"},
	}
	for _, mode := range modes {
		t.Run(mode.mode+" "+mode.face, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "mesh.yaml"), "limits: {turn_calls: 1}\ntool_mode: "+mode.mode+"\nskill_interface: "+mode.face+"\n")
			m := up(t, dir)
			say := speaker(speakGRPC)
			for name, tt := range tests {
				t.Run(name, func(t *testing.T) {
					id := mesh.NewThreadID()
					h := say(t, m, id, request)
					for _, answer := range tt.answers {
						report := strings.Join(h.status, "\n")
						if !mesh.Interrupted(h.state) || strings.Count(report, "Would you like me to continue?") != 1 {
							t.Fatalf("before %q it ended %v, said %q, asked %q", answer, h.state, h.text, report)
						}
						h = say(t, m, id, answer)
					}
					if h.state != a2apb.TaskState_TASK_STATE_COMPLETED {
						t.Errorf("ended %v and asked %q", h.state, h.status)
					}
					if !strings.Contains(h.text, tt.told) || strings.Contains(h.text, "I have no skills") {
						t.Errorf("said %q, want %q in it", h.text, tt.told)
					}
					calls := madeCalls(m.log(id))
					made, want := 0, []string{}
					for _, person := range people {
						call := `tasks.create {"title":"Call ` + person + `"}`
						told := strings.Count(h.text, "Created task Call "+person+" (")
						switch {
						case !slices.Contains(calls, call):
							if told != 0 || !strings.Contains(h.text, "call "+person) {
								t.Errorf("%s was not made, which the answer does not say:\n%s", call, h.text)
							}
							continue
						case told != 1:
							t.Errorf("%s is told %d times:\n%s", call, told, h.text)
						}
						made++
						want = append(want, call)
					}
					for _, title := range tt.other {
						want = append(want, `tasks.create {"title":"`+title+`"}`)
						if !strings.Contains(h.text, "Created task "+title+" (") {
							t.Errorf("%s is not told:\n%s", title, h.text)
						}
					}
					slices.Sort(calls)
					if d := cmp.Diff(want, calls); d != "" || made != tt.made {
						t.Errorf("%d of the tasks were made, want %d: -want +got\n%s", made, tt.made, d)
					}
				})
			}
		})
	}
}

// In every mode what needs the user's word is made after a yes only, and so is
// what waits for it; otherwise the user is told that it is not made, and neither
// the answer nor what became of the first is the content of anything (S3-042,
// S3-044).
func TestInEveryModeTheAnswerToAnApprovalCounts(t *testing.T) {
	t.Parallel()
	const request = "Create a task to call Ann and then mail bob@example.com that it is done"
	page, err := fs.ReadFile(skills.FS, "tasks/create.md")
	if err != nil {
		t.Fatal(err)
	}
	asks := strings.Replace(string(page), "\naccess: write\n", "\naccess: write\nconfirm: Create this task?\n", 1)
	for _, mode := range modes {
		t.Run(mode.mode+" "+mode.face, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "mesh.yaml"), "tool_mode: "+mode.mode+"\nskill_interface: "+mode.face+"\n")
			writeFile(t, filepath.Join(dir, "skills", "tasks", "create.md"), asks)
			m := up(t, dir)
			say := speaker(speakGRPC)
			for answer, want := range map[string][]string{"ja": {"tasks.create", "mail.send"}, "no": nil, "weird": nil} {
				id := mesh.NewThreadID()
				say.asked(t, m, id, request) // by the planner, because of the mail
				if h := say(t, m, id, "yes"); !mesh.Interrupted(h.state) || !strings.Contains(strings.Join(h.status, "\n"), "Create this task?") {
					t.Fatalf("ended %v, said %q, asked %q", h.state, h.text, h.status)
				}
				h := say.complete(t, m, id, answer)
				var made []string
				for _, call := range madeCalls(m.log(id)) {
					name, _, _ := strings.Cut(call, " ")
					made = append(made, name)
				}
				if d := cmp.Diff(want, made); d != "" {
					t.Errorf("%q: -want +got\n%s", answer, d)
				}
				refused := strings.Contains(h.text, "the user did not allow it") && strings.Contains(strings.ToLower(h.text), "mail bob@example.com")
				if refused == (answer == "ja") || strings.Contains(h.text, "I did not understand “weird”") != (answer == "weird") {
					t.Errorf("after %q it said %s", answer, h.text)
				}
			}
		})
	}
}
