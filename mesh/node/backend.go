package node

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/api"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/backup"
	"agentmesh/mesh/blob"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/security/authz"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/security/keyfile"
	"agentmesh/mesh/state"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
)

// A Backend is where a node keeps what must outlive it, and what it shares with
// other nodes that stand on the same one: threads, who drives them, and values,
// among which are the registrations of agents.
type Backend struct {
	Threads threadlog.Backend
	State   state.Store
	Leases  lease.Store
	// Rows are where rows of lists are kept; nil is for a backend that has no place for them:
	// they are made of the log when the node starts.
	Rows tasks.Pages
	// Audit is the record of administrative acts; it is needed. Head says how far the
	// hashes of the log have come; nil is for a backend without.
	Audit *audit.Store
	Head  func() audit.Head
	// Blobs keeps what is too large for the log; it is needed.
	Blobs *blob.Store
	// Health is whether the backend can write; nil is for one that always can.
	Health func() Health
	// Backup has take get a copy of all that the node keeps, with its keys, and what made
	// says of who made it; nil is for a backend that others copy.
	Backup func(ctx context.Context, made *meshv1.BackupManifest, take backup.Take) error
	// Unchecked is how many records that were there when the backend was opened have not been
	// checked yet; nil is for one that checks none in the background. It must not block.
	Unchecked func() int
	// Shared says that other nodes may stand on the same, at the same time.
	Shared bool
	// Close is called when the node uses it no more.
	Close func() error
}

// keyFile has the key that signs grants, in the data folder.
const keyFile = "grant.key"

func (n *node) openStore() (err error) {
	const op = "node.openStore"
	if err := os.MkdirAll(n.cfg.Data, 0o700); err != nil {
		return mesh.Errorf(mesh.Precondition, op, "the data folder %s cannot be made; check its permissions or choose another with --data: %w", n.cfg.Data, err)
	}
	if n.opts.Backend == nil {
		return mesh.Errorf(mesh.Invalid, op, "the node needs a backend")
	}
	if n.backend, err = n.opts.Backend(n.cfg, n.grpcL.Addr().String()); err != nil {
		return err
	}
	if err := keyfile.Sweep(n.cfg.Data); err != nil {
		return mesh.Errorf(mesh.Precondition, op, "what a process left in the data folder cannot be removed; check its permissions: %w", err)
	}
	if n.signer, err = grant.LoadOrCreateKey(filepath.Join(n.cfg.Data, keyFile)); err != nil {
		return err
	}
	n.alarms = alarm.New(n.logger, func(act string, of alarm.Source) { n.audit.Alarm(act, of) })
	n.audit = audit.NewRecorder(audit.Options{Store: n.backend.Audit, Table: authz.Node(), Named: api.Recorded, Signer: n.signer, Head: n.backend.Head,
		Checkpoints: n.cfg.Audit.Checkpoints, Alarms: n.alarms, Logger: n.logger})
	n.verifier, err = grant.NewVerifier(n.signer.Public(), nil)
	return err
}

// recover ends what a node left behind that died, and returns how many turns that
// were.
func (n *node) recover(ctx context.Context) (int, error) {
	before, err := n.recoverUnmarked(ctx)
	if err != nil {
		return before, err
	}
	ended, err := n.turns.Recover(ctx)
	return before + ended, err
}

// Records say what they leave to do since keyMarked is there. Programs before that
// kept how far all turns were finished, as far as they came to it.
var (
	keyMarked     = state.Key{Kind: "node", Name: "marked"}
	oldCheckpoint = state.Key{Kind: "node", Name: "recovery"}
)

// recoverUnmarked ends the unfinished turns that such a program left, once.
func (n *node) recoverUnmarked(ctx context.Context) (int, error) {
	const op, page = "node.recoverUnmarked", 1024
	if _, err := n.kv.Get(ctx, keyMarked); !mesh.IsCode(err, mesh.NotFound) {
		return 0, mesh.Wrap(op, err)
	}
	at := int64(0)
	switch v, err := n.kv.Get(ctx, oldCheckpoint); {
	case err == nil:
		if at, err = strconv.ParseInt(string(v.Data), 10, 64); err != nil {
			return 0, mesh.Errorf(mesh.Unknown, op, ": %w", err)
		}
	case !mesh.IsCode(err, mesh.NotFound):
		return 0, mesh.Wrap(op, err)
	}
	var threads []mesh.ThreadKey
	seen := map[mesh.ThreadKey]bool{}
	for pos := mesh.Pos(at); ; {
		records, err := n.log.Scan(ctx, pos, page)
		if err != nil {
			return 0, mesh.Wrap(op, err)
		}
		if len(records) == 0 {
			break
		}
		for _, r := range records {
			if pos = r.Pos; !seen[r.Thread] {
				seen[r.Thread], threads = true, append(threads, r.Thread)
			}
		}
	}
	ended, err := n.turns.RecoverAll(ctx, threads)
	if err != nil {
		return ended, mesh.Wrap(op, err)
	}
	_, err = n.kv.Put(ctx, keyMarked, []byte("1"), state.AnyVersion)
	return ended, mesh.Wrap(op, err)
}
