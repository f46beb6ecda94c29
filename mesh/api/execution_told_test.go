package api

import (
	"fmt"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// What an agent was told is known however late it is sent again, so that it is told once; and
// there is an end to what it can be told.
func TestAnInstructionThatIsSentAgainLateIsToldOnce(t *testing.T) {
	c := newCrew(t, "a")
	tell := func(id string) error {
		return errOf(c.TellExecution(user(t), &meshv1.TellExecutionRequest{ThreadId: c.key.ID, ExecutionId: string(c.ids["a"]), Text: "use blue", RequestId: id}))
	}
	for n := range thread.MaxTold {
		if err := tell(fmt.Sprint("r-", n)); err != nil {
			t.Fatal(n, err)
		}
		c.log(t, c.ids["a"], mesh.InstructionPosted{ID: fmt.Sprint("r-", n), Read: true})
	}
	if err := tell("one-more"); !mesh.IsCode(err, mesh.Exhausted) || mesh.FieldOf(err) != "text" {
		t.Errorf("more than may be: %v", err)
	}
	if got, err := c.TellExecution(user(t), &meshv1.TellExecutionRequest{ThreadId: c.key.ID, ExecutionId: string(c.ids["a"]), Text: "use blue", RequestId: "r-0"}); err != nil || got.GetOutcome() != "accepted" || got.GetExecution().GetInstructions() != 0 {
		t.Errorf("sent again: %v, %v", got, err)
	}
}

// An agent that is to end, or whose turn or dispatcher is, is told nothing more.
func TestAnAgentThatIsToEndIsToldNothing(t *testing.T) {
	c := newCrew(t, "a", "c")
	deep := c.dispatch(t, c.ids["c"], "worker", "deep")
	refused := func(id mesh.ExecutionID) bool {
		_, err := c.TellExecution(user(t), &meshv1.TellExecutionRequest{ThreadId: c.key.ID, ExecutionId: string(id), Text: "use blue"})
		return mesh.IsCode(err, mesh.Precondition) && mesh.FieldOf(err) == "execution_id"
	}
	if _, err := c.CancelExecution(user(t), &meshv1.CancelExecutionRequest{ThreadId: c.key.ID, ExecutionId: string(c.ids["c"])}); err != nil {
		t.Fatal(err)
	}
	if !refused(c.ids["c"]) || !refused(deep) || refused(c.ids["a"]) {
		t.Error("of one that is canceled, one below it and another one, not the first two are told nothing")
	}
	c.log(t, c.turn, mesh.CancelRequested{By: "ann"})
	if !refused(c.ids["a"]) {
		t.Error("one whose turn is canceled is told something")
	}
}
