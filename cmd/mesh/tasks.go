package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/spf13/cobra"

	"agentmesh/mesh"
)

func (a *app) tasksCommand() *cobra.Command {
	return group("tasks", "List, show and cancel tasks: what messages asked for", "  mesh tasks list --state working",
		a.tasksListCommand(), a.tasksShowCommand(), a.tasksCancelCommand())
}

// taskStates are the states by their names for a person.
func taskStates() (names []string) {
	for n := range a2apb.TaskState_name {
		if n != int32(a2apb.TaskState_TASK_STATE_UNSPECIFIED) {
			names = append(names, strings.ReplaceAll(stateName(mesh.TaskState(n)), " ", "-"))
		}
	}
	slices.Sort(names)
	return names
}

// taskState is the value of --state.
type taskState mesh.TaskState

func (s *taskState) String() string { return "" }
func (s *taskState) Type() string   { return "state" }

// Set refuses what is no state.
func (s *taskState) Set(name string) error {
	n, ok := a2apb.TaskState_value["TASK_STATE_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))]
	if !ok || n == 0 {
		return fmt.Errorf("must be one of %s", strings.Join(taskStates(), ", "))
	}
	*s = taskState(n)
	return nil
}

func (a *app) tasksListCommand() *cobra.Command {
	var limit int
	var data bool
	var state mesh.TaskState
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks, the last changed first",
		Example: `  mesh tasks list
  mesh tasks list --state input-required
  mesh tasks list --thread 550e8400-e29b-41d4-a716-446655440000 -o yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return fmt.Errorf("--limit must not be negative, and is %d", limit)
			}
			return nothing(cmd, args)
		},
		RunE: a.lookup(func(ctx context.Context, c *client, _ []string) error {
			list, err := c.listTasks(ctx, state, limit)
			if err != nil {
				return err
			}
			if data {
				return printAll(a, list...)
			}
			a.printf("%s", taskTable(list))
			return nil
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "list at most this `many`; 0 lists all")
	cmd.Flags().Var((*taskState)(&state), "state", "only tasks in this state, as working or input-required")
	fixed(cmd, "state", taskStates())
	a.structured(cmd, &data, "print each task as one line of JSON")
	return cmd
}

// listTasks asks for pages until limit tasks are there, or all for 0; of the
// thread that --thread names, if it does.
func (c *client) listTasks(ctx context.Context, state mesh.TaskState, limit int) ([]*a2apb.Task, error) {
	const page = 100
	var list []*a2apb.Task
	req := &a2apb.ListTasksRequest{ContextId: c.app.flags.thread, Status: state}
	for {
		size := int32(page)
		if limit > 0 {
			size = int32(min(page, limit-len(list))) // #nosec G115 -- at most page
		}
		req.PageSize = &size
		resp, err := c.a2a.ListTasks(c.call(ctx, c.app.flags.thread), req)
		if err != nil {
			return nil, err
		}
		list = append(list, resp.GetTasks()...)
		req.PageToken = resp.GetNextPageToken()
		if req.PageToken == "" || limit > 0 && len(list) >= limit {
			return list, nil
		}
	}
}

// taskTable returns tasks as a table, one line each.
func taskTable(list []*a2apb.Task) string {
	if len(list) == 0 {
		return "no tasks\n"
	}
	rows := [][]string{{"TASK", "CHANGED (UTC)", "STATE", "ASKED", "SAYS"}}
	for _, t := range list {
		s := t.GetStatus()
		rows = append(rows, []string{t.GetId(), stamp(s.GetTimestamp()), stateName(s.GetState()),
			cmp.Or(clip(asked(t), 40), "-"), clip(partsText(s.GetMessage().GetParts()), 60)})
	}
	return table(rows)
}

// asked is what the task is about: the user's first words of it.
func asked(t *a2apb.Task) string {
	for _, m := range t.GetHistory() {
		if m.GetRole() == a2apb.Role_ROLE_USER {
			return partsText(m.GetParts())
		}
	}
	return ""
}

// taskCommand is a command about one task, whose id says its thread; do calls
// the mesh about it, and returns it as it is then.
func (a *app) taskCommand(cmd *cobra.Command, text func(*a2apb.Task) string, do func(ctx context.Context, c *client, id string) (*a2apb.Task, error)) *cobra.Command {
	var data bool
	cmd.Args = exactly("the task's id")
	cmd.RunE = a.lookup(func(ctx context.Context, c *client, args []string) error {
		thread, _ := mesh.ExecutionID(args[0]).ThreadID()
		t, err := do(c.call(ctx, thread), c, args[0])
		if err != nil {
			return err
		}
		if data {
			return printAll(a, t)
		}
		a.printf("%s", text(t))
		return nil
	})
	cmd.ValidArgsFunction = a.offer(taskNames)
	a.structured(cmd, &data, "print the task as one line of JSON")
	return cmd
}

func (a *app) tasksShowCommand() *cobra.Command {
	return a.taskCommand(&cobra.Command{
		Use:     "show ID",
		Short:   "Show a task: its state, and what came of it",
		Example: `  mesh tasks show 550e8400e29b41d4a716446655440000-0123456789abcdef`,
	}, taskDetail, func(ctx context.Context, c *client, id string) (*a2apb.Task, error) {
		return c.a2a.GetTask(ctx, &a2apb.GetTaskRequest{Id: id})
	})
}

func (a *app) tasksCancelCommand() *cobra.Command {
	return a.taskCommand(&cobra.Command{
		Use:     "cancel ID",
		Short:   "Cancel a task, and all that works on it",
		Example: `  mesh tasks cancel 550e8400e29b41d4a716446655440000-0123456789abcdef`,
	}, func(t *a2apb.Task) string {
		return fmt.Sprintf("%s %s\n", stateMark(t.GetStatus().GetState()), stateName(t.GetStatus().GetState()))
	}, func(ctx context.Context, c *client, id string) (*a2apb.Task, error) {
		return c.a2a.CancelTask(ctx, &a2apb.CancelTaskRequest{Id: id})
	})
}

// taskDetail says what a task is, and all that came of it.
func taskDetail(t *a2apb.Task) string {
	s := t.GetStatus()
	var b strings.Builder
	fmt.Fprintf(&b, "task %s of thread %s\n%s %s, changed %s UTC\n", oneLine(t.GetId()), oneLine(t.GetContextId()),
		stateMark(s.GetState()), stateName(s.GetState()), stamp(s.GetTimestamp()))
	said := ""
	for _, art := range t.GetArtifacts() {
		said += partsText(art.GetParts()) + "\n"
	}
	if status := partsText(s.GetMessage().GetParts()); !strings.HasSuffix(strings.TrimSpace(said), strings.TrimSpace(status)) {
		said += status + "\n"
	}
	if said = strings.TrimSpace(printable(said)); said != "" {
		b.WriteString("\n" + said + "\n")
	}
	return b.String()
}
