package calendar

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/calendar/davcal"
	"agentmesh/skills/internal/outfile"
)

// A place is where events are: a folder, or a calendar on a server. An object of it is an event
// with its exceptions, under the name of a file.
type place interface {
	// names are those of the objects that may be events.
	names(ctx context.Context) ([]string, error)
	// within returns objects among which all are that have events of the time, and why others
	// cannot be read.
	within(ctx context.Context, env *skill.Env, from, to time.Time) ([]davcal.Object, []string, error)
	// read returns an object. The error is fs.ErrNotExist or NotFound if there is none.
	read(ctx context.Context, name string) (davcal.Object, error)
	// create makes an object once; what is noted in the ledger says whether it was made.
	create(ctx context.Context, made outfile.Ledger, key, name string, data func() ([]byte, error)) error
	// replace writes an object in place of the one that was read.
	replace(ctx context.Context, old davcal.Object, data []byte) error
	// remove takes an object away; done is false where it is to be marked as cancelled instead.
	remove(ctx context.Context, old davcal.Object) (done bool, err error)
	// path is the file that the object is, towards people; "" if it is none.
	path(name string) string
}

// places are those of the owner: the folder, and after it the account if there is one.
func (c calendar) places(env *skill.Env) []place {
	all := []place{folder{dir: c.folder(env), shown: path.Join(Folder, outfile.Folder(env.Owner()))}}
	if a := c.accounts[env.Owner()]; a != nil {
		all = append(all, server{a})
	}
	return all
}

// home is where new events go.
func (c calendar) home(env *skill.Env) place {
	all := c.places(env)
	return all[len(all)-1]
}

// A folder has a file for each object.
type folder struct{ dir, shown string }

func (f folder) path(name string) string { return path.Join(f.shown, name) }

func (f folder) names(context.Context) ([]string, error) { return files(f.dir) }

func (f folder) within(ctx context.Context, env *skill.Env, _, _ time.Time) (all []davcal.Object, unread []string, err error) {
	entries, err := files(f.dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range entries {
		o, err := f.read(ctx, name)
		if ctx.Err() != nil {
			return nil, nil, mesh.Wrap("calendar.list", ctx.Err())
		}
		if err != nil {
			unread = append(unread, name+": "+reason(err))
			env.Logger.WarnContext(ctx, "calendar file skipped", "file", name, "err", err)
			continue
		}
		all = append(all, o)
	}
	return all, unread, nil
}

func (f folder) read(_ context.Context, name string) (davcal.Object, error) {
	file, err := outfile.Open(f.dir, name)
	if err != nil {
		return davcal.Object{}, err
	}
	defer func() { _ = file.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return davcal.Object{}, err
	}
	if len(data) > maxFile {
		return davcal.Object{}, tooLong()
	}
	return davcal.Object{Name: name, Data: data}, nil
}

func tooLong() error {
	return mesh.Errorf(mesh.Invalid, "calendar.read", "it has more than %d bytes, too many for an event", maxFile)
}

func (f folder) create(_ context.Context, made outfile.Ledger, key, name string, data func() ([]byte, error)) error {
	const op = "calendar.write"
	noted, err := made.Get(key)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	if noted == nil {
		content, err := data()
		if err != nil {
			return err
		}
		// One from before there was a ledger stays.
		if _, err := os.Lstat(filepath.Join(f.dir, name)); err != nil {
			if err := outfile.Stage(f.dir, name, content); err != nil {
				return mesh.Wrap(op, err)
			}
		}
		if err := made.Put(key, []byte(name)); err != nil {
			return mesh.Wrap(op, err)
		}
	}
	_, err = outfile.Publish(f.dir, name)
	return mesh.Wrap(op, err)
}

func (f folder) replace(_ context.Context, old davcal.Object, data []byte) error {
	return outfile.Replace(f.dir, old.Name, data)
}

func (f folder) remove(context.Context, davcal.Object) (bool, error) { return false, nil }

// A server has a calendar. What is begun and not known to be made is made again, which the server
// refuses if it has it.
type server struct{ *davcal.Account }

func (s server) path(string) string { return "" }

func (s server) names(ctx context.Context) ([]string, error) { return s.Names(ctx) }

func (s server) within(ctx context.Context, _ *skill.Env, from, to time.Time) (all []davcal.Object, unread []string, err error) {
	found, err := s.Within(ctx, from, to)
	for _, o := range found {
		if len(o.Data) > maxFile {
			unread = append(unread, o.Name+": "+reason(tooLong()))
			continue
		}
		all = append(all, o)
	}
	return all, unread, err
}

func (s server) read(ctx context.Context, name string) (davcal.Object, error) {
	o, err := s.Get(ctx, name)
	if err == nil && len(o.Data) > maxFile {
		err = tooLong()
	}
	return o, err
}

// What a ledger has of an object on a server, before its name.
const (
	begun = "?"
	made  = "="
)

func (s server) create(ctx context.Context, ledger outfile.Ledger, key, name string, data func() ([]byte, error)) error {
	const op = "calendar.write"
	noted, err := ledger.Get(key)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	if noted != nil && string(noted[:1]) != begun {
		return nil
	}
	content, err := data()
	if err != nil {
		return err
	}
	if err := ledger.Put(key, []byte(begun+name)); err != nil {
		return mesh.Wrap(op, err)
	}
	switch err := s.Put(ctx, name, content, ""); {
	case mesh.IsCode(err, mesh.Conflict): // it is there, of this key
	case mesh.IsCode(err, mesh.Denied), mesh.IsCode(err, mesh.Precondition):
		return errors.Join(err, ledger.Drop(key)) // it certainly is not
	case mesh.IsCode(err, mesh.Unavailable):
		return mesh.Errorf(mesh.Unavailable, op, "%s. The event may be there all the same: look with calendar.list before another try: %w", mesh.DetailOf(err), err)
	case err != nil:
		return err
	}
	return ledger.Put(key, []byte(made+name))
}

func (s server) replace(ctx context.Context, old davcal.Object, data []byte) error {
	return s.Put(ctx, old.Name, data, old.ETag)
}

func (s server) remove(ctx context.Context, old davcal.Object) (bool, error) {
	err := s.Delete(ctx, old.Name, old.ETag)
	if mesh.IsCode(err, mesh.NotFound) {
		err = nil
	}
	return true, err
}

// placed is where the object is, for people.
func placed(at place, name string) string {
	return cmp.Or(at.path(name), "the calendar of the account")
}

// absent reports whether there is no such object.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || mesh.IsCode(err, mesh.NotFound) }

// versionOf changes whenever the content does. A server says itself what is another version: it may
// give the same content in two forms.
func versionOf(o davcal.Object) string {
	of := o.Data
	if o.ETag != "" {
		of = []byte(strings.TrimPrefix(o.ETag, "W/"))
	}
	sum := sha256.Sum256(of)
	return hex.EncodeToString(sum[:4])
}
