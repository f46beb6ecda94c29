package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/spf13/cobra"

	"agentmesh/cmd/mesh/terminal"
	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/skilltools"
)

// runOptions are the flags of 'mesh skills run'.
type runOptions struct {
	yes, json bool
	request   string
	// flags are what stands after the skill's name.
	flags map[string]any
	// global reports whether a flag is one of all commands.
	global func(name string) bool
}

func (a *app) skillsRunCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [FLAGS] NAME [--PARAMETER VALUE...]",
		Short: "Run a skill",

		DisableFlagsInUseLine: true,
		Long: `Run a skill, and print what it says. The run is a turn of a thread, which keeps who
asked for it, the call and its result.

What follows the skill's name are its arguments, as models write them: --k v, --k=v,
--k a b c for several values, --k alone for true. Of equal flags the last one counts.
NAME --help prints the skill's man page and runs nothing. The flags below stand before
the name; --yes, --json, --request-id, --thread and --timeout may follow it where the
skill has no parameter of that name.

A skill that wants your approval asks for it. At a terminal you answer there; --yes
approves beforehand. Otherwise the question is printed with how to answer it, and the
exit code is 7.

Ctrl-C leaves the run to itself, and says how to find it again. A request id makes a
run at most once: the same command with the same id waits for the run that there is.`,
		Example: `  mesh skills run tasks.search --status overdue --limit 5
  mesh skills run --yes mail.send --to ann@example.com bob@example.com --subject Report --body "All is well"
  mesh skills run --request-id nightly-2026-11-20 --json tasks.create --title "Call Ann" --tags customer call
  mesh skills run tasks.create --help`,
		ValidArgsFunction: a.offer(skillNames),
		Args: func(cmd *cobra.Command, args []string) (err error) {
			o.global = func(name string) bool {
				return cmd.InheritedFlags().Lookup(strings.ReplaceAll(name, "_", "-")) != nil
			}
			switch {
			case len(args) == 0:
				return errors.New("the skill's name is missing; 'mesh skills list' shows them")
			case !strings.Contains(args[0], "."):
				return fmt.Errorf("%q is not the name of a skill, which is DOMAIN.ACTION as tasks.search; 'mesh skills list' shows them", mesh.Clip(args[0], 60))
			}
			o.flags, err = skillFlags(args[1:])
			return err
		},
		RunE: a.action(func(ctx context.Context, args []string) error {
			return a.connected(ctx, args, func(ctx context.Context, c *client, args []string) error { return c.runSkill(ctx, &o, args[0]) })
		}),
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.BoolVar(&o.yes, "yes", false, "approve the run, so that nobody is asked")
	flags.StringVar(&o.request, "request-id", "", "run it at most once under this `id`, and wait for that run")
	a.structured(cmd, &o.json, "print what came of it as one line of JSON")
	return cmd
}

// runSkill is 'mesh skills run'.
func (c *client) runSkill(ctx context.Context, o *runOptions, name string) error {
	resp, err := c.findSkill(ctx, name)
	if err != nil {
		return err
	}
	if _, help := o.flags["help"]; help {
		c.app.printf("%s\n", c.app.shown(strings.TrimSpace(resp.GetSkill().GetBody())))
		return nil
	}
	s := skilltools.SkillOf(resp.GetSkill())
	if err := o.take(c.app, o.flags, s); err != nil {
		return err
	}
	args, err := skillArguments(o.flags, s)
	if err != nil {
		return err
	}
	req := &meshv1.RunSkillRequest{Name: s.Name, Arguments: args, ThreadId: c.app.flags.thread, Approved: o.yes, RequestId: o.request}
	if req.GetRequestId() == "" {
		req.RequestId = mesh.NewEventID()
		if req.GetThreadId() == "" {
			req.ThreadId = mesh.NewThreadID() // known beforehand, it can be told when the run is left
		}
	}
	ctx, cancel := c.app.limited(ctx)
	defer cancel()
	ran, err := c.awaitRun(ctx, req)
	if err != nil {
		c.left(ctx, req, err)
		return err
	}
	return c.finishRun(ctx, o, req, ran)
}

// awaitRun begins the run, and waits until it is over or asks. A mesh waits only
// so long, and then tells that the run goes on: the same request is that run.
func (c *client) awaitRun(ctx context.Context, req *meshv1.RunSkillRequest) (*meshv1.RunSkillResponse, error) {
	for {
		ran, err := c.skills.RunSkill(c.call(ctx, req.GetThreadId()), req)
		if err != nil {
			return nil, err
		}
		req.ThreadId = ran.GetThreadId()
		if mesh.Terminal(ran.GetState()) || mesh.Interrupted(ran.GetState()) {
			return ran, nil
		}
		if _, limited := ctx.Deadline(); limited { // it answers shortly before that
			return nil, context.DeadlineExceeded
		}
	}
}

func (c *client) findSkill(ctx context.Context, name string) (*meshv1.GetSkillResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	return c.getSkill(ctx, &meshv1.GetSkillRequest{Name: name})
}

// left says how to find a run again that the caller has left, or that may have
// begun before the mesh was gone.
func (c *client) left(ctx context.Context, req *meshv1.RunSkillRequest, err error) {
	late := errors.Is(err, context.DeadlineExceeded)
	switch {
	case ctx.Err() == nil && !late && mesh.IsCode(err, mesh.Unavailable):
		c.app.notef("whether it ran is not known; find out, without running it twice, with the same command and %s\n", c.sameRun(req))
		return
	case ctx.Err() == nil && !late:
		return // the mesh itself said no
	case req.GetThreadId() != "":
		c.app.notef("the run goes on in the mesh; see it with: mesh threads show %s\n", req.GetThreadId())
	}
	c.app.notef("wait for it with the same command and %s\n", c.sameRun(req))
}

// sameRun is what to add to a command so that it is the same run: a request id
// counts within its thread.
func (c *client) sameRun(req *meshv1.RunSkillRequest) string {
	flags := "--request-id " + req.GetRequestId()
	if c.app.flags.thread == "" && req.GetThreadId() != "" {
		flags = "--thread " + req.GetThreadId() + " " + flags
	}
	return flags
}

// finishRun prints what came of a run. While it waits for an answer, a person
// at a terminal is asked.
func (c *client) finishRun(ctx context.Context, o *runOptions, req *meshv1.RunSkillRequest, ran *meshv1.RunSkillResponse) error {
	if o.json || !c.app.asks {
		return c.printRun(o, ran)
	}
	lines, stop := readLines(c.app.stdin)
	defer stop()
	for mesh.Interrupted(ran.GetState()) {
		answer, err := c.ask(ctx, lines, ran)
		if err != nil {
			return err
		}
		if answer == "" {
			break // nobody answers: it goes on waiting
		}
		if ran, err = c.answer(ctx, ran, answer); err != nil {
			c.left(ctx, req, err)
			return err
		}
	}
	return c.printRun(o, ran)
}

// ask prints the question of a run and returns what the user types, "" for the
// end of the input.
func (c *client) ask(ctx context.Context, lines <-chan terminal.Entry, ran *meshv1.RunSkillResponse) (string, error) {
	c.app.notef("? %s\nyes or no › ", printable(strings.TrimSpace(ran.GetContent())))
	for {
		select {
		case l := <-lines:
			if l.Err != nil {
				c.app.notef("\n")
				return "", nil //nolint:nilerr // the end of the input is no answer
			}
			if text := strings.TrimSpace(l.Text); text != "" {
				return text, checkText(text)
			}
			c.app.notef("yes or no › ")
		case <-ctx.Done():
			c.app.notef("\n")
			c.waits(ran)
			return "", ctx.Err()
		}
	}
}

// answer answers the task of a run, and returns what came of it then.
func (c *client) answer(ctx context.Context, ran *meshv1.RunSkillResponse, text string) (*meshv1.RunSkillResponse, error) {
	t := newTurn(ran.GetThreadId(), ran.GetTaskId(), text)
	resp, err := c.a2a.SendMessage(c.call(ctx, t.thread), t.send)
	if err != nil {
		return nil, err
	}
	task := resp.GetTask()
	next := &meshv1.RunSkillResponse{State: task.GetStatus().GetState(), ThreadId: ran.GetThreadId(), TaskId: ran.GetTaskId()}
	var said []string
	for _, art := range task.GetArtifacts() {
		if art.GetName() == skilltools.ResultData {
			readResult(art, next)
		} else if text := strings.TrimSpace(partsText(art.GetParts())); text != "" {
			said = append(said, text)
		}
	}
	next.Content = strings.Join(said, "\n")
	if status := partsText(task.GetStatus().GetMessage().GetParts()); status != "" && next.State != a2apb.TaskState_TASK_STATE_COMPLETED {
		next.Content = status
	}
	return next, nil
}

// readResult takes files and metadata from the artifact that has them.
func readResult(art *a2apb.Artifact, to *meshv1.RunSkillResponse) {
	for _, p := range art.GetParts() {
		fields := p.GetData().GetStructValue().GetFields()
		for _, f := range fields["files"].GetListValue().GetValues() {
			to.Files = append(to.Files, f.GetStringValue())
		}
		to.Metadata = fields["metadata"].GetStructValue()
	}
}

// printRun prints what came of a run: on stdout what the skill says, and all
// else on stderr. It returns errTaskFailed unless the skill has done its work, and errWaits where
// it waits for the user.
func (c *client) printRun(o *runOptions, ran *meshv1.RunSkillResponse) error {
	a, done := c.app, ran.GetState() == a2apb.TaskState_TASK_STATE_COMPLETED
	switch content := strings.TrimSpace(ran.GetContent()); {
	case o.json:
		if err := printAll(a, ran); err != nil {
			return err
		}
	case done && content != "":
		a.printf("%s\n", a.shown(content))
	case mesh.Interrupted(ran.GetState()) && !a.asks:
		a.notef("? %s\n", printable(content))
	case !done && !mesh.Interrupted(ran.GetState()):
		a.notef("%s %s\n", stateMark(ran.GetState()), withText(stateName(ran.GetState()), content))
	}
	if !o.json {
		for _, file := range ran.GetFiles() {
			a.notef("file: %s\n", oneLine(file))
		}
		if len(ran.GetMetadata().GetFields()) > 0 {
			a.notef("metadata: %s\n", oneLine(metadataText(ran)))
		}
		a.notef("thread: %s\n", oneLine(ran.GetThreadId()))
	}
	if mesh.Interrupted(ran.GetState()) {
		c.waits(ran)
		return errWaits
	}
	if !done {
		return errTaskFailed
	}
	return nil
}

// metadataText is the metadata as JSON, always the same for the same.
func metadataText(ran *meshv1.RunSkillResponse) string {
	data, err := json.Marshal(ran.GetMetadata().AsMap())
	if err != nil {
		return "cannot be written as JSON; give --json"
	}
	return string(data)
}

// waits says how a run is answered that waits for it.
func (c *client) waits(ran *meshv1.RunSkillResponse) {
	c.app.notef("waits for an answer: mesh send --thread %s --task %s yes\n", oneLine(ran.GetThreadId()), oneLine(ran.GetTaskId()))
}
