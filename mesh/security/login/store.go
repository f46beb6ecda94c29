package login

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/keyfile"

	"github.com/gofrs/flock"
)

const (
	// early is how long before its end an access token is renewed: it has to arrive.
	early = time.Minute
	// lockPause is how long to wait between attempts to get the file.
	lockPause = 20 * time.Millisecond
)

// A Store keeps credentials in a file, by the address of the mesh that each is for. It may
// be used concurrently, by several processes too: one of them renews, and the others take
// what it got.
type Store struct {
	// Path is the file, which nobody but its owner may read. Its folder is made.
	Path string
	// Now is the clock.
	Now func() time.Time
}

// Has reports whether there is a credential for the mesh.
func (s *Store) Has(addr string) (bool, error) {
	all, err := s.read()
	_, ok := all[addr]
	return ok, err
}

// Token returns the access token for the mesh, "" if there is none. One that is over, or
// about to be, is renewed.
func (s *Store) Token(ctx context.Context, addr string) (string, error) {
	all, err := s.read()
	c := all[addr]
	if err != nil || !s.old(c) {
		return c.Access, err
	}
	err = s.change(ctx, func(all map[string]Credential) (bool, error) {
		if c = all[addr]; !s.old(c) { // another process was first
			return false, nil
		}
		// A provider may take a refresh token once only: what it gives for it must not
		// get lost because somebody stopped waiting.
		fresh, err := c.renewed(context.WithoutCancel(ctx))
		if err != nil && s.Now().Before(c.Expiry) {
			return false, nil // this one still counts, and the next call tries again
		}
		if err != nil {
			return false, err
		}
		c, all[addr] = fresh, fresh
		return true, nil
	})
	return c.Access, err
}

// old reports whether the credential has to be renewed.
func (s *Store) old(c Credential) bool {
	return !c.Expiry.IsZero() && !s.Now().Before(c.Expiry.Add(-early))
}

// Put keeps the credential for the mesh, instead of the one that is there.
func (s *Store) Put(ctx context.Context, addr string, c Credential) error {
	return s.change(ctx, func(all map[string]Credential) (bool, error) { all[addr] = c; return true, nil })
}

// Remove removes the credential for the mesh, and returns it; false if there is none.
func (s *Store) Remove(ctx context.Context, addr string) (c Credential, ok bool, err error) {
	if ok, err = s.Has(addr); !ok || err != nil {
		return c, false, err
	}
	err = s.change(ctx, func(all map[string]Credential) (bool, error) {
		c, ok = all[addr]
		delete(all, addr)
		return ok, nil
	})
	return c, ok, err
}

// read returns what is in the file; nothing if there is none.
func (s *Store) read() (map[string]Credential, error) {
	all := map[string]Credential{}
	data, err := keyfile.Read(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil && json.Unmarshal(data, &all) != nil || all == nil { // its errors quote tokens
		err = mesh.Errorf(mesh.Precondition, "login.read", "the file of log-ins %s is damaged; remove it, and log in again", s.Path)
	}
	return all, err
}

// change writes the file anew if do changes what is in it, while no other process does.
func (s *Store) change(ctx context.Context, do func(map[string]Credential) (bool, error)) (err error) {
	const op = "login.change"
	unwritable := func(err error) error {
		return mesh.Errorf(mesh.Precondition, op, "the file of log-ins %s cannot be written; check its folder: %w", s.Path, err)
	}
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o700); err != nil {
		return unwritable(err)
	}
	lock := flock.New(s.Path+".lock", flock.SetPermissions(0o600))
	switch got, err := lock.TryLockContext(ctx, lockPause); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil || !got:
		return unwritable(err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	all, err := s.read()
	if err != nil {
		return err
	}
	changed, err := do(all)
	if err != nil || !changed {
		return err
	}
	data, err := json.MarshalIndent(all, "", "  ") //nolint:gosec // keeping them is what the file is for
	if err != nil {
		return unwritable(err)
	}
	if err := errors.Join(keyfile.Sweep(filepath.Dir(s.Path)), keyfile.ReplaceText(s.Path, data)); err != nil {
		return unwritable(err)
	}
	return nil
}
