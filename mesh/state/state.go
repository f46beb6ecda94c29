// Package state keeps small versioned values for agents: what an agent must
// remember beyond a thread, such as its tasks, its breakers or its schedules.
//
// [KV] guarantees that keys and values are within their bounds whatever calls
// it, and a [Store] that a value is replaced only by a writer who knew its
// version. Both are safe for concurrent use.
//
// It is not a database: there are no transactions over several keys, no
// queries beyond a prefix, and no history.
package state

import (
	"context"
	"strings"
	"sync"
	"unicode/utf8"

	"agentmesh/mesh"
)

// Bounds of keys, values and pages.
const (
	MaxKind = 80        // bytes of Key.Kind
	MaxName = 512       // bytes of Key.Name
	MaxData = 256 << 10 // bytes of Value.Data
	MaxPage = 1000      // values of one List
)

// AnyVersion is the expected version of a writer who does not care.
const AnyVersion int64 = -1

// A Key addresses a value: the tenant that owns it ("" is the operator's own),
// its kind, which says who may touch it, and its name within the kind.
type Key struct {
	Tenant mesh.TenantID
	Kind   string
	Name   string
}

// A Value is what stands under a key. Version is 1 when the value was made and
// one more with each change.
type Value struct {
	Data    []byte
	Version int64
}

// An Item is a value in a list.
type Item struct {
	Name string
	Value
}

// A Page says which values of a kind to list, in the byte order of their names.
type Page struct {
	Tenant mesh.TenantID
	Kind   string
	Prefix string // only names that begin with it
	After  string // only names above it
	Limit  int    // 1 to MaxPage
}

// Has reports whether the page may have a value of that name.
func (p Page) Has(name string) bool {
	return name > p.After && strings.HasPrefix(name, p.Prefix)
}

// A Store keeps the values. Drivers implement it; everything else uses [KV].
//
// Implementations are safe for concurrent use, keep no slice they were given
// and return none that they will write to again. A change is as durable as the
// driver makes it when the call returns. Package statetest is the other half of
// this contract.
type Store interface {
	// GetState returns the value, or a mesh.NotFound error.
	GetState(ctx context.Context, key Key) (Value, error)
	// PutState writes the value if version is the one that stands (0: there
	// must be none; AnyVersion: whatever is there) and returns the new version.
	// Otherwise it changes nothing and returns a mesh.Conflict error.
	PutState(ctx context.Context, key Key, data []byte, version int64) (int64, error)
	// DeleteState removes the value if version is the one that stands. It
	// returns mesh.NotFound if there is none, mesh.Conflict if it is another.
	DeleteState(ctx context.Context, key Key, version int64) error
	// ListState returns at most p.Limit values by name, and whether there are
	// more. A page may be shorter, to bound memory, but never empty if there
	// are more.
	ListState(ctx context.Context, p Page) (items []Item, more bool, err error)
	// StateKinds returns the kinds of which the tenant has values, sorted. There may be some
	// among them of which it has none any more.
	StateKinds(ctx context.Context, tenant mesh.TenantID) ([]string, error)
}

// KV is a [Store] whose callers need not be trusted with bounds.
type KV struct {
	store Store
	most  int // values of a kind

	mu     sync.Mutex
	spaces map[spaceKey]*space
}

// New returns a KV over the store.
func New(store Store, opts ...Option) *KV {
	kv := &KV{store: store, most: MaxKeys}
	for _, opt := range opts {
		opt(kv)
	}
	return kv
}

// Get returns the value under key. Errors: Invalid, NotFound, Unavailable.
func (kv *KV) Get(ctx context.Context, key Key) (Value, error) {
	const op = "state.Get"
	if err := checkKey(op, key); err != nil {
		return Value{}, err
	}
	v, err := kv.store.GetState(ctx, key)
	return v, mesh.Wrap(op, err)
}

// Put writes data under key if version is the one that stands: 0 if there must
// be none, [AnyVersion] for any. It returns the new version. Errors: Invalid,
// Conflict, Unavailable, and Exhausted for a new value where there are
// [MaxKeys] of the tenant's kind.
func (kv *KV) Put(ctx context.Context, key Key, data []byte, version int64) (int64, error) {
	const op = "state.Put"
	if err := checkKey(op, key); err != nil {
		return 0, err
	}
	if len(data) > MaxData {
		return 0, mesh.InvalidField(op, "data", "must be at most %d bytes, and has %d", MaxData, len(data))
	}
	if version < AnyVersion {
		return 0, badVersion(op, version)
	}
	v, err := kv.put(ctx, key, data, version)
	return v, mesh.Wrap(op, err)
}

// Delete removes the value under key if version, or [AnyVersion], is the one
// that stands. Errors: Invalid, NotFound, Conflict, Unavailable.
func (kv *KV) Delete(ctx context.Context, key Key, version int64) error {
	const op = "state.Delete"
	if err := checkKey(op, key); err != nil {
		return err
	}
	if version < 1 && version != AnyVersion {
		return badVersion(op, version)
	}
	return mesh.Wrap(op, kv.remove(ctx, key, version))
}

// List returns a page of values by name, and whether there are more. Errors:
// Invalid, Unavailable.
func (kv *KV) List(ctx context.Context, p Page) ([]Item, bool, error) {
	const op = "state.List"
	if err := checkKind(op, p.Tenant, p.Kind); err != nil {
		return nil, false, err
	}
	if p.Limit < 1 || p.Limit > MaxPage {
		return nil, false, mesh.InvalidField(op, "limit", "must be 1 to %d, and is %d", MaxPage, p.Limit)
	}
	items, more, err := kv.store.ListState(ctx, p)
	return items, more, mesh.Wrap(op, err)
}

func badVersion(op string, v int64) error {
	return mesh.InvalidField(op, "version", "must be the version that was read, or %d for any, and is %d", AnyVersion, v)
}

func checkKey(op string, k Key) error {
	if err := checkKind(op, k.Tenant, k.Kind); err != nil {
		return err
	}
	switch {
	case k.Name == "":
		return mesh.InvalidField(op, "key", "is missing; name the value")
	case len(k.Name) > MaxName:
		return mesh.InvalidField(op, "key", "must be at most %d bytes, and has %d", MaxName, len(k.Name))
	case !utf8.ValidString(k.Name) || strings.ContainsRune(k.Name, 0):
		return mesh.InvalidField(op, "key", "must be UTF-8 text without NUL, and is %q", k.Name)
	}
	return nil
}

func checkKind(op string, tenant mesh.TenantID, kind string) error {
	if tenant != "" {
		if err := tenant.Validate(); err != nil {
			return mesh.Wrap(op, err)
		}
	}
	if kind == "" || len(kind) > MaxKind || strings.IndexFunc(kind, notInKind) >= 0 {
		return mesh.InvalidField(op, "kind", "must be 1 to %d letters, digits, '-', '_' or '.'", MaxKind)
	}
	return nil
}

func notInKind(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}
