package main

import (
	"bufio"
	"io"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
)

// dispatched is an agent at work, by the thread's log.
type dispatched struct {
	id, agent, by   string
	issued, settled int64
}

func dispatches(log []*meshv1.Event) []dispatched {
	var all []dispatched
	for _, e := range log {
		if d := e.GetDispatchIssued(); d != nil {
			all = append(all, dispatched{id: d.GetChild().GetId(), agent: d.GetChild().GetAgent(), by: e.GetActor(), issued: e.GetSeq()})
		}
		for i := range all {
			if all[i].id == e.GetDispatchSettled().GetChild() {
				all[i].settled = e.GetSeq()
			}
		}
	}
	return all
}

// skillsOf are the skills that the execution called, in order.
func skillsOf(log []*meshv1.Event, execution string) []string {
	var calls []string
	for _, e := range log {
		if e.GetExecutionId() == execution && e.GetSkillCalled() != nil {
			calls = append(calls, e.GetSkillCalled().GetSkill())
		}
	}
	return calls
}

// madeCalls are the calls of skills in the log, with their arguments, in order.
func madeCalls(log []*meshv1.Event) []string {
	var calls []string
	for _, e := range log {
		if c := e.GetSkillCalled(); c != nil {
			calls = append(calls, c.GetSkill()+" "+c.GetArgs())
		}
	}
	return calls
}

// log0 is log for a thread that may not exist yet.
func (m *realMesh) log0(id string) []*meshv1.Event {
	m.t.Helper()
	if m.mesh("threads", "show", id).code == exitNotFound {
		return nil
	}
	return m.log(id)
}

// added are the files of now that are not in before.
func added(before, now []string) []string {
	return slices.DeleteFunc(slices.Clone(now), func(f string) bool { return slices.Contains(before, f) })
}

// checkMail checks that the files are the one mail that e asks for.
func checkMail(t *testing.T, e errand, files []string) {
	t.Helper()
	if e.mailTo == "" {
		if len(files) > 0 {
			t.Errorf("%q made the mails %v", e.request, files)
		}
		return
	}
	if len(files) != 1 {
		t.Fatalf("%q made the mails %v, want one", e.request, files)
	}
	f, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	msg, err := mail.ReadMessage(f)
	if err != nil {
		t.Fatal(err)
	}
	to, err := msg.Header.AddressList("To")
	if err != nil || len(to) != 1 || to[0].Address != e.mailTo {
		t.Errorf("the mail goes to %v (%v), want %s", to, err, e.mailTo)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(msg.Body))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range e.mail {
		if !strings.Contains(string(body), part) {
			t.Errorf("%q is not in the mail:\n%s", part, body)
		}
	}
	if e.mailNot != "" && strings.Contains(string(body), e.mailNot) {
		t.Errorf("%q is in the mail:\n%s", e.mailNot, body)
	}
}

// readEvent returns the properties of the one event in an iCalendar file.
func readEvent(t *testing.T, path string) map[string]string {
	t.Helper()
	props := map[string]string{}
	text := strings.ReplaceAll(readFile(t, path), "\r\n ", "") // folded lines
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		name, _, _ = strings.Cut(name, ";")
		props[name] = value
	}
	return props
}

func eventTime(t *testing.T, value string) time.Time {
	t.Helper()
	at, err := time.Parse("20060102T150405Z", value)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
