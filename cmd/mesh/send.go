package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

// maxText bounds the text of a message, as the mesh does.
const maxText = mesh.MaxEvent

// sendOptions are the flags of 'mesh send'.
type sendOptions struct {
	json, noStream bool
	task           string
	resume         int64
	follow         bool // --resume was given
	agent          string
	files          []string
	speak          string // a file
}

func (a *app) sendCommand() *cobra.Command {
	var o sendOptions
	cmd := &cobra.Command{
		Use:   "send [flags] TEXT",
		Short: "Send one message and print the answer",
		Long: `Send one message and print the answer as it comes. TEXT is one argument; '-'
reads it from stdin. A file alone, as a spoken message, needs none.

The answer goes to stdout. The thread's id, who does what, and how to go on go
to stderr. The exit code is 1 when the task failed, was rejected or cancelled, and 7
when it waits for an approval or an answer of yours.

With --task and --resume nothing is sent: what happened in the task after that
Seq is printed, and what still happens.`,
		Example: `  mesh send "How do I configure rate limiting?"
  mesh send --thread 550e8400-e29b-41d4-a716-446655440000 "And per user?"
  mesh send - --json <question.txt
  mesh send --agent knowledge "How do I configure rate limiting?"
  mesh send --file report.pdf --file data.csv "Compare these"
  mesh send --file question.wav --speak answer.mp3
  mesh send --task 550e8400e29b41d4a716446655440000-0123456789abcdef "Yes, send it"
  mesh send --task 550e8400e29b41d4a716446655440000-0123456789abcdef --resume 12`,
		Args: func(cmd *cobra.Command, args []string) error {
			o.follow = cmd.Flags().Changed("resume")
			return a.checkSend(&o, args)
		},
		RunE: a.stream(func(ctx context.Context, c *client, args []string) error { return c.sendOnce(ctx, o, args) }),
	}
	flags := cmd.Flags()
	a.structured(cmd, &o.json, "print each event of the stream as one line of JSON")
	flags.StringArrayVar(&o.files, "file", nil, "send this `file` too, of any size that the mesh takes; may be given several times")
	flags.StringVar(&o.speak, "speak", "", "have the answer spoken, too, into this `file`; the mesh says which format that is")
	flags.BoolVar(&o.noStream, "no-stream", false, "print the answer when all of it is there")
	flags.StringVar(&o.task, "task", "", "`id` of the task that the message answers, or that is followed")
	a.agentFlag(cmd, &o.agent, "send it to the agent with this `name` instead of main")
	flags.Int64Var(&o.resume, "resume", 0, "follow --task from after this `seq` instead of sending")
	return cmd
}

// checkSend refuses what does not go together, and takes the thread from the
// task's id where none is named.
func (a *app) checkSend(o *sendOptions, args []string) error {
	switch {
	case o.follow && o.task == "":
		return errors.New("--resume needs --task")
	case o.follow && len(args)+len(o.files) > 0:
		return errors.New("--resume sends nothing; leave the text away")
	case o.follow && o.agent != "":
		return errors.New("--resume follows a task, whoever has it; leave --agent away")
	case o.follow && o.speak != "":
		return errors.New("--resume sends nothing that could wish for speech; leave --speak away")
	case o.follow && o.noStream:
		return errors.New("--resume is a stream; leave --no-stream away")
	case o.follow && o.resume < 0:
		return fmt.Errorf("--resume must not be negative, and is %d", o.resume)
	case !o.follow && len(args)+len(o.files) == 0:
		return errors.New("the text is missing; give it in quotes, or '-' to read stdin")
	case o.speak != "" && !isFolder(filepath.Dir(o.speak)):
		return fmt.Errorf("--speak: there is no folder %s", filepath.Dir(o.speak))
	case len(args) > 1:
		return fmt.Errorf("the text is one argument, and there are %d; put it in quotes", len(args))
	}
	if thread, ok := mesh.ExecutionID(o.task).ThreadID(); ok && a.flags.thread == "" {
		a.flags.thread = thread
	}
	return nil
}

// sendOnce is 'mesh send'.
func (c *client) sendOnce(ctx context.Context, o sendOptions, args []string) error {
	a := c.app
	t := &turn{thread: a.flags.thread, task: o.task, seq: mesh.Seq(o.resume), hasCursor: true}
	if !o.follow {
		text := ""
		if len(args) > 0 {
			var err error
			if text, err = a.text(args[0]); err != nil {
				return err
			}
		}
		thread := a.flags.thread
		// An agent's own task id says nothing about its thread; the mesh knows it.
		if thread == "" && o.task == "" {
			thread = mesh.NewThreadID()
		}
		t = newTurn(thread, o.task, text)
		t.agent = o.agent
		if err := c.taken(ctx, o.agent, o.files); err != nil {
			return err
		}
		for _, name := range o.files {
			part, err := c.enclose(ctx, thread, name)
			if err != nil {
				return err
			}
			t.send.Message.Parts = append(t.send.Message.Parts, part)
		}
		if o.speak != "" {
			mesh.WantSpeech(t.send.Message)
		}
	}
	if t.thread != "" {
		a.notef("thread: %s\n", t.thread)
	}
	if o.noStream {
		return c.sendWhole(ctx, o, t)
	}
	v := newView(a.shows && !o.json)
	var speech *a2apb.Part
	for u, err := range c.updates(ctx, t) {
		if err != nil {
			a.show(v.newline(), "")
			if ctx.Err() != nil && t.task != "" {
				a.notef("the task goes on; follow it with: mesh send --thread %s --task %s --resume %d\n", t.thread, t.task, t.seq)
			}
			return err
		}
		speech = cmp.Or(speechIn(u.raw, t.send.GetMessage()), speech)
		if !o.json {
			a.show(v.show(u))
		} else if u.raw != nil {
			if err := printAll(a, u.raw); err != nil {
				return err
			}
		}
	}
	if !o.json {
		a.show(v.end(t.state))
	}
	return c.settle(ctx, o, t, speech)
}

// sendWhole sends without a stream.
func (c *client) sendWhole(ctx context.Context, o sendOptions, t *turn) error {
	resp, err := c.a2a.SendMessage(c.addressed(ctx, t.thread, t.agent), t.send)
	if err != nil {
		return err
	}
	u := decode(wholeAnswer(resp))
	t.note(u)
	if o.json {
		if err := printAll[proto.Message](c.app, resp); err != nil {
			return err
		}
		return c.settle(ctx, o, t, speechIn(u.raw, t.send.GetMessage()))
	}
	v := newView(c.app.shows)
	for _, art := range resp.GetTask().GetArtifacts() {
		c.app.show(v.say(u.agent, partsText(art.GetParts()), true), "")
	}
	u.snapshot = false
	c.app.show(v.show(u))
	c.app.show(v.end(t.state))
	return c.settle(ctx, o, t, speechIn(u.raw, t.send.GetMessage()))
}

// wholeAnswer returns an answer without a stream as the event of one.
func wholeAnswer(resp *a2apb.SendMessageResponse) *a2apb.StreamResponse {
	if m := resp.GetMessage(); m != nil {
		return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Message{Message: m}}
	}
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: resp.GetTask()}}
}

// settle keeps the answer as it was spoken, if that is wished for, tells a person what it cost,
// says how a script goes on, and returns errTaskFailed where the task did not end well, and
// errWaits where it waits for the user.
func (c *client) settle(ctx context.Context, o sendOptions, t *turn, speech *a2apb.Part) error {
	if o.speak != "" {
		if err := c.keepSpeech(ctx, t.thread, o.speak, speech); err != nil {
			return err
		}
	}
	if c.app.shows && !o.json {
		c.tellCost(ctx, t.thread, t.task)
	}
	if t.failed() {
		return errTaskFailed
	}
	if mesh.Interrupted(t.state) {
		c.app.notef("waits for an answer: mesh send --thread %s --task %s TEXT\n", t.thread, t.task)
		return errWaits
	}
	return nil
}

// show prints what a view made.
func (a *app) show(text, note string) {
	if text != "" {
		a.printf("%s", text)
	}
	if note != "" {
		a.notef("%s", note)
	}
}

// text returns arg, or all of stdin for "-", as the text of a message.
func (a *app) text(arg string) (string, error) {
	text := arg
	if arg == "-" {
		data, err := io.ReadAll(io.LimitReader(a.stdin, maxText+1))
		if err != nil {
			return "", mesh.Errorf(mesh.Invalid, "mesh.text", "stdin cannot be read: %v; give the text as an argument", err)
		}
		text = string(data)
	}
	return text, checkText(text)
}

// checkText refuses what no message can be.
func checkText(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return mesh.InvalidField("mesh.text", "text", "is empty; say something")
	case len(text) > maxText:
		return mesh.InvalidField("mesh.text", "text", "is longer than 1 MiB; send less")
	case !utf8.ValidString(text):
		return mesh.InvalidField("mesh.text", "text", "is not UTF-8; convert it first, as with iconv")
	}
	return nil
}
