package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	fold "agentmesh/mesh/thread"
)

// chatHelp is what /help says.
const chatHelp = `/agents   the agents of the mesh
/agent    talk to another agent: /agent NAME; without a name, to main again
/skills   the skills of the mesh
/thread   this conversation's id and who has it; /thread ID goes on with another
/status   who is at work in it, and how far they are
/withdraw take back what was said while a turn runs, the last first
/exit     leave the agent that took over; the main agent has you back
/quit     leave the chat (also Ctrl-D)
//text    say a text that begins with '/'
Ctrl-C    stop the running turn; at the prompt, leave
`

// chatCommands are what a line can begin with.
var chatCommands = []string{"/agent", "/agents", "/exit", "/help", "/quit", "/skills", "/status", "/thread", "/withdraw"}

// command runs a line that begins with '/'.
func (c *chat) command(ctx context.Context, text string) error {
	name, arg, _ := strings.Cut(text, " ")
	arg = strings.TrimSpace(arg)
	switch {
	case text == "/exit":
		return c.exit(ctx)
	case name == "/thread" && arg != "":
		return c.change(ctx, arg)
	}
	// Look-ups are short: they must not hang a chat.
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	switch {
	case name == "/agent":
		return c.address(ctx, arg)
	case arg != "": // no other command has something to say
	case name == "/quit":
		return errLeave
	case name == "/help":
		c.tell(chatHelp)
		return nil
	case name == "/agents":
		return c.listAgents(ctx)
	case name == "/skills":
		return c.listSkills(ctx)
	case name == "/thread":
		return c.describe(ctx)
	case name == "/status":
		return c.status(ctx)
	case name == "/withdraw":
		return c.withdraw(ctx)
	}
	return mesh.InvalidField("mesh.chat", "command",
		"%q is unknown; /help lists the commands, and '//' begins a text with '/'", clip(text, 40))
}

// address has the agent get what is said from now on; main for "".
func (c *chat) address(ctx context.Context, name string) error {
	if name == "" {
		c.agent = ""
		c.tell("· to the main agent from now on\n")
		return nil
	}
	if err := new(agentName).Set(name); err != nil {
		return mesh.InvalidField("mesh.chat", "agent", "%v", err)
	}
	resp, err := c.client.agents.GetAgent(c.client.call(ctx, c.thread), &meshv1.GetAgentRequest{Name: name})
	if err != nil {
		return err
	}
	c.agent = resp.GetAgent().GetName()
	c.tell("· to " + oneLine(c.agent) + " from now on; /agent goes back to main\n")
	return nil
}

// change goes on with another thread.
func (c *chat) change(ctx context.Context, id string) error {
	id, err := parseThread("/thread", id)
	if err != nil {
		return mesh.InvalidField("mesh.chat", "thread", "%v; 'mesh threads list' shows them", err)
	}
	*c = chat{app: c.app, client: c.client, lines: c.lines, rich: c.rich, costs: c.costs, term: c.term, thread: id, agent: c.agent, failed: c.failed}
	c.tell("· thread " + id + "\n")
	return c.pickUp(ctx)
}

func (c *chat) listSkills(ctx context.Context) error {
	list, more, err := c.client.listSkills(ctx, &meshv1.ListSkillsRequest{}, false)
	if err != nil {
		return err
	}
	c.tell(skillTable(list))
	if more {
		c.tell("there are more; 'mesh skills list --all' lists all\n")
	}
	return nil
}

// tell shows what no agent said.
func (c *chat) tell(text string) {
	if c.rich {
		c.app.printf("%s", text)
		return
	}
	c.app.notef("%s", text)
}

func (c *chat) listAgents(ctx context.Context) error {
	resp, err := c.client.agents.ListAgents(c.client.call(ctx, c.thread), &meshv1.ListAgentsRequest{})
	if err != nil {
		return err
	}
	c.tell(agentTable(resp.GetAgents()))
	return nil
}

func (c *chat) describe(ctx context.Context) error {
	resp, err := c.client.threads.GetThread(c.client.call(ctx, c.thread), &meshv1.GetThreadRequest{ThreadId: c.thread})
	switch {
	case mesh.IsCode(err, mesh.NotFound):
		c.tell(fmt.Sprintf("thread %s, nothing in it yet\n", c.thread))
		return nil
	case err != nil:
		return err
	}
	th := resp.GetThread()
	c.tell(fmt.Sprintf("thread %s, %d events, with %s\n", c.thread, th.GetSeq(), speakerName(th.GetActiveAgent())))
	return nil
}

// status tells who is at work in the conversation.
func (c *chat) status(ctx context.Context) error {
	t, err := c.client.executions(ctx, c.thread, true)
	switch {
	case mesh.IsCode(err, mesh.NotFound):
		c.tell("nothing in this conversation yet\n")
		return nil
	case err != nil:
		return err
	}
	c.tell(t.last().text(time.Now()))
	return nil
}

// exit leaves the agent that took over, whoever gave the conversation to it, as the message
// "exit" does, and shows what the agent says that has the user back.
func (c *chat) exit(ctx context.Context) error {
	last, err := c.lastHandoff(ctx)
	switch {
	case err != nil:
		return err
	case last == nil || last.GetEndedSeq() != 0:
		c.with, c.step = "", ""
		c.tell("no agent has taken over; /quit leaves the chat\n")
		return nil
	}
	t := newTurn(c.thread, "", mesh.ExitWord) // the mesh knows in which task of the user's that agent is
	t.base = c.seq
	return c.follow(ctx, t)
}

// lastHandoff returns the thread's handoff that is active or was last, or nil.
func (c *chat) lastHandoff(ctx context.Context) (*meshv1.Handoff, error) {
	ctx, cancel := context.WithTimeout(c.client.call(ctx, c.thread), lookupTimeout)
	defer cancel()
	resp, err := c.client.handoffs.GetHandoff(ctx, &meshv1.GetHandoffRequest{ThreadId: c.thread})
	if err != nil && !mesh.IsCode(err, mesh.NotFound) {
		return nil, err
	}
	return resp.GetHandoff(), nil
}

// recapped is how many messages of before a chat shows that goes on, and
// recappedBytes how much of each.
const (
	recapped      = 10
	recappedBytes = 4000
)

// saidIn are the messages with a text that the events, the last ones of a thread, have, but for
// what the open turn says, which is shown when it is followed.
func saidIn(events []*meshv1.Event, open string) (said []*fold.Line) {
	known := map[*fold.Line]bool{}
	var t fold.Transcript
	for _, ev := range events {
		if l := t.Apply(decoded(ev)); l != nil && !known[l] && l.Reply == nil && (string(l.Turn) != open || l.Agent() == "") {
			known[l] = true
			said = append(said, l)
		}
	}
	return slices.DeleteFunc(said, func(l *fold.Line) bool { return strings.TrimSpace(l.Utterance().Text) == "" })
}

// recap shows a person what was said before in the thread, up to the turn that is open.
func (c *chat) recap(ctx context.Context, open string) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var events []*meshv1.Event
	var said []*fold.Line
	for more := true; more && len(said) <= recapped; {
		req := &meshv1.ReadThreadRequest{ThreadId: c.thread, Limit: 1000, Brief: true, Tail: true}
		if len(events) > 0 {
			req.BeforeSeq = events[0].GetSeq()
		}
		resp, err := c.client.threads.ReadThread(c.client.call(ctx, c.thread), req)
		if err != nil {
			return err
		}
		events = append(resp.GetEvents(), events...)
		more, said = resp.GetMore() && len(resp.GetEvents()) > 0, saidIn(events, open)
	}
	if more := len(said) - recapped; more > 0 {
		c.tell(fmt.Sprintf("· more was said before; 'mesh threads show %s' prints all\n", c.thread))
		said = said[more:]
	}
	v := c.view()
	for _, l := range said {
		u, who := l.Utterance(), "you"
		if u.Role == fold.RoleAgent {
			who = speakerName(u.Agent)
		}
		v.speaker = ""
		c.app.show(v.say(who, mesh.Clip(u.Text, recappedBytes), true), "")
	}
	c.app.show(v.newline(), "")
	return nil
}

// pickUp takes a thread up where it was left: who has the stream, which task
// waits for an answer, and the ends of the turns that still run, one after the
// other. A thread that does not exist yet begins with the first message.
func (c *chat) pickUp(ctx context.Context) error {
	for followed := ""; ; {
		open, err := c.resume(ctx)
		id := open.GetExecution().GetId()
		if followed == "" && err == nil && c.rich && c.seq > 0 {
			if bad := c.recap(ctx, runningTurn(open)); bad != nil && ctx.Err() == nil {
				c.tell("! what was said before cannot be shown: " + what(bad) + "\n")
			}
		}
		switch {
		case err != nil || open == nil || id == followed:
			return err
		case mesh.Interrupted(open.GetState()):
			c.task = id
			c.tell("· " + withText("an answer is waited for, to", clip(open.GetExecution().GetText(), 80)) + "\n")
			return nil
		}
		c.tell("· a turn is running; this is what it says\n")
		err = c.survive(ctx, c.follow(ctx, &turn{thread: c.thread, task: id, hasCursor: true}))
		if err == nil { // what was typed meanwhile is shown once
			err = c.drain(ctx)
		}
		if err != nil || c.task != "" {
			return err
		}
		followed = id
	}
}

// resume asks for the state of the thread and returns the turn that is open.
func (c *chat) resume(ctx context.Context) (*meshv1.ExecutionState, error) {
	look, cancel := context.WithTimeout(c.client.call(ctx, c.thread), lookupTimeout)
	defer cancel()
	resp, err := c.client.threads.GetThread(look, &meshv1.GetThreadRequest{ThreadId: c.thread})
	if mesh.IsCode(err, mesh.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c.seq = mesh.Seq(resp.GetThread().GetSeq())
	last, err := c.lastHandoff(ctx)
	if err != nil {
		return nil, err
	}
	if mesh.HandoffState(last.GetState()).Stands() {
		c.with = last.GetTargetAgentId()
	}
	return openTurn(resp.GetThread()), nil
}

// runningTurn is the id of the turn if it runs, or "".
func runningTurn(open *meshv1.ExecutionState) string {
	if mesh.Interrupted(open.GetState()) {
		return ""
	}
	return open.GetExecution().GetId()
}

// openTurn returns the turn that runs, as others wait for it, or else the
// thread's last one if it waits for an answer.
func openTurn(th *meshv1.Thread) *meshv1.ExecutionState {
	var last *meshv1.ExecutionState
	for _, e := range th.GetExecutions() {
		if e.GetExecution().GetKind() != string(mesh.KindTurn) {
			continue
		}
		if !mesh.Terminal(e.GetState()) && !mesh.Interrupted(e.GetState()) {
			return e
		}
		last = e
	}
	if last == nil || mesh.Terminal(last.GetState()) {
		return nil
	}
	return last
}
