package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	threads "agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"
)

// A tree is the executions of a thread, parents before children, and their calls of
// skills.
type tree struct {
	all   []*meshv1.ExecutionInfo
	calls map[string][]*meshv1.SkillCall // by execution
	seq   int64                          // of the thread, of which it tells
	usage *meshv1.Usage                  // of the whole thread
}

// executions reads the tree; without calls where nobody asks for them.
func (c *client) executions(ctx context.Context, id string, calls bool) (*tree, error) {
	t := &tree{calls: map[string][]*meshv1.SkillCall{}}
	for req := (&meshv1.ListExecutionsRequest{ThreadId: id, PageSize: 1000}); ; {
		resp, err := c.execution.ListExecutions(c.call(ctx, id), req)
		if err != nil {
			return nil, err
		}
		t.all, t.seq, t.usage = append(t.all, resp.GetExecutions()...), resp.GetSeq(), resp.GetUsage()
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	for _, x := range t.all {
		if !calls || x.GetDepth() != 0 || x.GetTotalSkillCalls() == 0 {
			continue
		}
		resp, err := c.execution.GetExecution(c.call(ctx, id), &meshv1.GetExecutionRequest{ThreadId: id, ExecutionId: x.GetExecution().GetId(), Below: true})
		if err != nil {
			return nil, err
		}
		for _, call := range resp.GetExecution().GetCalls() {
			t.calls[call.GetExecutionId()] = append(t.calls[call.GetExecutionId()], call)
		}
	}
	return t, nil
}

// text is the tree for people, as it is at the time.
func (t *tree) text(now time.Time) string {
	below, known := map[string][]*meshv1.ExecutionInfo{}, map[string]bool{}
	for _, x := range t.all {
		known[x.GetExecution().GetId()] = true
	}
	for _, x := range t.all {
		parent := x.GetExecution().GetParent()
		if !known[parent] {
			parent = ""
		}
		below[parent] = append(below[parent], x)
	}
	var b strings.Builder
	for _, x := range below[""] {
		b.WriteString(t.line(x, now) + "\n")
		t.branches(&b, below, x.GetExecution().GetId(), "", now)
	}
	return b.String()
}

// branches writes the calls of an execution, and those that it dispatched.
func (t *tree) branches(b *strings.Builder, below map[string][]*meshv1.ExecutionInfo, id, indent string, now time.Time) {
	calls, list := t.calls[id], below[id]
	delete(below, id) // nothing is below itself
	for i, call := range calls {
		stem := "├─ "
		if i == len(calls)-1 && len(list) == 0 {
			stem = "└─ "
		}
		b.WriteString(indent + stem + callLine(call) + "\n")
	}
	for i, x := range list {
		stem, next := "├─ ", "│  "
		if i == len(list)-1 {
			stem, next = "└─ ", "   "
		}
		b.WriteString(indent + stem + t.line(x, now) + "\n")
		t.branches(b, below, x.GetExecution().GetId(), indent+next, now)
	}
}

// line says what an execution is, how it goes or went and why, what it cost alone and
// with all below it, and what it waited for.
func (t *tree) line(x *meshv1.ExecutionInfo, now time.Time) string {
	name := worker(eventpb.ExecutionFromProto(x.GetExecution()))
	if kind := x.GetExecution().GetKind(); kind != string(mesh.KindAgent) {
		name = strings.TrimSpace(kind + " " + name)
	}
	state := stateMark(x.GetState()) + " " + oneLine(x.GetStatus())
	if why := cmp.Or(x.GetReason(), whyOf(x)); x.GetReason() == mesh.ReasonAsked && mesh.Terminal(x.GetState()) {
		state = "? ended with a question" // another execution has gone on since, if it was answered
	} else if why != "" {
		state += " (" + clip(why, 80) + ")"
	}
	ended := now
	if x.GetEnded() != nil {
		ended = x.GetEnded().AsTime()
	}
	fields := []string{name, state, max(0, ended.Sub(x.GetStarted().AsTime())).Round(10 * time.Millisecond).String()}
	fields = append(fields, spent(x.GetUsage(), x.GetTotalUsage())...)
	fields = append(fields, callCount(x.GetSkillCalls(), x.GetTotalSkillCalls(), "skill call"), callCount(x.GetToolCalls(), x.GetTotalToolCalls(), "tool call"))
	if n := x.GetSubAgents(); n > 0 && x.GetDepth() > 0 {
		fields = append(fields, plural(n, "sub-agent"))
	}
	if at := x.GetInstance(); at != "" {
		fields = append(fields, "at process "+oneLine(at))
	}
	if n := x.GetInstructions(); n > 0 {
		fields = append(fields, plural(n, "unread instruction"))
	}
	if after := t.names(x.GetExecution().GetDependsOn()); after != "" {
		fields = append(fields, "after "+after)
	}
	if x.GetWave() > 1 {
		fields = append(fields, fmt.Sprint("wave ", x.GetWave()))
	}
	if x.GetDelivered() {
		fields = append(fields, "delivered")
	}
	if about := x.GetContext(); about != "" {
		fields = append(fields, fmt.Sprintf("with %q", clip(about, 60)))
	}
	if text := x.GetExecution().GetText(); text != "" {
		fields = append(fields, fmt.Sprintf("%q", clip(text, 60)))
	}
	if x.GetDepth() > 0 {
		fields = append(fields, x.GetExecution().GetId())
	}
	return strings.Join(slices.DeleteFunc(fields, func(s string) bool { return s == "" }), "  ")
}

// whyOf are an agent's own words about a state that has no reason for programs.
func whyOf(x *meshv1.ExecutionInfo) string {
	switch x.GetStatus() {
	case threads.StatusFailed, threads.StatusAwaiting:
		return cmp.Or(x.GetDetail(), x.GetResult())
	}
	return ""
}

// names are what people call the executions.
func (t *tree) names(ids []string) string {
	var names []string
	for _, x := range t.all {
		if slices.Contains(ids, x.GetExecution().GetId()) {
			names = append(names, oneLine(cmp.Or(x.GetExecution().GetLabel(), x.GetExecution().GetAgent())))
		}
	}
	return strings.Join(names, ", ")
}

// spent are the tokens and the cost of one alone, and with all below it where that is more.
func spent(own, total *meshv1.Usage) (out []string) {
	if tokensOf(own) > 0 {
		out = append(out, tokenWords(own))
	}
	if tokensOf(total) > tokensOf(own) {
		out = append(out, "with all below "+tokenWords(total))
	}
	return out
}

// tokenWords are the tokens of prompts and replies, and what they cost where that is known.
func tokenWords(u *meshv1.Usage) string {
	s := fmt.Sprintf("%d+%d tokens", u.GetPrompt(), u.GetCompletion())
	if u.GetCost() > 0 {
		s += " " + dollars(u.GetCost())
	}
	return s
}

// callCount is a count of one alone, and with all below it where that is more.
func callCount(own, total int32, what string) string {
	switch {
	case total == 0:
		return ""
	case own == total:
		return plural(own, what)
	case own == 0:
		return plural(total, what) + " below"
	}
	return fmt.Sprintf("%s, %d with all below", plural(own, what), total)
}

func plural(n int32, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func callLine(c *meshv1.SkillCall) string {
	mark := map[string]string{string(threads.CallCompleted): "✓", string(threads.CallFailed): "✗"}[c.GetStatus()]
	fields := []string{"skill " + oneLine(mesh.CallSummary(c.GetSkill(), c.GetArguments())), cmp.Or(mark, "·") + " " + oneLine(c.GetStatus())}
	if c.GetLost() {
		fields[1] += " (outcome unknown)"
	}
	if c.GetDuration() != nil {
		fields = append(fields, c.GetDuration().AsDuration().Round(time.Millisecond).String())
	}
	if c.GetContent() != "" {
		fields = append(fields, fmt.Sprintf("%q", clip(c.GetContent(), 60)))
	}
	return strings.Join(fields, "  ")
}

// works reports whether an agent is at work in the thread.
func (t *tree) works() bool {
	return slices.ContainsFunc(t.all, func(x *meshv1.ExecutionInfo) bool {
		return x.GetStatus() == threads.StatusRunning || x.GetStatus() == threads.StatusPending
	})
}

// last is the tree of the last turn alone.
func (t *tree) last() *tree {
	for i, x := range slices.Backward(t.all) {
		if x.GetDepth() == 0 {
			return &tree{all: t.all[i:], calls: t.calls, seq: t.seq}
		}
	}
	return t
}

// showExecution prints one execution with its calls and its result.
func (a *app) showExecution(ctx context.Context, c *client, thread, execution string, asJSON bool) error {
	resp, err := c.execution.GetExecution(c.call(ctx, thread), &meshv1.GetExecutionRequest{ThreadId: thread, ExecutionId: execution})
	if err != nil {
		return err
	}
	x := resp.GetExecution()
	if asJSON {
		return printAll(a, x)
	}
	t := &tree{all: []*meshv1.ExecutionInfo{x}, calls: map[string][]*meshv1.SkillCall{execution: x.GetCalls()}}
	a.printf("%s", t.text(time.Now()))
	if x.GetResult() != "" {
		a.printf("\n%s\n", printable(x.GetResult()))
	}
	return nil
}

// printNews prints the executions that are new in a tree, or in another state.
func (a *app) printNews(was, is *tree, asJSON bool) error {
	before := map[string]string{}
	for _, x := range was.all {
		before[x.GetExecution().GetId()] = x.GetStatus() + x.GetReason()
	}
	for _, x := range is.all {
		if before[x.GetExecution().GetId()] == x.GetStatus()+x.GetReason() {
			continue
		}
		if !asJSON {
			a.printf("%s\n", strings.Repeat("  ", int(x.GetDepth()))+is.line(x, time.Now()))
		} else if err := printAll(a, x); err != nil {
			return err
		}
	}
	return nil
}

// executionArgs takes a thread and an execution of it, which may stand alone: it names its
// thread.
func (a *app) executionArgs(threadID, execution *string, rest int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < 1+rest {
			return fmt.Errorf("%s needs the id of an execution; 'mesh threads show ID --tree' shows them", cmd.CommandPath())
		}
		of, ok := mesh.ExecutionID(args[0]).ThreadID()
		if !ok {
			return errors.New("the first argument is no id of an execution; 'mesh threads show ID --tree' shows them")
		}
		*threadID, *execution = of, args[0]
		return a.sameThread(of)
	}
}

func isExecution(s string) bool {
	_, ok := mesh.ExecutionID(s).ThreadID()
	return ok
}

// sameThread refuses a --thread that is not the thread of the execution that is named.
func (a *app) sameThread(of string) error {
	if a.flags.thread == "" {
		return nil
	}
	id, err := parseThread("--thread", a.flags.thread)
	if err == nil && id != of {
		return errors.New("the execution is of another thread than --thread; leave --thread away")
	}
	return err
}

func (a *app) threadsCancelCommand() *cobra.Command {
	var id, execution, reason string
	cmd := &cobra.Command{
		Use:   "cancel EXECUTION",
		Short: "End one agent of a turn, and all below it",
		Long: `End one agent that another one dispatched, and all below it, while the turn goes on.
'mesh threads show ID --tree' shows their ids.`,
		Example: `  mesh threads cancel 550e8400e29b41d4a716446655440000-2f1c9b6a7d3e4f50 --reason "the customer called it off"`,
		Args:    a.executionArgs(&id, &execution, 0),
		RunE: a.lookup(func(ctx context.Context, c *client, _ []string) error {
			resp, err := c.execution.CancelExecution(c.call(ctx, id), &meshv1.CancelExecutionRequest{ThreadId: id, ExecutionId: execution, Reason: reason})
			if err != nil {
				return err
			}
			a.printf("%s\n", strings.TrimSpace(resp.GetOutcome()+" "+alreadyOver(resp.GetOutcome(), resp.GetExecution())))
			return nil
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for people")
	return cmd
}

func (a *app) threadsTellCommand() *cobra.Command {
	var id, execution string
	return &cobra.Command{
		Use:   "tell EXECUTION TEXT",
		Short: "Tell an agent something while it works",
		Long: `Tell an agent that another one dispatched something while it works. It reads it before
its next call of a model.`,
		Example: `  mesh threads tell 550e8400e29b41d4a716446655440000-2f1c9b6a7d3e4f50 "only invoices of this year"`,
		Args:    a.executionArgs(&id, &execution, 1),
		RunE: a.lookup(func(ctx context.Context, c *client, args []string) error {
			resp, err := c.execution.TellExecution(c.call(ctx, id), &meshv1.TellExecutionRequest{ThreadId: id, ExecutionId: execution,
				Text: strings.Join(args[1:], " "), RequestId: mesh.NewEventID()})
			if err != nil {
				return err
			}
			a.printf("%s\n", strings.TrimSpace(resp.GetOutcome()+" "+alreadyOver(resp.GetOutcome(), resp.GetExecution())))
			return nil
		}),
	}
}

// alreadyOver is how an execution ended that was over.
func alreadyOver(outcome string, x *meshv1.ExecutionInfo) string {
	if outcome != "already_completed" {
		return ""
	}
	return withText("("+x.GetStatus()+")", x.GetReason())
}
