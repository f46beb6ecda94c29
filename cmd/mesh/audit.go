package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/datafolder"
)

func (a *app) auditCommand() *cobra.Command {
	return group("audit", "Read and verify the record, and what happened in conversations",
		"  mesh audit tail --follow\n  mesh audit trail 550e8400-e29b-41d4-a716-446655440000\n  mesh audit export >audit.jsonl\n  mesh audit verify --data copy --checkpoints /other/disk/checkpoints",
		a.auditTailCommand(), a.auditExportCommand(), a.auditTrailCommand(), a.auditVerifyCommand())
}

// auditFilter adds the flags that say which records are wanted.
func auditFilter(cmd *cobra.Command) func() *meshv1.AuditFilter {
	var f meshv1.AuditFilter
	var since time.Duration
	var refused bool
	flags := cmd.Flags()
	flags.StringVar(&f.UserId, "of", "", "only what this `user` did")
	flags.StringVar(&f.Agent, "agent", "", "only what this `agent` did")
	flags.StringVar(&f.Action, "action", "", "only this `action`, or those that end so, as DeleteThread")
	flags.StringVar(&f.Resource, "resource", "", "only what is about this thread, agent or skill, by its `name`")
	flags.DurationVar(&since, "since", 0, "only what is not older than that `time`")
	flags.BoolVar(&refused, "refused", false, "only refusals")
	return func() *meshv1.AuditFilter {
		if since > 0 {
			f.Since = timestamppb.New(time.Now().Add(-since))
		}
		if refused {
			f.Decision = meshv1.AuditRecord_DECISION_REFUSED
		}
		return &f
	}
}

func (a *app) auditTailCommand() *cobra.Command {
	var limit int
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print the last records",
		Long: `Print the last records of administrative acts and refusals that you may see, the
oldest first, and with --follow each new one until Ctrl-C. It needs the role
auditor, tenant-admin or operator.`,
		Example: `  mesh audit tail
  mesh audit tail --follow --refused
  mesh audit tail --action DeleteThread --since 24h --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return fmt.Errorf("--limit must not be negative, and is %d", limit)
			}
			return nothing(cmd, args)
		},
	}
	filter := auditFilter(cmd)
	cmd.RunE = a.stream(func(ctx context.Context, c *client, _ []string) error {
		last, err := c.lastRecords(ctx, filter(), max(limit, 1))
		if err != nil {
			return err
		}
		after := int64(0) // of those that there are
		for i, rec := range last {
			after = rec.GetSeq()
			if i >= limit {
				break
			}
			if err := printRecord(a, rec, asJSON); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		return timeUp(ctx, c.followRecords(ctx, filter(), after, func(rec *meshv1.AuditRecord) (bool, error) {
			return true, printRecord(a, rec, asJSON)
		}))
	})
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "print this `many` records")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print new records as they come")
	a.structured(cmd, &asJSON, "print each record as one line of JSON")
	return cmd
}

func (a *app) auditExportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print all records as lines of JSON",
		Long: `Print all records that you may see and that there are now, the oldest first, each
as one line of JSON.`,
		Example: `  mesh audit export >audit.jsonl
  mesh audit export --since 720h`,
		Args: nothing,
	}
	filter := auditFilter(cmd)
	cmd.RunE = a.stream(func(ctx context.Context, c *client, _ []string) error {
		newest, err := c.lastRecords(ctx, filter(), 1)
		if err != nil || len(newest) == 0 {
			return err
		}
		return timeUp(ctx, c.followRecords(ctx, filter(), 0, func(rec *meshv1.AuditRecord) (bool, error) {
			return rec.GetSeq() < newest[0].GetSeq(), printRecord(a, rec, true)
		}))
	})
	return cmd
}

// lastRecords returns the last records, the oldest first.
func (c *client) lastRecords(ctx context.Context, f *meshv1.AuditFilter, most int) (all []*meshv1.AuditRecord, err error) {
	req := &meshv1.ListAuditRecordsRequest{Filter: f}
	for len(all) < most {
		req.PageSize = int32(min(most-len(all), 1000))
		resp, err := c.audit.ListAuditRecords(c.call(ctx, ""), req)
		if err != nil {
			return nil, err
		}
		all = append(all, resp.GetRecords()...)
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	slices.Reverse(all)
	return all, nil
}

// followRecords calls do with records after that seq until it wants no more.
func (c *client) followRecords(ctx context.Context, f *meshv1.AuditFilter, after int64, do func(*meshv1.AuditRecord) (more bool, err error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.audit.FollowAuditRecords(c.call(ctx, ""), &meshv1.FollowAuditRecordsRequest{AfterSeq: after, Filter: f})
	for err == nil {
		var resp *meshv1.FollowAuditRecordsResponse
		if resp, err = stream.Recv(); err != nil {
			return c.followError(err)
		}
		more, err := do(resp.GetRecord())
		if !more || err != nil {
			return err
		}
	}
	return err
}

func printRecord(a *app, rec *meshv1.AuditRecord, asJSON bool) error {
	if asJSON {
		return printAll(a, rec)
	}
	a.printf("%s\n", recordLine(rec))
	return nil
}

// recordLine is a record for people.
func recordLine(rec *meshv1.AuditRecord) string {
	words := []string{fmt.Sprintf("%d", rec.GetSeq()), rec.GetTime().AsTime().Format(time.RFC3339),
		strings.ToLower(strings.TrimPrefix(rec.GetDecision().String(), "DECISION_")), rec.GetAction()[strings.LastIndex(rec.GetAction(), "/")+1:]}
	var erased []string
	for _, e := range rec.GetErased() {
		erased = append(erased, fmt.Sprintf("%s %d", e.GetKind(), e.GetCount()))
	}
	for _, w := range []struct{ before, text string }{
		{"", rec.GetResource()}, {"by ", strings.Trim(rec.GetTenantId()+"/"+rec.GetUserId(), "/")}, {"agent ", rec.GetAgent()},
		{"with ", rec.GetCredential()}, {"from ", rec.GetPeer()}, {"", rec.GetCode()}, {"", rec.GetReason()}, {"lacks ", rec.GetPermission()}, {"for ", rec.GetRequiredBy()}, {"policy ", rec.GetPolicy()},
		{"removed ", strings.Join(erased, ", ")},
	} {
		if w.text != "" {
			words = append(words, w.before+oneLine(w.text))
		}
	}
	if n := rec.GetCount(); n > 1 {
		words = append(words, fmt.Sprintf("%d times", n))
	}
	return strings.Join(words, "  ")
}

func (a *app) auditVerifyCommand() *cobra.Command {
	var data, kept string
	var keys []string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Say whether a data folder is what the node wrote and signed",
		Long: `Look at a data folder that no node uses, or at a copy of one: whether the events
of all threads, and the record of administrative acts, are chained as they were
written, and are what the node's checkpoints say. Nothing is changed, and no mesh
is asked.

Checkpoints in the folder show what was changed by somebody without the node's
key; those of the file of the setting audit.checkpoints also show that the end
was cut off. What came after the last checkpoint, a minute at most, is proved by
nothing.

The exit code is 0 if all is as it was signed, 1 if something is not, 2 for wrong
usage and 3 if there is no such folder or file.`,
		Example: `  mesh audit verify --data copy-of-the-folder --checkpoints /other/disk/checkpoints
  mesh audit verify --key 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=`,
		Args: nothing,
		RunE: a.action(func(context.Context, []string) error { return a.verify(data, kept, keys) }),
	}
	cmd.Flags().StringVar(&data, "data", node.DefaultData, "the data `folder`")
	cmd.Flags().StringVar(&kept, "checkpoints", "", "the `file` of checkpoints that was kept elsewhere")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "the node's public `key` in base64, or one of several; by default those of the checkpoints")
	return cmd
}

// verify looks at a folder, and says what is found.
func (a *app) verify(data, kept string, texts []string) error {
	const op = "mesh.audit"
	var keys []ed25519.PublicKey
	for _, text := range texts {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return mesh.InvalidField(op, "key", "must be %d bytes in base64, and is %q", ed25519.PublicKeySize, mesh.Clip(text, 48))
		}
		keys = append(keys, key)
	}
	var elsewhere []*meshv1.AuditCheckpoint
	if kept != "" {
		f, err := os.Open(kept)
		if err == nil {
			elsewhere, err = audit.ReadCheckpoints(f)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return unreadable(op, "--checkpoints", kept, err)
		}
	}
	v, err := datafolder.Verify(data, keys, elsewhere)
	if err != nil {
		return unreadable(op, "--data", data, err)
	}
	found := a.findings(v)
	a.printf("%d events and %d records were looked at, %d checkpoints compared\n", v.Events, v.Records, v.Checkpoints)
	switch {
	case found > 0:
		return mesh.Errorf(mesh.Precondition, op, "%s is not what was written and signed (findings: %d); keep it as it is, and compare it with a copy", data, found)
	case v.Checkpoints == 0:
		a.printf("nothing was signed yet, so who can write the folder can have changed all of it\n")
	case len(keys) == 0:
		for _, key := range v.Keys {
			a.printf("signed with the key %s, which is the checkpoints' own; see that it is the node's\n", base64.StdEncoding.EncodeToString(key))
		}
	}
	return nil
}

// unreadable is the error for what the flag names and cannot be looked at.
func unreadable(op, flag, path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return mesh.Errorf(mesh.NotFound, op, "%s is not there, or not all of it; name another one with %s: %w", path, flag, err)
	}
	return mesh.Errorf(mesh.Precondition, op, "%s cannot be looked at; see that you may read it: %w", path, err)
}
