package skill

import "context"

// State is where skills keep what must last: small values of one tenant, by
// kind and key. Over the mesh it is the StateService; package skilltest has
// one in memory. Implementations are safe for concurrent use and neither keep
// nor return memory that they or the caller write to later.
type State interface {
	// Get returns the value and its version. The error is NotFound if there
	// is none.
	Get(ctx context.Context, kind, key string) (data []byte, version int64, err error)
	// Put writes the value and returns its new version. It demands that the
	// current version is the given one, with 0 for "must not exist" and
	// AnyVersion for no demand; the error is Conflict otherwise.
	Put(ctx context.Context, kind, key string, data []byte, version int64) (int64, error)
	// Delete removes the value, under the same demand as Put.
	Delete(ctx context.Context, kind, key string, version int64) error
	// List returns at most limit values whose key begins with prefix and is
	// greater than after, by key.
	List(ctx context.Context, kind, prefix, after string, limit int) ([]Item, error)
}

// AnyVersion makes no demand on the version that is there.
const AnyVersion int64 = -1

// An Item is one value of a State.
type Item struct {
	Key     string
	Data    []byte
	Version int64
}
