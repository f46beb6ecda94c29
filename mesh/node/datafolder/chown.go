package datafolder

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/api"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/thread/checkpoint"
	"agentmesh/mesh/threadlog"
)

// A Chown gives what is of From, which without User is what all share, to a user of the
// tenant, in a data folder that no node has open. It may be cut short at any moment, and
// finishes when it is run again; a second time, it finds nothing.
type Chown struct {
	Data     string // the folder
	From, To mesh.Owner
	// Kinds are the kinds of values that are moved.
	Kinds []string
	// Merge returns what To has under a name under which From has more, and To has what
	// it had before, or nil. Given what it returned, it returns that: a run that was cut
	// short may have put it there.
	Merge func(kind, name string, had, more []byte) ([]byte, error)
	// Files moves what skills keep in files, while no node can open the folder.
	Files func() ([]Moved, error)
}

// Moved says how many things of a kind were moved.
type Moved struct {
	What  string
	Count int
}

// Run moves all, and says what it moved. The error is NotFound if there is no such folder
// and Precondition if a node has it open.
func (c Chown) Run(ctx context.Context, logger *slog.Logger) (moved []Moved, err error) {
	const op = "datafolder.Chown"
	path := filepath.Join(c.Data, file)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, mesh.Errorf(mesh.NotFound, op, "there is no data folder %s; name it with --data", c.Data)
	}
	if err := notKept(c.Data); err != nil {
		return nil, err
	}
	store, err := disk.Open(path, disk.Options{Logger: logger, Remade: checkpoint.Kinds()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if moved, err = c.Files(); err != nil {
		return moved, err
	}
	kv := state.New(store)
	for _, kind := range c.Kinds {
		from, to := c.space(c.From, kind), c.space(c.To, kind)
		n, err := c.values(ctx, kv, kind, from, to)
		if moved = append(moved, Moved{kind, n}); err != nil {
			return moved, mesh.Wrap(op, err)
		}
	}
	if c.From.User == "" { // conversations and skills always were somebody's
		return moved, nil
	}
	n, err := c.threads(ctx, threadlog.New(store))
	if moved = append(moved, Moved{"threads", n}); err != nil {
		return moved, mesh.Wrap(op, err)
	}
	n, err = api.NewSkillOwners(kv).Chown(ctx, c.From.Tenant, c.From.User, c.To.User)
	return append(moved, Moved{"skills and their schedules", n}), mesh.Wrap(op, err)
}

// space is where the owner's values of the kind are.
func (c Chown) space(o mesh.Owner, kind string) state.Space {
	if o.User == "" {
		return state.TenantSpace(o.Tenant, kind)
	}
	return state.UserSpace(o.Tenant, o.User, kind)
}

// values moves values: each is there at least once at any time.
func (c Chown) values(ctx context.Context, kv *state.KV, kind string, from, to state.Space) (n int, err error) {
	if from == state.TenantSpace(c.From.Tenant, state.KindMemory) { // it is where those of all users are, by their names
		return 0, nil
	}
	for {
		items, _, err := kv.List(ctx, from.Page(state.Page{Limit: state.MaxPage}))
		if err != nil || len(items) == 0 {
			return n, err
		}
		for _, it := range items {
			if err := c.value(ctx, kv, kind, from.Name(it.Name), to, it); err != nil {
				return n, err
			}
			if err := kv.Delete(ctx, state.Key{Tenant: from.Tenant, Kind: from.Kind, Name: it.Name}, it.Version); err != nil {
				return n, err
			}
			n++
		}
	}
}

// value has To have what the item says.
func (c Chown) value(ctx context.Context, kv *state.KV, kind, name string, to state.Space, it state.Item) error {
	key := to.Key(name)
	had, err := kv.Get(ctx, key)
	if err != nil && !mesh.IsCode(err, mesh.NotFound) {
		return err
	}
	next, err := c.Merge(kind, name, had.Data, it.Data)
	if err != nil || had.Version > 0 && bytes.Equal(next, had.Data) {
		return err
	}
	_, err = kv.Put(ctx, key, next, had.Version)
	return err
}

// threads gives conversations to To.
func (c Chown) threads(ctx context.Context, log *threadlog.Log) (n int, err error) {
	const size = 100
	states := cache.New(log, 0)
	var keys []mesh.ThreadKey
	for before := mesh.Pos(0); ; {
		infos, err := log.Threads(ctx, c.From.Tenant, before, size)
		if err != nil {
			return 0, err
		}
		for _, info := range infos {
			keys, before = append(keys, info.Key), info.LastPos
		}
		if len(infos) < size {
			break
		}
	}
	for _, key := range keys {
		err := states.Decide(ctx, key, func(st *thread.State) (cache.Decision, error) {
			if st.Owner != c.From.User {
				return cache.Decision{}, nil
			}
			n++
			others := slices.DeleteFunc(slices.Clone(st.Participants), func(p string) bool { return p == c.To.User })
			return cache.Decision{Events: []*mesh.Event{{ID: mesh.NewEventID(), Actor: "operator",
				Body: mesh.ThreadShared{Readable: st.Readable, Participants: others, Owner: c.To.User}}}}, nil
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
