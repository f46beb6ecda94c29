package main

import (
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
)

// Of a damaged conversation the list has what is known, and says why there is no more.
func TestTheListOfThreadsSaysWhichIsDamaged(t *testing.T) {
	rows := strings.Split(threadTable([]*meshv1.Thread{{ThreadId: "t1", Seq: 3, Owner: "ann", Damaged: true}}), "\n")
	if want := "t1 - 3 - - (damaged: 'mesh status' says more)"; strings.Join(strings.Fields(rows[1]), " ") != want {
		t.Errorf("shown as %q, want %q", rows[1], want)
	}
}

// S4-080, S4-082: the list says who has the conversation, and where its last session stands or was left.
func TestTheListOfThreadsSaysWhereSessionsStand(t *testing.T) {
	at := func(s *meshv1.Session) *meshv1.Session { s.Agent = "skill-builder"; return s }
	for name, tt := range map[string]struct {
		active, handoff string
		session         *meshv1.Session
		with, says      string
	}{
		"none":         {"main", "", nil, "main", "-"},
		"active":       {"skill-builder", "active", at(&meshv1.Session{Step: 2, Steps: 5, State: "defining_triggers"}), "skill-builder (handoff active)", "skill-builder 2/5 defining triggers"},
		"parked":       {"main", "parked", at(&meshv1.Session{Step: 2, Steps: 5, State: "defining_triggers"}), "main (handoff parked)", "skill-builder 2/5 defining triggers"},
		"left":         {"main", "cancelled", at(&meshv1.Session{Step: 2, Steps: 5, Resumable: true}), "main", "skill-builder 2/5, left"},
		"it says none": {"skill-builder", "pending", at(&meshv1.Session{}), "skill-builder (handoff pending)", "skill-builder"},
		"of nonsense":  {"main", "error", at(&meshv1.Session{Step: 7, State: "a\x1b[31m\nb"}), "main", "skill-builder 7/7 a"},
	} {
		t.Run(name, func(t *testing.T) {
			row := strings.Split(threadTable([]*meshv1.Thread{{ThreadId: "t1", Seq: 3, ActiveAgent: tt.active, HandoffState: tt.handoff, Session: tt.session, Title: "What"}}), "\n")
			if len(row) != 3 || strings.ContainsAny(row[1], "\x1b") || !strings.Contains(row[1]+"  ", "  "+tt.with+"  ") || !strings.Contains(row[1], tt.says) || !strings.HasSuffix(strings.TrimSpace(row[1]), "What") {
				t.Errorf("shown as\n%s", strings.Join(row, "\n"))
			}
		})
	}
}
