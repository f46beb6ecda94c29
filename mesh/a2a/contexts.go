package a2a

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"

	"github.com/google/uuid"

	"agentmesh/mesh"
)

// Contexts say which thread a context id means that is not the id of one: any text, by
// which a user names a conversation. Each (tenant, user, name) has one thread, whose id is a
// keyed hash of them with the form of a UUID v4; so it is the same at every node that has
// the key, and nobody can guess another's. It is safe for concurrent use.
type Contexts struct{ key []byte }

// NewContexts returns the contexts under the key, of 16 bytes at least. Under another one
// all names mean other threads.
func NewContexts(key []byte) (*Contexts, error) {
	if len(key) < 16 {
		return nil, mesh.InvalidField("a2a.NewContexts", "key", "must be at least 16 bytes, and has %d", len(key))
	}
	return &Contexts{key}, nil
}

// Thread returns the id of the thread that the user's context id means: itself, if it is a
// thread id.
func (c *Contexts) Thread(tenant mesh.TenantID, user, context string) string {
	if isThreadID(context) {
		return context
	}
	mac := hmac.New(sha256.New, c.key)
	_, _ = fmt.Fprintf(mac, "%q %q %q", tenant, user, context) // it cannot fail
	id := uuid.UUID(mac.Sum(nil)[:16])
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id.String()
}

// Shown returns the context id that a task of the thread has to the caller, where the task
// was opened with the one given, or "": that, if it is the caller's own name for the thread,
// else the thread's id, as always for callers of our extension.
func (c *Contexts) Shown(key mesh.ThreadKey, call mesh.Call, opened string) string {
	if c == nil || opened == "" || exact(call) || c.Thread(key.Tenant, call.Principal.User, opened) != key.ID {
		return key.ID
	}
	return opened
}

// exact reports whether the caller says thread ids, and is told them, as those of our
// extension do and who names the thread in metadata.
func exact(call mesh.Call) bool { return call.Extended() || call.Thread != "" }

// isThreadID reports whether the context id has the form that thread ids have.
func isThreadID(context string) bool {
	id, err := mesh.ParseThreadID(context)
	return err == nil && id == context
}

// WithContextNames takes any text for a context id of callers who know nothing of ours, for
// a Service that finds the thread by [Contexts]. Otherwise context ids are thread ids.
func WithContextNames() Option { return func(s *server) { s.names = true } }

// checkContext bounds a context id, which is a thread id unless it may be a name, and not
// another thread than the one in the call's metadata.
func (s *server) checkContext(op string, call mesh.Call, id string) error {
	const field = "message.context_id"
	switch {
	case id == "":
		return nil
	case len(id) > MaxID:
		return mesh.InvalidField(op, field, "is %d bytes long; the limit is %d", len(id), MaxID)
	case !isThreadID(id) && (!s.names || exact(call)):
		return mesh.InvalidField(op, field, "must be a UUID v4 in lower case such as 550e8400-e29b-41d4-a716-446655440000, and is %q", clip(id))
	case call.Thread != "" && call.Thread != id:
		return mesh.InvalidField(op, field, "is %s, and thread-id in the metadata is %s; send the same or one of them", id, call.Thread)
	}
	return nil
}
