package main

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/skills"
)

// upAsking starts a mesh whose mail.send is the binary's, with a question
// before each call.
func upAsking(t *testing.T, flags ...string) *realMesh {
	t.Helper()
	page, err := fs.ReadFile(skills.FS, "mail/send.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "skills", "mail", "send.md"), strings.Replace(string(page), "\naccess: write\n", "\naccess: write\nconfirm: Send this mail?\n", 1))
	return up(t, dir, flags...)
}

// approvalsOf are the questions and answers in the thread's log.
func (m *realMesh) approvalsOf(id string) string {
	m.t.Helper()
	var all []string
	for _, e := range m.log(id) {
		switch {
		case e.GetApprovalAsked() != nil:
			all = append(all, "asked "+e.GetApprovalAsked().GetSkill())
		case e.GetApprovalSettled().GetApproved():
			all = append(all, "approved "+e.GetApprovalSettled().GetText())
		case e.GetApprovalSettled() != nil:
			all = append(all, "refused "+e.GetApprovalSettled().GetText())
		}
	}
	return strings.Join(all, ", ")
}

// letterRequest is asked about once: where the skill asks, the planner does not.
const letterRequest = `Send a mail to bob@example.com with the subject "Report" saying "All is well"`

// A skill that asks has its effect after a plain yes and not before, in a chat,
// by 'mesh send' and over every A2A binding, whether the agent that calls it has
// the user's stream or was dispatched by two others.
func TestASkillThatAsksWaitsForTheUser(t *testing.T) {
	for _, way := range []struct{ mode, face string }{{"multi_agent", "cli"}, {"multi_agent", "json"}, {"single_loop", "json"}, {"single_loop", "cli"}, {"direct", "json"}} {
		t.Run(way.mode+" "+way.face, func(t *testing.T) {
			t.Parallel()
			m := upAsking(t, "--tool-mode", way.mode, "--skill-interface", way.face)
			sent := 0
			mails := func(more int) {
				t.Helper()
				sent += more
				if got := m.files("outbox/*.eml"); len(got) != sent {
					t.Fatalf("%d mails are sent, want %d", len(got), sent)
				}
			}
			approveInChat(t, m, mails)
			approveBySend(t, m, mails)
			for name, speak := range speakers {
				id, say := mesh.NewThreadID(), speak
				h := say(t, m, id, letterRequest)
				if h.state.String() != "TASK_STATE_INPUT_REQUIRED" || !strings.Contains(strings.Join(h.status, "\n"), "Send this mail?") {
					t.Fatalf("%s: ended %v: %s %q", name, h.state, h.text, h.status)
				}
				mails(0)
				answerTask(t, m, id, h.task, "yes")
				mails(1)
				if got, want := m.approvalsOf(id), "asked mail.send, approved yes"; got != want {
					t.Errorf("%s: the log has %s", name, got)
				}
			}
		})
	}
}

// answerTask answers a task that waits, as a plain A2A client over REST does,
// and checks that this completes it.
func answerTask(t *testing.T, m *realMesh, thread, task, text string) {
	t.Helper()
	answer := userMessage(thread, text)
	answer.Message.TaskId = task
	var resp a2apb.SendMessageResponse
	readJSON(t, post(t, m, "/message:send", answer, ""), &resp)
	if got := resp.GetTask(); got.GetId() != task || got.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.Contains(taskText(got), "bob@example.com") {
		t.Errorf("the answer to %s leads to %v", task, got)
	}
}

// approveInChat says no, and then yes to the same request, at a terminal.
func approveInChat(t *testing.T, m *realMesh, mails func(int)) {
	t.Helper()
	id := mesh.NewThreadID()
	p := chatAt(t, m, id)
	at := p.stdout.len()
	for answer, more := range []int{0, 1} {
		p.enter(letterRequest + "\n")
		_, at = p.await(&p.stdout, at, `(?s)Send this mail\?.*to: bob@example\.com.*subject: Report.*you › $`)
		mails(0)
		p.enter([]string{"no\n", "yes\n"}[answer])
		_, at = p.await(&p.stdout, at, `(?s).*you › $`)
		mails(more)
	}
	p.enter("/quit\n")
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d; stderr: %s", code, p.stderr.String())
	}
	if got, want := m.approvalsOf(id), "asked mail.send, refused no, asked mail.send, approved yes"; got != want {
		t.Errorf("the log has %s", got)
	}
}

// approveBySend answers with what the command itself says. An answer that is
// more than a yes is none.
func approveBySend(t *testing.T, m *realMesh, mails func(int)) {
	t.Helper()
	for answer, more := range map[string]int{"yes": 1, "no": 0, "yes, but to carol@example.com": 0} {
		id := mesh.NewThreadID()
		asked := m.mesh("send", "--thread", id, letterRequest)
		if !strings.Contains(asked.stdout+asked.stderr, "Send this mail?") {
			t.Errorf("asked: %+v", asked)
		}
		mails(0)
		m.mesh("send", "--thread", id, answer)
		mails(more)
		if got, want := m.approvalsOf(id), "asked mail.send, "+map[int]string{0: "refused ", 1: "approved "}[more]+answer; !strings.HasPrefix(got, want) {
			t.Errorf("%q: the log has %s", answer, got)
		}
	}
}

// A question outlives the mesh that asked it.
func TestAQuestionOutlivesItsMesh(t *testing.T) {
	t.Parallel()
	m := upAsking(t)
	id := mesh.NewThreadID()
	say := speaker(speakGRPC)
	first := say.asked(t, m, id, letterRequest)
	m.kill9()
	again := up(t, m.dir)
	h := say.complete(t, again, id, "yes")
	if h.task != first.task || len(again.files("outbox/*.eml")) != 1 {
		t.Errorf("task %s, then %s; mails %v", first.task, h.task, again.files("outbox/*.eml"))
	}
}
