package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
)

func (a *app) auditTrailCommand() *cobra.Command {
	req := &meshv1.ListAuditTrailRequest{}
	var kinds []string
	var since, until time.Duration
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "trail [THREAD]",
		Short: "Print what happened in a conversation, or in all",
		Long: `Print what happened in a conversation, the oldest first: messages, dispatches, calls
of skills and models, transfers and refusals, as the log of the conversation and the
record have them, each with who acted for whom and why. Without a conversation, print
that of all conversations of the tenant and all of its record since a time.

What looks like a secret is taken out, also by the setting audit.redact, and what was
said is cut to 2 KiB. Of a conversation that was deleted the record is left. It needs the
role auditor, tenant-admin or operator, and is recorded itself.`,
		Example: `  mesh audit trail 550e8400-e29b-41d4-a716-446655440000
  mesh audit trail 550e8400-e29b-41d4-a716-446655440000 --kind transfer,refusal
  mesh audit trail --since 24h --of bob --json >trail.jsonl
  mesh audit trail --since 48h --until 24h --agent skill-builder`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) > 0 || a.flags.thread != "" {
				if err := a.threadArg(&req.ThreadId)(cmd, args); err != nil {
					return err
				}
			}
			switch {
			case req.ThreadId == "" && since <= 0:
				return errors.New("name a conversation, or say since when with --since, as --since 24h")
			case since < 0 || until < 0:
				return errors.New("--since and --until say how long ago it was, as 24h, and must not be negative")
			case limit < 0:
				return fmt.Errorf("--limit must not be negative, and is %d", limit)
			}
			req.Kinds, err = trailKinds(kinds)
			return err
		},
	}
	cmd.RunE = a.stream(func(ctx context.Context, c *client, _ []string) error {
		now := time.Now()
		if since > 0 {
			req.Since = timestamppb.New(now.Add(-since))
		}
		if until > 0 {
			req.Until = timestamppb.New(now.Add(-until))
		}
		return a.printTrail(ctx, c, req, limit, asJSON)
	})
	flags := cmd.Flags()
	flags.StringVar(&req.UserId, "of", "", "only what was done for this `user`, or by them")
	flags.StringVar(&req.Agent, "agent", "", "only what this `agent` did, and what was asked of it")
	flags.StringSliceVar(&kinds, "kind", nil, "only these `kinds`: "+strings.Join(trailKindNames(), ", "))
	flags.DurationVar(&since, "since", 0, "only what is not older than that `time`")
	flags.DurationVar(&until, "until", 0, "only what is older than that `time`")
	flags.IntVarP(&limit, "limit", "n", 0, "print this `many` entries at most; 0 is all")
	a.structured(cmd, &asJSON, "print each entry as one line of JSON")
	return cmd
}

// trailKindNames are the kinds of entries, as people write them.
func trailKindNames() []string {
	var names []string
	for _, name := range meshv1.AuditTrailEntry_Kind_name {
		if name != meshv1.AuditTrailEntry_KIND_UNSPECIFIED.String() {
			names = append(names, kindWord(name))
		}
	}
	slices.Sort(names)
	return names
}

func kindWord(name string) string { return strings.ToLower(strings.TrimPrefix(name, "KIND_")) }

func trailKinds(names []string) (kinds []meshv1.AuditTrailEntry_Kind, err error) {
	for _, name := range names {
		k, ok := meshv1.AuditTrailEntry_Kind_value["KIND_"+strings.ToUpper(name)]
		if !ok || k == 0 {
			return nil, fmt.Errorf("--kind has %q; it must have some of %s", clip(name, 48), strings.Join(trailKindNames(), ", "))
		}
		kinds = append(kinds, meshv1.AuditTrailEntry_Kind(k))
	}
	return kinds, nil
}

// printTrail prints entries, at most that many but for 0.
func (a *app) printTrail(ctx context.Context, c *client, req *meshv1.ListAuditTrailRequest, most int, asJSON bool) error {
	for printed := 0; ; {
		if req.PageSize = 1000; most > 0 {
			req.PageSize = int32(min(most-printed, 1000))
		}
		resp, err := c.audit.ListAuditTrail(c.call(ctx, req.GetThreadId()), req)
		if err != nil {
			return timeUp(ctx, err)
		}
		if resp.GetLogGone() && req.GetPageToken() == "" {
			a.notef("the conversation was deleted; this is what the record has of it\n")
		}
		for _, x := range resp.GetEntries() {
			if !asJSON {
				a.printf("%s\n", trailLine(x))
			} else if err := printAll(a, x); err != nil {
				return err
			}
		}
		printed += len(resp.GetEntries())
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" || most > 0 && printed >= most {
			return nil
		}
	}
}

// trailLine is an entry for people.
func trailLine(x *meshv1.AuditTrailEntry) string {
	what := x.GetAction()[strings.LastIndex(x.GetAction(), "/")+1:]
	who := strings.Join(x.GetChain(), " > ")
	if who == "" {
		who = x.GetActor()
	}
	words := []string{x.GetTime().AsTime().Format(time.RFC3339), fmt.Sprintf("%-8s", kindWord(x.GetKind().String())), oneLine(who), oneLine(withText(what, x.GetSubject()))}
	for _, text := range []string{x.GetOutcome(), clip(x.GetReason(), 80)} {
		if text != "" {
			words = append(words, oneLine(text))
		}
	}
	if n := x.GetRecord().GetCount(); n > 1 {
		words = append(words, fmt.Sprintf("%d times", n))
	}
	if text := x.GetContent(); text != "" {
		words = append(words, fmt.Sprintf("%q", clip(text, 160)))
	}
	return strings.Join(words, "  ")
}
