package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

func (a *app) skillsRunsCommand() *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "runs [NAME]",
		Short: "List the runs of scheduled skills, newest first",
		Long: `List the runs that the schedules of skills caused, newest first, with those that
were missed because no mesh ran at the time. Each run has a thread of its own, which
says all of it: mesh threads show THREAD.`,
		Example: `  mesh skills runs
  mesh skills runs workflows.late_tasks --limit 5
  mesh skills runs --limit 0 --json`,
		ValidArgsFunction: a.offer(skillNames),
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case limit < 0:
				return fmt.Errorf("--limit must not be negative, and is %d", limit)
			case len(args) > 1:
				return fmt.Errorf("the skill's name is one argument, and there are %d", len(args))
			}
			return nil
		},
		RunE: a.lookup(func(ctx context.Context, c *client, args []string) error {
			list, err := c.listRuns(ctx, strings.Join(args, ""), limit)
			if err != nil {
				return err
			}
			if asJSON {
				return printAll(a, list...)
			}
			a.printf("%s", runTable(list))
			return nil
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "list at most this `many`; 0 lists all")
	a.structured(cmd, &asJSON, "print each run as one line of JSON")
	return cmd
}

// listRuns asks for pages until limit runs are there, or all for 0.
func (c *client) listRuns(ctx context.Context, name string, limit int) ([]*meshv1.SkillRun, error) {
	const page = 100
	var list []*meshv1.SkillRun
	req := &meshv1.ListSkillRunsRequest{Name: name, PageSize: page}
	for {
		if limit > 0 {
			req.PageSize = int32(min(page, limit-len(list))) // #nosec G115 -- at most page
		}
		resp, err := c.skills.ListSkillRuns(c.call(ctx, c.app.flags.thread), req)
		if err != nil {
			return nil, err
		}
		list = append(list, resp.GetRuns()...)
		req.PageToken = resp.GetNextPageToken()
		if req.PageToken == "" || limit > 0 && len(list) >= limit {
			return list, nil
		}
	}
}

// runTable returns runs as a table, one line each.
func runTable(runs []*meshv1.SkillRun) string {
	if len(runs) == 0 {
		return "no runs\n"
	}
	rows := [][]string{{"SKILL", "DUE (UTC)", "STARTED (UTC)", "TOOK", "STATUS", "THREAD", "DETAIL"}}
	for _, r := range runs {
		took := "-"
		if r.GetStarted() != nil && r.GetEnded() != nil {
			took = r.GetEnded().AsTime().Sub(r.GetStarted().AsTime()).Round(10 * time.Millisecond).String()
		}
		rows = append(rows, []string{r.GetSkill(), stamp(r.GetDue()), stamp(r.GetStarted()), took, r.GetStatus(),
			orText(r.GetThreadId(), "-"), orText(clip(r.GetDetail(), 60), "-")})
	}
	return table(rows)
}

func (a *app) skillsReloadCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the mesh read its skill files again, now",
		Long: `Have the mesh read its skill files again, and print what changed. The mesh notices
changes by itself within seconds; this is for not waiting. It needs the role
skill-author.

Files that could not be loaded are named on stderr. Their last good version stays.`,
		Example: `  mesh skills reload
  mesh skills reload --json`,
		Args: nothing,
		RunE: a.lookup(func(ctx context.Context, c *client, _ []string) error {
			resp, err := c.skills.ReloadSkills(c.call(ctx, a.flags.thread), &meshv1.ReloadSkillsRequest{})
			if err != nil {
				return err
			}
			if asJSON {
				return printAll(a, resp)
			}
			for _, p := range resp.GetProblems() {
				a.notef("%s\n", problemLine(p))
			}
			a.printf("%s", reloadText(resp))
			return nil
		}),
	}
	a.structured(cmd, &asJSON, "print the answer as one line of JSON")
	return cmd
}

// reloadText says what came of reading the files again.
func reloadText(r *meshv1.ReloadSkillsResponse) string {
	var b strings.Builder
	for _, name := range slices.Sorted(slices.Values(r.GetChanged())) {
		b.WriteString("changed  " + oneLine(name) + "\n")
	}
	for _, name := range slices.Sorted(slices.Values(r.GetRemoved())) {
		b.WriteString("removed  " + oneLine(name) + "\n")
	}
	if b.Len() == 0 {
		b.WriteString("nothing changed\n")
	}
	fmt.Fprintf(&b, "%d skills", r.GetSkills())
	if n := len(r.GetProblems()); n > 0 {
		fmt.Fprintf(&b, ", %s", counted(n, "problem"))
	}
	return b.String() + "\n"
}

// counted returns "1 problem" or "2 problems".
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (a *app) skillsWatchCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print skills as they are added, changed and removed",
		Long: `Print a line for each skill that is added, changed or removed, until Ctrl-C. With
--json, the skills that there are come first, and then a line with the kind
KIND_SYNCED.`,
		Example: `  mesh skills watch
  mesh skills watch --json`,
		Args: nothing,
		RunE: a.stream(func(ctx context.Context, c *client, _ []string) error {
			stream, err := c.skills.WatchSkills(c.call(ctx, a.flags.thread), &meshv1.WatchSkillsRequest{})
			if err != nil {
				return err
			}
			for synced := false; ; {
				change, err := stream.Recv()
				switch {
				case errors.Is(err, io.EOF):
					return mesh.Errorf(mesh.Unavailable, "mesh.watch", "%s ended the stream; watch again", a.flags.addr)
				case err != nil:
					return timeUp(ctx, err)
				case asJSON:
					err = printAll(a, change)
				case change.GetKind() == meshv1.WatchSkillsResponse_KIND_SYNCED:
					a.notef("watching; Ctrl-C ends it\n")
				case synced:
					a.printf("%s\n", changeLine(change))
				}
				if err != nil {
					return err
				}
				synced = synced || change.GetKind() == meshv1.WatchSkillsResponse_KIND_SYNCED
			}
		}),
	}
	a.structured(cmd, &asJSON, "print each change as one line of JSON")
	return cmd
}

// changeLine says in a line what happened to a skill.
func changeLine(c *meshv1.WatchSkillsResponse) string {
	s := c.GetSkill()
	if c.GetKind() == meshv1.WatchSkillsResponse_KIND_REMOVED {
		return "removed  " + oneLine(s.GetName())
	}
	return fmt.Sprintf("changed  %s  version %s", oneLine(s.GetName()), oneLine(s.GetVersion()))
}
