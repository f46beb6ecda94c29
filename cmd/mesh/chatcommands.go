package main

import (
	"context"
	"fmt"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// chatHelp is what /help says.
const chatHelp = `/agents   the agents of the mesh
/thread   this conversation's id and who has it
/status   who is at work in it, and how far they are
/exit     leave the agent that took over; the main agent has you back
/quit     leave the chat (also Ctrl-D)
//text    say a text that begins with '/'
Ctrl-C    stop the running turn; at the prompt, leave
`

// command runs a line that begins with '/'.
func (c *chat) command(ctx context.Context, text string) error {
	if text == "/exit" {
		return c.exit(ctx)
	}
	// Look-ups are short: they must not hang a chat.
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	switch text {
	case "/quit":
		return errLeave
	case "/help":
		c.tell(chatHelp)
		return nil
	case "/agents":
		return c.listAgents(ctx)
	case "/thread":
		return c.describe(ctx)
	case "/status":
		return c.status(ctx)
	}
	return mesh.InvalidField("mesh.chat", "command",
		"%q is unknown; /help lists the commands, and '//' begins a text with '/'", clip(text, 40))
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

// pickUp takes a thread up where it was left: who has the stream, which task
// waits for an answer, and the ends of the turns that still run, one after the
// other. A thread that does not exist yet begins with the first message.
func (c *chat) pickUp(ctx context.Context) error {
	for followed := ""; ; {
		open, err := c.resume(ctx)
		id := open.GetExecution().GetId()
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
