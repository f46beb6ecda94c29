package thread_test

import (
	"fmt"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// said shows the conversation.
func (p *player) said() {
	t := new(thread.Transcript)
	for _, e := range p.log {
		t.Apply(e)
	}
	for _, u := range t.Said() {
		fmt.Fprintf(&p.out, "\t%s: %q\n", strings.TrimSpace(u.Role+" "+u.Agent), u.Text)
	}
}

// did shows what an execution of a turn did: "did EXECUTION TURN".
func (p *player) did(w []string) {
	a := thread.NewActions(mesh.ExecutionID(w[1]), mesh.ExecutionID(w[2]))
	for _, e := range p.log {
		a.Apply(e)
	}
	f := func(format string, args ...any) { fmt.Fprintf(&p.out, "\t"+format+"\n", args...) }
	for _, r := range a.Rounds {
		f("at %d %q: %d calls, limit met %v, waits %d times, answers %v", r.Posted, r.Text, len(r.Calls), r.Tripped, len(r.Waits), r.Answers)
	}
	for _, r := range a.Replies {
		f("replied at %d %q, %d calls, %d results, waits %v", r.Seq, r.Text, len(r.Tools), len(r.Results), r.Waits())
	}
	for _, c := range a.Below(mesh.ExecutionID(w[1])) {
		f("%s of %s: %s %s", c.Call, c.Execution, c.Skill, c.Status)
	}
	for _, x := range a.Dispatched() {
		f("dispatched %s %s, said %d pieces", x.ID, short(x.State), len(a.Output(x.ID)))
	}
	for _, q := range a.Answered() {
		f("%s of %s answered with %q", q.Call, q.Skill, a.Answer(q.Call))
	}
}
