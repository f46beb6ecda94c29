package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// speech is what one agent said in a user's stream.
type speech struct{ agent, text string }

// speeches are who spoke in the user's stream of the message, in order, and whether the user
// was told of the work before the first word.
func speeches(t *testing.T, m *realMesh, thread, text string) (all []speech, told bool) {
	t.Helper()
	stream, err := m.edge().SendStreamingMessage(inThread(t, thread), userMessage(thread, text))
	for err == nil {
		u, failed := stream.Recv()
		if err = failed; err != nil {
			break
		}
		if a := u.GetArtifactUpdate(); a != nil {
			who := a.GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["agent"].GetStringValue()
			if n := len(all); n == 0 || all[n-1].agent != who {
				all = append(all, speech{agent: who})
			}
			all[len(all)-1].text += partsText(a.GetArtifact().GetParts())
		}
		told = told || len(all) == 0 && u.GetStatusUpdate().GetStatus().GetMessage() != nil
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return all, told
}

// There are two ways in which agents work together, and the user's stream differs. Asked
// something, main stays in control: it alone speaks, the user reads that somebody is asked
// while that one works, and who is asked is told its question and nothing of the conversation.
// For work in several steps with the user, main hands over: the specialist speaks to the user
// itself, under its own name, and keeps its state in the conversation's log (S4-001, S4-022,
// S4-025, S4-034, S4-075, S4-079, S4-081, S4-091, S4-092).
func TestTheTwoWaysOfWorkingTogether(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	id := mesh.NewThreadID()
	speaker(speakGRPC).complete(t, m, id, "Create a task to call Zebedee")
	before := len(m.log(id))

	all, told := speeches(t, m, id, "How do I configure rate limiting for my agent?")
	if len(all) != 1 || all[0].agent != "main" || !told {
		t.Errorf("asked something, %+v spoke, after word of the work: %v", all, told)
	}
	log := m.log(id)[before:]
	asked := slices.IndexFunc(log, func(e *meshv1.Event) bool {
		return e.GetActor() == "agent:main" && e.GetDispatchIssued() != nil
	})
	if asked < 0 || len(handoffs(log)) > 0 {
		t.Fatalf("nobody was asked, or handed over to: %s", short(log))
	}
	if d := log[asked].GetDispatchIssued(); strings.Contains(d.String(), "Zebedee") || !strings.Contains(partsText(d.GetMessage().GetParts()), "rate limiting") {
		t.Errorf("who was asked is told %v", d)
	}

	before += len(log)
	all, _ = speeches(t, m, id, "I want to create a skill that sends Slack alerts")
	if len(all) == 0 || all[len(all)-1].agent != "skill-builder" {
		t.Errorf("with the skill to build, %+v spoke", all)
	}
	log = m.log(id)[before:]
	if got := handoffs(log); !slices.Equal(got, []string{"agent:main to skill-builder"}) {
		t.Errorf("the handoff: %q", got)
	}
	if !slices.ContainsFunc(log, func(e *meshv1.Event) bool { return e.GetStateNoted() != nil && e.GetActor() == "agent:skill-builder" }) {
		t.Error("the specialist's state is not in the conversation's log")
	}
}
