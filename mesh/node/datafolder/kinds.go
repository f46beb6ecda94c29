package datafolder

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"agentmesh/mesh/backup"
)

// A kind is files of the folder that are copied together.
type kind struct {
	name string
	// tops are its files and folders, directly in the data folder.
	tops []string
	// owners says that the first of tops has a folder for each owner, whose files have
	// nothing to do with those of others, and notes of each in .keys.
	owners bool
	// how is "" for files that are copied as they are; else who copies them, or why nobody does.
	how string
}

// How files are copied that are not copied as they are.
const (
	byStore = "by the store, at one point"
	byName  = "one by one: they do not change, and none goes meanwhile"
	leftOut = "not at all: it is of a process, or is made anew"
)

// kinds has all that a data folder has. What is in none is copied as it is, too; a test finds
// it, so that somebody says how it must be copied.
var kinds = []kind{
	{name: "log", tops: []string{"mesh.log"}, how: byStore},
	{name: "record", tops: []string{record}, how: byStore},
	{name: "values", tops: []string{file}, how: byStore},
	{name: "mark", tops: []string{markFile}},
	{name: "process", tops: []string{"mesh.db.lock", "mesh.db.new", "mesh.db.copy", "mesh.rows.new", "mesh.log.new", "audit.log.new"}, how: leftOut},
	{name: "keys", tops: []string{"grant.key", "card.key", "context.key", "tls"}},
	{name: "shared skills", tops: []string{"skills"}},
	{name: "tenants' skills", tops: []string{"tenant-skills"}},
	{name: "mail", tops: []string{"outbox", "sending", "sent", "drafts", "inbox", "archive", "trash", ".mail-keys"}},
	{name: "calendar", tops: []string{"calendar", ".calendar-keys"}},
	{name: "files", tops: []string{"files"}, owners: true},
	{name: "notes", tops: []string{"vault"}, owners: true},
	{name: "large files", tops: []string{blobs}, how: byName},
	{name: "indexes", tops: []string{"memory-index", "vault/.index", "mesh.index", "mesh.rows"}, how: leftOut},
}

// markFile says that there is a data file: a folder with it, and without the data file, is
// refused by whoever opens it.
const markFile = "mesh.db.exists"

// unfinished is the name of a file that is being written, and gets another one.
var unfinished = regexp.MustCompile(`^\.[^/]+\.[0-9]+$|^\.key-[0-9]+$`)

// skipped reports what is not copied below the kinds that are.
func skipped(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, backup.LockPrefix) || unfinished.MatchString(base) || slices.Contains(left(), name)
}

// left are the tops of what is not copied at all.
func left() (all []string) {
	for _, k := range kinds {
		if k.how == leftOut {
			all = append(all, k.tops...)
		}
	}
	return all
}

// known reports whether a kind has the file or folder of that name in the data folder.
func known(top string) bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return slices.Contains(k.tops, top) })
}

// trees are the files that are copied as they are, apart from the mark.
func trees(dir string) (all []backup.Tree, err error) {
	add := func(roots ...string) { all = append(all, backup.Tree{Dir: dir, Roots: roots, Skip: skipped}) }
	for _, k := range kinds {
		switch {
		case k.how != "" || k.tops[0] == markFile:
		case k.owners:
			owners, err := owners(filepath.Join(dir, k.tops[0]))
			if err != nil {
				return nil, err
			}
			for _, owner := range owners {
				add(k.tops[0]+"/"+owner, k.tops[0]+"/.keys/"+owner)
			}
		default:
			add(k.tops...)
		}
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !known(e.Name()) {
			add(e.Name())
		}
	}
	return all, err
}

// owners are the names of what is in the folder, and of those of whom there are notes alone.
func owners(dir string) (all []string, err error) {
	for _, in := range []string{dir, filepath.Join(dir, ".keys")} {
		entries, err := os.ReadDir(in)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		for _, e := range entries {
			if e.Name() != ".keys" && e.Name() != ".index" && !slices.Contains(all, e.Name()) {
				all = append(all, e.Name())
			}
		}
	}
	return all, nil
}

// Unknown are the files and folders of the data folder of which no kind says how they are
// copied, sorted: those directly in it, those of logs that are no segments, and hidden ones
// beside those of owners.
func Unknown(dir string) (all []string, err error) {
	list := func(sub string, known func(name string) bool) {
		entries, e := os.ReadDir(filepath.Join(dir, sub))
		if e != nil && !os.IsNotExist(e) {
			err = e
		}
		for _, e := range entries {
			if !known(e.Name()) {
				all = append(all, path.Join(sub, e.Name()))
			}
		}
	}
	list("", known)
	for _, k := range kinds {
		switch {
		case k.how == byStore && k.tops[0] != file:
			list(k.tops[0], func(name string) bool { return strings.HasSuffix(name, ".seg") || strings.HasSuffix(name, ".new") })
		case k.owners:
			list(k.tops[0], func(name string) bool {
				return !strings.HasPrefix(name, ".") || name == ".keys" || slices.Contains(left(), k.tops[0]+"/"+name)
			})
		}
	}
	slices.Sort(all)
	return all, err
}
