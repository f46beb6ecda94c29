package main

import (
	"cmp"
	"fmt"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// threadHead says in a line what a thread is.
func threadHead(th *meshv1.Thread) string {
	whose := ""
	if owner := th.GetOwner(); owner != "" {
		whose = fmt.Sprintf("of %s, shared with %s\n", oneLine(owner), withWhom(th.GetReadable(), th.GetParticipants()))
	}
	return fmt.Sprintf("thread %s, %d events, with %s, begun %s UTC\n%s",
		th.GetThreadId(), th.GetSeq(), withHandoff(th), stamp(th.GetCreated()), whose)
}

// withHandoff is who answers the next message, and how far the handoff is by which that is
// so, or was: one that is over and done with is not told of.
func withHandoff(th *meshv1.Thread) string {
	who := speakerName(th.GetActiveAgent())
	switch h := th.GetHandoffState(); h {
	case "", string(mesh.HandoffCompleted), string(mesh.HandoffCancelled), string(mesh.HandoffError):
		return who
	default:
		return who + " (handoff " + h + ")"
	}
}

// shared says what became of who may see a thread.
func shared(b mesh.ThreadShared) string {
	words := "shared with " + withWhom(b.Readable, b.Participants)
	if b.Owner != "" {
		words += "; it is " + oneLine(b.Owner) + "'s now"
	}
	return words
}

// withWhom says with whom a thread is shared.
func withWhom(readable bool, participants []string) string {
	who := strings.Join(participants, ", ")
	if readable {
		who = strings.TrimSuffix("everybody to read, "+who, ", ")
	}
	return cmp.Or(oneLine(who), "nobody")
}

// threadTable returns threads as a table, one line each.
func threadTable(list []*meshv1.Thread) string {
	if len(list) == 0 {
		return "no threads\n"
	}
	rows := [][]string{{"THREAD", "UPDATED (UTC)", "EVENTS", "WITH", "SESSION", "TITLE"}}
	for _, th := range list {
		if th.GetDamaged() {
			rows = append(rows, []string{th.GetThreadId(), stamp(th.GetUpdated()), fmt.Sprint(th.GetSeq()),
				"-", "-", strings.TrimSpace("(damaged: 'mesh status' says more) " + clip(th.GetTitle(), 30))})
			continue
		}
		rows = append(rows, []string{th.GetThreadId(), stamp(th.GetUpdated()), fmt.Sprint(th.GetSeq()),
			withHandoff(th), sessionWords(th.GetSession()), clip(th.GetTitle(), 60)})
	}
	return table(rows)
}

// sessionWords says with which agent a session was, and where it stands; "-" without one.
func sessionWords(s *meshv1.Session) string {
	if s == nil {
		return "-"
	}
	said := speakerName(s.GetAgent())
	if n := s.GetStep(); n > 0 {
		said += fmt.Sprintf(" %d/%d", n, max(n, s.GetSteps()))
	}
	if s.GetState() != "" {
		said += " " + oneLine(strings.ReplaceAll(s.GetState(), "_", " "))
	}
	if s.GetResumable() {
		said += ", left"
	}
	return said
}
