package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/state"
)

// kindTokens is where it is kept how the token file was when a node read it last: a value
// for each token, and one, firstMark, that says that there are such values.
const (
	kindTokens = "auth.tokens"
	firstMark  = "-"
)

// A kept is a value of kindTokens.
type kept struct {
	Name string `json:"name"`
	auth.Mark

	version int64
}

// loadTokens reads the token file, and what was changed there meanwhile.
func (n *node) loadTokens(ctx context.Context) (err error) {
	marks := func(now map[string]auth.Mark) {
		if n.tokens != nil { // the first reading is compared with what was before
			n.remember(ctx, now)
		}
	}
	n.tokens, err = auth.LoadTokens(n.cfg.Tokens, n.verifier, auth.WithLogger(n.logger, n.alarms), auth.WithAudit(n.audit.Credential),
		auth.WithEnded(func() { n.tokensEnded() }), auth.WithMarks(marks))
	if err != nil {
		return err
	}
	return n.noticed(ctx, n.tokens.Marks())
}

// noticed has what was changed in the token file while no node ran recorded, before it is
// kept how the file is now. The first time, there is nothing to compare that with.
func (n *node) noticed(ctx context.Context, now map[string]auth.Mark) error {
	before, first, err := n.lastMarks(ctx)
	if err == nil && !first {
		err = n.audit.Noticed(changes(before, now))
	}
	if err == nil {
		err = n.keepMarks(ctx, before, now, first)
	}
	return mesh.Wrap("node.tokens", err)
}

// remember keeps how the tokens are, when the changes are recorded.
func (n *node) remember(ctx context.Context, now map[string]auth.Mark) {
	before, first, err := n.lastMarks(ctx)
	if err == nil {
		err = n.keepMarks(ctx, before, now, first)
	}
	if err != nil {
		n.logger.ErrorContext(ctx, "how the token file is could not be kept; what was changed is recorded again after the next start", "err", err)
	}
}

// lastMarks returns what is kept, by the tokens' names, and whether that is nothing yet.
func (n *node) lastMarks(ctx context.Context) (before map[string]kept, first bool, err error) {
	before, first = map[string]kept{}, true
	for page := (state.Page{Kind: kindTokens, Limit: state.MaxPage}); ; {
		items, more, err := n.kv.List(ctx, page)
		if err != nil {
			return nil, false, err
		}
		for _, it := range items {
			k := kept{version: it.Version}
			if page.After = it.Name; it.Name == firstMark {
				first = false
			} else if err := json.Unmarshal(it.Data, &k); err != nil {
				return nil, false, err
			} else {
				before[k.Name] = k
			}
		}
		if !more {
			return before, first, nil
		}
	}
}

// keepMarks changes what is kept. Where another node was faster, it did so for the same file.
func (n *node) keepMarks(ctx context.Context, before map[string]kept, now map[string]auth.Mark, first bool) error {
	key := func(name string) state.Key {
		sum := sha256.Sum256([]byte(name))
		return state.Key{Kind: kindTokens, Name: hex.EncodeToString(sum[:16])}
	}
	var err error
	for name, m := range now {
		if k := before[name]; k.Mark != m && err == nil {
			var data []byte
			if data, err = json.Marshal(kept{Name: name, Mark: m}); err == nil {
				err = faster(n.kv.Put(ctx, key(name), data, k.version))
			}
		}
	}
	for name, k := range before {
		if _, ok := now[name]; !ok && err == nil {
			err = faster(0, n.kv.Delete(ctx, key(name), k.version))
		}
	}
	if first && err == nil {
		err = faster(n.kv.Put(ctx, state.Key{Kind: kindTokens, Name: firstMark}, []byte("{}"), 0))
	}
	return err
}

// faster is the error, unless another node was.
func faster(_ int64, err error) error {
	if mesh.IsCode(err, mesh.Conflict) || mesh.IsCode(err, mesh.NotFound) {
		return nil
	}
	return err
}

// changes says which credentials went and came, and whose they are. One that is changed
// does both.
func changes(before map[string]kept, now map[string]auth.Mark) (revoked, added []mesh.Principal) {
	of := func(name string, m auth.Mark) mesh.Principal {
		return mesh.Principal{Tenant: m.Tenant, User: m.User, Credential: "token:" + name}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if m, ok := now[name]; !ok || m != before[name].Mark {
			revoked = append(revoked, of(name, before[name].Mark))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if k, ok := before[name]; !ok || k.Mark != now[name] {
			added = append(added, of(name, now[name]))
		}
	}
	return revoked, added
}
