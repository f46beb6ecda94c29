package push

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/thread"
)

// What is kept stands under the operator's own tenant, which no grant reaches.
// A config and its cursor have the same name. The cursor is written before the
// config, and says that it is over before the config is removed; so whatever is cut
// off between the two, the cursor tells what is left to do.
const (
	kindConfig = "push.config" // sealed record
	kindCursor = "push.cursor" // cursor as JSON
)

// A cursor says how far a config is delivered.
type cursor struct {
	After    mesh.Seq `json:"after"`
	Attempts int      `json:"attempts,omitempty"` // that failed for the next update
	// Failed is why the config was given up, if it was, and LastError why the
	// last attempt failed.
	Failed    bool      `json:"failed,omitempty"`
	LastError string    `json:"last_error,omitempty"`
	At        time.Time `json:"at,omitzero"` // of the last failure
	// Over is when nothing was left to deliver. The config goes then, and the cursor a
	// while later, so that a resend of the message that set it does not set it again. Of
	// one that was set when its task was over, which is Late, the config stays as long.
	Over time.Time `json:"over,omitzero"`
	Late bool      `json:"late,omitempty"`
	// By is who set the config; nil in those from before that was kept.
	By *Owner `json:"by,omitempty"`

	version int64
}

// An Owner is who set a config, when, and by which credential.
type Owner struct {
	User       string    `json:"user"`
	Credential string    `json:"credential,omitempty"`
	Operator   bool      `json:"operator,omitempty"` // it may act for all tenants
	At         time.Time `json:"at"`
}

// A ref says whose a config is.
type ref struct {
	key   mesh.ThreadKey
	task  mesh.ExecutionID
	by    mesh.Principal
	agent string // that the caller addresses, or ""
}

// turn returns the turn that the task is, if the caller may know of it.
func (r ref) turn(op string, s *thread.State) (*thread.Execution, error) {
	if t := s.TurnFor(r.by, r.task, r.agent); t != nil {
		return t, nil
	}
	return nil, mesh.TaskNotFound(op)
}

// prefix is what the names of the user's configs for the task begin with.
func (r ref) prefix() string {
	return string(r.key.Tenant) + "/" + string(r.task) + "/" + digest(r.by.User) + "/"
}

func (r ref) name(id string) string { return r.prefix() + digest(id) }

// digest makes a name part of bounded length of what a caller chose.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// parseName returns the task that a record is for.
func parseName(name string) (mesh.ThreadKey, mesh.ExecutionID, bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 4 {
		return mesh.ThreadKey{}, "", false
	}
	task := mesh.ExecutionID(parts[1])
	id, ok := task.ThreadID()
	return mesh.ThreadKey{Tenant: mesh.TenantID(parts[0]), ID: id}, task, ok
}

// A record is a config as it is kept.
type record struct {
	*a2apb.TaskPushNotificationConfig
	v03    bool // its webhook knows A2A v0.3
	byRole bool // its user read the task by a role, and takes no part in it

	version int64
}

// These are before the message of a record for v0.3, and of one whose user reads by a
// role. No message begins so.
const (
	markV03  = 0
	markRole = 1
)

// mayHear reports whether the user of the record of that name may still read the thread.
func (c record) mayHear(name string, a *thread.Access) bool {
	parts := strings.Split(name, "/")
	return c.byRole || a.Readable || len(parts) > 2 && (parts[2] == digest(a.Owner) ||
		slices.ContainsFunc(a.Participants, func(p string) bool { return parts[2] == digest(p) }))
}

// seal encrypts a config, bound to the name that it is kept under.
func (d *Dispatcher) seal(name string, c record) ([]byte, error) {
	var plain []byte
	if c.v03 {
		plain = append(plain, markV03)
	}
	if c.byRole {
		plain = append(plain, markRole)
	}
	plain, err := proto.MarshalOptions{}.MarshalAppend(plain, c.TaskPushNotificationConfig)
	if err != nil {
		return nil, err
	}
	return d.Box.Seal(name, plain), nil
}

// unseal reads a config; stale says that it is sealed under a secret that is to go.
func (d *Dispatcher) unseal(name string, sealed []byte) (c record, stale bool, err error) {
	const op = "push.unseal"
	plain, first, err := d.Box.Open(name, sealed)
	if err != nil {
		return record{}, false, mesh.Errorf(mesh.Precondition, op,
			"The push notification config was encrypted under another key; delete it and set it again: %w", err)
	}
	message, v03 := bytes.CutPrefix(plain, []byte{markV03})
	message, byRole := bytes.CutPrefix(message, []byte{markRole})
	c = record{TaskPushNotificationConfig: new(a2apb.TaskPushNotificationConfig), v03: v03, byRole: byRole}
	if err := proto.Unmarshal(message, c.TaskPushNotificationConfig); err != nil {
		return record{}, false, mesh.Errorf(mesh.Unknown, op, "The push notification config is damaged: %w", err)
	}
	return c, !first, nil
}

// config reads a config, and seals it anew if its secret is to go.
func (d *Dispatcher) config(ctx context.Context, name string) (record, error) {
	v, err := d.KV.Get(ctx, state.Key{Kind: kindConfig, Name: name})
	if err != nil {
		return record{}, err
	}
	c, stale, err := d.unseal(name, v.Data)
	c.version = v.Version
	if err == nil && stale {
		if err := d.putConfig(ctx, name, &c); err != nil && !mesh.IsCode(err, mesh.Conflict) {
			d.Logger.WarnContext(ctx, "push notification config not sealed under the new key", "err", err)
		}
	}
	return c, err
}

// putConfig writes a config in place of its version.
func (d *Dispatcher) putConfig(ctx context.Context, name string, c *record) error {
	data, err := d.seal(name, *c)
	if err != nil {
		return err
	}
	v, err := d.KV.Put(ctx, state.Key{Kind: kindConfig, Name: name}, data, c.version)
	if err == nil {
		c.version = v
	}
	return err
}

// cursorOf reads a cursor.
func (d *Dispatcher) cursorOf(ctx context.Context, name string) (cursor, error) {
	v, err := d.KV.Get(ctx, state.Key{Kind: kindCursor, Name: name})
	if err != nil {
		return cursor{}, err
	}
	return decodeCursor(v)
}

func decodeCursor(v state.Value) (cursor, error) {
	c := cursor{version: v.Version}
	if err := json.Unmarshal(v.Data, &c); err != nil {
		return c, mesh.Errorf(mesh.Unknown, "push.cursor", "A push notification cursor is damaged: %w", err)
	}
	return c, nil
}

// putCursor writes the cursor in place of the version that it was read as.
func (d *Dispatcher) putCursor(ctx context.Context, name string, c *cursor) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	v, err := d.KV.Put(ctx, state.Key{Kind: kindCursor, Name: name}, data, c.version)
	if err == nil {
		c.version = v
	}
	return err
}

// drop removes a record of the kind, if there is one.
func (d *Dispatcher) drop(ctx context.Context, kind, name string) error {
	err := d.KV.Delete(ctx, state.Key{Kind: kind, Name: name}, state.AnyVersion)
	if mesh.IsCode(err, mesh.NotFound) {
		return nil
	}
	return err
}

// each calls f with every record of the kind whose name begins with prefix.
func (d *Dispatcher) each(ctx context.Context, kind, prefix string, f func(state.Item) error) error {
	page := state.Page{Kind: kind, Prefix: prefix, Limit: 256}
	for {
		items, more, err := d.KV.List(ctx, page)
		if err != nil {
			return err
		}
		for _, it := range items {
			if err := f(it); err != nil {
				return err
			}
			page.After = it.Name
		}
		if !more {
			return nil
		}
	}
}
