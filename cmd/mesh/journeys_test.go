package main

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// overEachWay runs a test for each way into the mesh on a mesh of its own. On one of
// two nodes it runs for the way that asks most of them, whose streams go on at the
// other node: starting two nodes for all four would take too long.
func overEachWay(t *testing.T, test func(t *testing.T, m *realMesh, say speaker), extra ...string) {
	for name, say := range speakers {
		with := func(t *testing.T, m *realMesh) { test(t, m, say) }
		if name == "broken SSE" {
			onEach(t, name, with, extra...)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with(t, up(t, t.TempDir(), extra...))
		})
	}
}

// onEach runs a test on a mesh of its own, and on one of two nodes.
func onEach(t *testing.T, name string, test func(t *testing.T, m *realMesh), extra ...string) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t, up(t, t.TempDir(), extra...))
	})
	t.Run(name+" on two nodes", func(t *testing.T) {
		t.Parallel()
		test(t, upPair(t, t.TempDir()))
	})
}

// complete says text and checks that the turn completes.
func (say speaker) complete(t *testing.T, m *realMesh, thread, text string) heardTurn {
	t.Helper()
	h := say(t, m, thread, text)
	if got := h.state.String(); got != "TASK_STATE_COMPLETED" {
		t.Fatalf("%q ended %s: %s %q", text, got, h.text, h.status)
	}
	return h
}

// agreed says text, which is to be asked about before it is done, agrees, and
// checks that the turn completes (finding C11).
func (say speaker) agreed(t *testing.T, m *realMesh, thread, text string) heardTurn {
	t.Helper()
	say.asked(t, m, thread, text)
	return say.complete(t, m, thread, "yes")
}

// asked says text and checks that the user is asked something.
func (say speaker) asked(t *testing.T, m *realMesh, thread, text string) heardTurn {
	t.Helper()
	h := say(t, m, thread, text)
	if got := h.state.String(); got != "TASK_STATE_INPUT_REQUIRED" {
		t.Fatalf("%q ended %s: %s %q", text, got, h.text, h.status)
	}
	return h
}

// A question: main asks knowledge while the user sees that it does, and answers
// from documents with their names; the thread's log has all of it (S4-017,
// S4-043). The second question is about something that only this folder of
// documents knows.
func TestJourneyQuestionIsAnsweredFromDocuments(t *testing.T) {
	overEachWay(t, func(t *testing.T, m *realMesh, say speaker) {
		id := mesh.NewThreadID()
		checkAnswer(t, m, id, say.complete(t, m, id, "How do I configure rate limiting for my agent?"),
			"rate_limit", "Sources:\n- [1] ", "configuration.md")
	}, "--docs", "") // those in the binary
	t.Run("of the user's own folder", func(t *testing.T) { // finding U2, too
		t.Parallel()
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "handbook", "kitchen.md"),
			"# Kitchen\n\n## Descaling the espresso machine\n\nPour 40 ml of citric acid into the tank and press both buttons.\n")
		writeFile(t, filepath.Join(dir, "handbook", "drafts", "kitchen.md"), "# Descaling the espresso machine\n\nWith vinegar.\n")
		writeFile(t, filepath.Join(dir, "handbook", "latin.md"), "Descaling the espresso machine at the caf\xe9.\n")
		writeFile(t, filepath.Join(dir, "mesh.yaml"), "docs: handbook\ndocs_ignore: [drafts/]\n")
		m := up(t, dir)
		id := mesh.NewThreadID()
		h := speaker(speakGRPC).complete(t, m, id, "What is the way to descale the espresso machine?")
		checkAnswer(t, m, id, h, "citric acid", "Sources:\n- [1] kitchen.md, line 3: Kitchen > Descaling the espresso machine\n")
		if strings.Contains(h.text, "[2]") {
			t.Errorf("another page is a source:\n%s", h.text)
		}
		if status := m.mesh("status"); !strings.Contains(status.stdout, "docs: the other documents are searched\n  latin.md is not UTF-8 text") {
			t.Errorf("mesh status says\n%s", status.stdout)
		}
	})
}

func checkAnswer(t *testing.T, m *realMesh, id string, h heardTurn, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(h.text, p) {
			t.Errorf("%q is not in the answer:\n%s", p, h.text)
		}
	}
	log := m.log(id)
	if log[1].GetMessagePosted().GetMessage().GetContextId() != id {
		t.Errorf("the message is not the thread's: %v", log[1])
	}
	asked, said, stored := "", false, ""
	for _, e := range log {
		if d := e.GetDispatchIssued(); d.GetChild().GetKind() == string(mesh.KindAgent) && e.GetActor() != "node" {
			asked += d.GetChild().GetAgent()
			if d.GetChild().GetParent() != e.GetExecutionId() || d.GetMessage().GetContextId() != id {
				t.Errorf("the dispatch does not carry its thread and parent: %v", d)
			}
		}
		said = said || strings.Contains(partsText(e.GetTaskMoved().GetMessage().GetParts()), "Researching")
		if e.GetActor() == "agent:main" {
			stored += partsText(e.GetArtifactAppended().GetArtifact().GetParts())
		}
	}
	if asked != "knowledge" || !said {
		t.Errorf("main asked %q, and the user saw so: %v", asked, said)
	}
	if d := cmp.Diff(h.text, stored); d != "" {
		t.Errorf("the answer is not what the log has: -heard +stored\n%s", d)
	}
}

// An errand is a request and what must come of it.
type errand struct {
	request string
	agents  []string // that worked, sorted
	answer  []string // parts of the answer
	mailTo  string
	mail    []string // parts of the mail
	mailNot string   // what is not in it
	event   func(t *testing.T, event map[string]string, before time.Time)
}

// errands are told in this order in one thread: the later ones find the tasks
// of the earlier ones.
var errands = []errand{
	{
		request: `Create a task called "Send the invoice to Acme" due 2020-03-01`,
		agents:  []string{"orchestrator", "tasks"}, answer: []string{"Send the invoice to Acme"},
	},
	{
		request: "Find my overdue tasks, then email the report to bob@example.com and create a follow-up meeting tomorrow at 2pm",
		agents:  []string{"calendar", "mail", "orchestrator", "tasks"},
		answer:  []string{"bob@example.com", "Send the invoice to Acme", "14:00"},
		mailTo:  "bob@example.com", mail: []string{"Send the invoice to Acme"}, mailNot: "Pay rent",
		event: func(t *testing.T, event map[string]string, before time.Time) {
			at := eventTime(t, event["DTSTART"]).In(before.Location())
			if days := int(at.Sub(before).Hours()+24) / 24; at.Hour() != 14 || at.Minute() != 0 || days < 1 || days > 2 {
				t.Errorf("the meeting begins %v, want tomorrow at 14:00", at)
			}
		},
	},
	{
		request: "Show me what is overdue and mail it to carol@example.org",
		agents:  []string{"mail", "orchestrator", "tasks"},
		answer:  []string{"carol@example.org"},
		mailTo:  "carol@example.org", mail: []string{"Send the invoice to Acme"},
	},
	{
		request: `Create a task called "Pay rent" due 2126-12-01, then schedule a meeting with dave@example.com ` +
			"next Monday at 10:00 for 30 minutes, and email the plan to erin@example.com",
		agents: []string{"calendar", "mail", "orchestrator", "tasks"},
		answer: []string{"Pay rent", "dave@example.com", "erin@example.com"},
		mailTo: "erin@example.com", mail: []string{"Pay rent"}, mailNot: "Acme",
		event: func(t *testing.T, event map[string]string, before time.Time) {
			at, end := eventTime(t, event["DTSTART"]).In(before.Location()), eventTime(t, event["DTEND"])
			if at.Weekday() != time.Monday || at.Hour() != 10 || at.Before(before) || at.Sub(before) > 15*24*time.Hour {
				t.Errorf("the meeting begins %v, want next Monday at 10:00", at)
			}
			if end.Sub(at) != 30*time.Minute || !strings.Contains(event["ATTENDEE"], "dave@example.com") {
				t.Errorf("the meeting is %v", event)
			}
		},
	},
	{
		request: `Create a task "Order paper" due 2020-01-31, then look up my overdue tasks, then mail them to ` +
			"frank@example.net and book a retrospective meeting for Monday at 11am, and after that list my calendar for Monday",
		agents: []string{"calendar", "mail", "orchestrator", "tasks"},
		answer: []string{"frank@example.net", "Order paper", "Retrospective"},
		mailTo: "frank@example.net", mail: []string{"Order paper", "Send the invoice to Acme"}, mailNot: "Pay rent",
		event: func(t *testing.T, event map[string]string, before time.Time) {
			at := eventTime(t, event["DTSTART"]).In(before.Location())
			if at.Weekday() != time.Monday || at.Hour() != 11 || !strings.Contains(event["SUMMARY"], "etrospective") {
				t.Errorf("the meeting is %v", event)
			}
		},
	},
}

// Errands of one to five steps, with other words and names each time: what was
// asked for is on disk, once, and the answer says so. What depends on something
// waits for it; the rest runs in parallel (S0-002, S0-007, S4-017).
func TestJourneyErrandsLeaveWhatWasAskedFor(t *testing.T) {
	overEachWay(t, func(t *testing.T, m *realMesh, say speaker) {
		id := mesh.NewThreadID()
		for _, e := range errands {
			mails, events, seq := m.files("outbox/*.eml"), m.files("calendar/*.ics"), len(m.log0(id))
			before := time.Now()
			tell := say.complete
			if e.mailTo != "" {
				tell = say.agreed // no mail is sent before
			}
			h := tell(t, m, id, e.request)
			for _, part := range e.answer {
				if !strings.Contains(h.text, part) {
					t.Errorf("%q is not in the answer to %q:\n%s", part, e.request, h.text)
				}
			}
			var agents []string
			for _, d := range dispatches(m.log(id)[seq:]) {
				if !slices.Contains(agents, d.agent) && d.agent != "main" {
					agents = append(agents, d.agent)
				}
			}
			slices.Sort(agents)
			if d := cmp.Diff(e.agents, agents); d != "" {
				t.Errorf("the agents of %q: -want +got\n%s", e.request, d)
			}
			checkMail(t, e, added(mails, m.files("outbox/*.eml")))
			newEvents := added(events, m.files("calendar/*.ics"))
			if e.event == nil && len(newEvents) > 0 || e.event != nil && len(newEvents) != 1 {
				t.Errorf("%q made the events %v", e.request, newEvents)
			} else if e.event != nil {
				e.event(t, readEvent(t, newEvents[0]), before)
			}
		}
		checkOrder(t, m.log(id))
	})
}

// checkOrder looks at the second errand: mail and calendar wait for the search,
// and each is at work before the other is done.
func checkOrder(t *testing.T, log []*meshv1.Event) {
	t.Helper()
	all := dispatches(log)
	first := slices.IndexFunc(all, func(d dispatched) bool { return d.agent == "tasks" })
	var search, mail, meeting dispatched
	for _, d := range all[first+1:] {
		switch {
		case d.agent == "tasks" && search.id == "":
			search = d
		case d.agent == "mail" && mail.id == "":
			mail = d
		case d.agent == "calendar" && meeting.id == "":
			meeting = d
		}
	}
	if first := min(mail.issued, meeting.issued); search.settled == 0 || first < search.settled {
		t.Errorf("the search %+v is not done before %+v and %+v", search, mail, meeting)
	}
	if last := max(mail.issued, meeting.issued); last > min(mail.settled, meeting.settled) {
		t.Errorf("%+v and %+v are not at work at the same time", mail, meeting)
	}
	for _, d := range []dispatched{search, mail, meeting} {
		if d.by != "agent:orchestrator" {
			t.Errorf("%s was asked by %s", d.agent, d.by)
		}
	}
}

// One agent reads tasks and sends mail, one after the other, in parallel with
// another one that schedules; then one reply sums up (S0-010).
func TestJourneyOneAgentWithTwoSkillsBesideAnother(t *testing.T) {
	overEachWay(t, func(t *testing.T, m *realMesh, say speaker) {
		id := mesh.NewThreadID()
		say.complete(t, m, id, `Create a task called "Renew the certificate" due 2020-02-02`)
		seq := len(m.log(id))
		say.asked(t, m, id, "Send bob@example.com the overdue tasks report and schedule a review meeting")
		h := say.agreed(t, m, id, "tomorrow at 10am")
		if !strings.Contains(h.text, "bob@example.com") || !strings.Contains(h.text, "Review meeting") {
			t.Errorf("the reply does not sum up:\n%s", h.text)
		}
		checkMail(t, errand{mailTo: "bob@example.com", mail: []string{"Renew the certificate"}}, m.files("outbox/*.eml"))
		if got := readEvent(t, m.files("calendar/*.ics")[0])["SUMMARY"]; got != "Review meeting" {
			t.Errorf("the event is %q", got)
		}
		log := m.log(id)[seq:]
		var reporter, planner dispatched
		for _, d := range dispatches(log) {
			switch calls := strings.Join(skillsOf(log, d.id), " "); calls {
			case "tasks.search mail.send":
				reporter = d
			case "calendar.create":
				planner = d
			default:
				if calls != "" {
					t.Errorf("%s called %s", d.agent, calls)
				}
			}
		}
		if reporter.id == "" || planner.id == "" || max(reporter.issued, planner.issued) > min(reporter.settled, planner.settled) {
			t.Errorf("not in parallel: %+v and %+v", reporter, planner)
		}
	})
}

// An agent that only asks something is shown to wait for the answer, and not as
// cancelled.
func TestJourneyAQuestionOfAnAgentIsShownAsOne(t *testing.T) {
	onEach(t, "mesh", func(t *testing.T, m *realMesh) {
		id := mesh.NewThreadID()
		sent := m.mesh("send", "--thread", id, "Schedule a review meeting and send bob@example.com the overdue tasks report")
		if sent.asks(t); !strings.Contains(sent.stderr, "· orchestrator-1 (orchestrator) waits for an answer\n") {
			t.Errorf("shown was:\n%s", sent.stderr)
		}
		shown := m.mesh("threads", "show", id).succeeds(t)
		for _, want := range []string{"    ? orchestrator-1 (orchestrator) input required: When? ", "─ orchestrator-1 (orchestrator)  ? input required  "} {
			if !strings.Contains(shown, want) {
				t.Errorf("%q is not in:\n%s", want, shown)
			}
		}
		if strings.Contains(sent.stderr+shown, "cancel") {
			t.Errorf("something was cancelled:\n%s%s", sent.stderr, shown)
		}
	})
}

// skillTalks are conversations that end with a new skill.
var skillTalks = []struct {
	name  string
	lines []string
	steps string // part of the skill's file
}{
	{"slack.send_alert", []string{
		"I want to create a skill that sends Slack alerts",
		"It posts a short alert to a Slack channel; it needs the channel and the text",
		"slack.send_alert, when I say alert the team", "yes, save it"}, "--channel"},
	{"money.convert", []string{
		"Help me build a skill for converting currencies",
		"It looks up the rate and multiplies; it needs amount, source and target",
		"call it money.convert, use it for “convert money”", "yes"}, "--amount"},
}

// A new skill: main hands the stream over and says so, the user answers the
// skill builder's questions in its five states, the file is valid and offered,
// and the stream goes back to main, which confirms and has the next turn
// (S4-026 to S4-033, S4-044).
func TestJourneyNewSkillIsBuiltInAHandoff(t *testing.T) {
	overEachWay(t, func(t *testing.T, m *realMesh, say speaker) {
		for _, talk := range skillTalks {
			id := mesh.NewThreadID()
			var all heardTurn
			for i, text := range talk.lines {
				h := say(t, m, id, text)
				if i > 0 && h.task != all.task {
					t.Errorf("the answer to %q is of task %s, want %s", text, h.task, all.task)
				}
				want := "TASK_STATE_INPUT_REQUIRED"
				if i == len(talk.lines)-1 {
					want = "TASK_STATE_COMPLETED"
				} else {
					checkHandoff(t, m, id, i == 0)
				}
				if h.state.String() != want {
					t.Fatalf("%q ended %v: %s %q", text, h.state, h.text, h.status)
				}
				all.task, all.text = h.task, all.text+h.text
			}
			checkSkill(t, m, talk.name, talk.steps)
			checkReturn(t, m.log(id), all.text, talk.name)
			h := say.complete(t, m, id, "What are my overdue tasks?")
			if last := dispatches(m.log(id)); last[len(last)-1].agent != "tasks" || h.task == all.task {
				t.Errorf("after the handoff %+v was asked", last[len(last)-1])
			}
		}
	})
}

// checkHandoff checks what the mesh says about the handoff that is active.
func checkHandoff(t *testing.T, m *realMesh, id string, first bool) {
	t.Helper()
	h, _ := m.get("/mesh/v1/threads/" + id + "/handoff")["handoff"].(map[string]any)
	for field, want := range map[string]any{"threadId": id, "tenantId": "default", "userId": "local", "sourceAgentId": "main",
		"targetAgentId": "skill-builder", "returnExpected": true, "preserveState": true, "state": "active"} {
		if h[field] != want {
			t.Errorf("the handoff's %s is %v, want %v", field, h[field], want)
		}
	}
	if h["handoffReason"] == "" || h["contextSummary"] == "" || h["conversationHistoryCount"] != nil { // S4-076: word by word nothing goes along
		t.Errorf("the handoff does not say why, or what was said, or says more: %v", h)
	}
	log := m.log(id)
	said := slices.ContainsFunc(log, func(e *meshv1.Event) bool {
		return e.GetHandoffStarted().GetToName() != "" && e.GetActor() == "agent:main" // explicit
	})
	// In a later turn nobody but the specialist is asked anything.
	all := dispatches(log)
	if last := all[len(all)-1]; !said || !first && (last.agent != "skill-builder" || len(all) != 2) {
		t.Errorf("handed over by main: %v; asked were %+v", said, all)
	}
}

// checkSkill checks the file, and that the mesh offers what is in it.
func checkSkill(t *testing.T, m *realMesh, name, part string) {
	t.Helper()
	file := strings.Replace(name, ".", "/", 1) + ".md"
	text := m.file(filepath.Join("tenant-skills", "default", filepath.FromSlash(file)))
	s, err := skill.Parse(file, []byte(text))
	if err != nil || s.Name != name || !strings.Contains(text, part) {
		t.Errorf("the file is not the skill %s (%v):\n%s", name, err, text)
	}
	if shown := m.mesh("skills", "show", name, "--source").succeeds(t); shown != text {
		t.Errorf("the mesh shows\n%s\nand the file is\n%s", shown, text)
	}
}

// checkReturn checks that the log has the specialist's states in order, one
// handoff with its end, and that main has confirmed the skill.
func checkReturn(t *testing.T, log []*meshv1.Event, said, name string) {
	t.Helper()
	var states []string
	var order []string
	for _, e := range log {
		f := e.GetTaskMoved().GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()
		if s := f["state"].GetStringValue(); s != "" && e.GetActor() == "agent:skill-builder" {
			states = append(states, strconv.Itoa(int(f["step"].GetNumberValue()))+" "+s)
		}
		switch {
		case e.GetHandoffStarted() != nil:
			order = append(order, "started by "+e.GetActor())
		case e.GetHandoffEnded() != nil:
			order = append(order, e.GetHandoffEnded().GetOutcome()+" by "+e.GetActor())
		}
	}
	want := []string{"1 gathering_requirements", "2 defining_triggers", "3 generating", "4 testing", "5 complete"}
	if d := cmp.Diff(want, states); d != "" {
		t.Errorf("the states: -want +got\n%s", d)
	}
	if d := cmp.Diff([]string{"started by agent:main", "completed by agent:skill-builder"}, order); d != "" {
		t.Errorf("the handoff: -want +got\n%s", d)
	}
	if !strings.Contains(said, "'"+name+"' is now active") {
		t.Errorf("main did not confirm %s:\n%s", name, said)
	}
}

// A client that activated our extension is told of the handoff in data, another
// one in words only (S4-030, S4-033).
func TestJourneyHandoffIsAnnounced(t *testing.T) {
	onEach(t, "mesh", func(t *testing.T, m *realMesh) {
		for name, say := range speakers {
			h := say(t, m, mesh.NewThreadID(), "I want to create a skill that waters plants")
			told := slices.ContainsFunc(h.status, func(s string) bool { return strings.HasPrefix(s, "Connecting you with ") })
			if streams := name != "REST"; told != streams || h.handoff != (name == "gRPC") {
				t.Errorf("%s: told in words: %v, in data: %v; status %q", name, told, h.handoff, h.status)
			}
		}
	})
}
