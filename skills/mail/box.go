package mail

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/outfile"
)

// maxLetters bounds the messages that one call looks at, the newest first.
const maxLetters = 2000

// An entry is a file that may be a message.
type entry struct {
	id, folder, file string
	written          time.Time
}

// idOf is how a message is called towards models: short, and nothing that
// could be taken for a path.
func idOf(folder, file string) string {
	sum := sha256.Sum256([]byte(folder + "/" + file))
	return "m-" + hex.EncodeToString(sum[:5])
}

// entries lists the owner's messages in the folders, by the time they were
// written, newest first.
func (p *post) entries(owner mesh.Owner, folders []string) ([]entry, error) {
	var all []entry
	for _, folder := range folders {
		list, err := os.ReadDir(p.folder(folder, owner))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, mesh.Errorf(mesh.Unavailable, "mail", "The folder %s cannot be read; check its permissions: %w", folder, err)
		}
		for _, d := range list {
			if !d.Type().IsRegular() || filepath.Ext(d.Name()) != suffix {
				continue // also links, which may lead anywhere
			}
			info, err := d.Info()
			if err != nil {
				continue // it went to another folder meanwhile
			}
			all = append(all, entry{id: idOf(folder, d.Name()), folder: folder, file: d.Name(), written: info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(b.written.Compare(a.written), cmp.Compare(a.id, b.id))
	})
	return all, nil
}

// open reads a message, of which it looks at so many bytes. The error is NotFound if it is gone.
func (p *post) open(ctx context.Context, env *skill.Env, e entry, most int64) (*letter, error) {
	if err := ctx.Err(); err != nil {
		return nil, mesh.Wrap("mail", err)
	}
	f, err := outfile.Open(p.folder(e.folder, env.Owner()), e.file)
	if err != nil {
		return nil, gone(e.id)
	}
	defer func() { _ = f.Close() }() // only read
	l := parse(f, most)
	l.id, l.folder = e.id, e.folder
	l.dated(e.written, env.Now())
	return l, nil
}

// dated sees that the message has a date. Who sends a message says when; nobody can have sent it
// later than now.
func (l *letter) dated(arrived, now time.Time) {
	if l.date.IsZero() || l.date.After(now.Add(24*time.Hour)) {
		l.date = arrived
	}
	l.date = l.date.In(now.Location())
}

func gone(id string) error {
	return mesh.Errorf(mesh.NotFound, "mail", "There is no message %s; find its id with mail.search", mesh.Clip(id, maxShown))
}
