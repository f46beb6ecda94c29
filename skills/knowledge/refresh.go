package knowledge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/textindex"
)

// Bounds of what is indexed.
const (
	maxFiles = 50_000
	maxFile  = 2 << 20  // bytes of a file that is text, HTML too
	maxPaper = 32 << 20 // bytes of any other file
	maxText  = 8 << 20  // bytes of text in one
	maxTitle = 300      // bytes of a title or a heading, which each section has again
	batch    = 300      // sections that are indexed together; searches wait meanwhile
)

// record is what is known of a file.
type record struct {
	stamp    string // of the file that was read
	sections []string
	searched bool   // it is a document
	problem  string // why it is not, or ""
	seen     bool   // in this walk
}

// A format reads files of one kind.
type format struct {
	most int64
	read func(ctx context.Context, ix *Index, file string, data []byte) (*document, error)
}

// formats are those of documents, by suffix.
var formats = map[string]format{
	".md": {maxFile, readText}, ".markdown": {maxFile, readText}, ".txt": {maxFile, readText},
	".html": {maxFile, readHTML}, ".htm": {maxFile, readHTML},
	".docx": {maxPaper, readDOCX}, ".pdf": {maxPaper, readPDF},
}

// foreign are suffixes of documents that people expect to be searched and that are not read.
var foreign = []string{".doc", ".odt", ".rtf", ".pptx", ".ppt", ".xlsx", ".xls"}

// document is what a file says. Nil stands for one that does not want to be searched.
type document struct {
	title    string
	paged    bool // the line of a section is its page
	sections []section
}

// refresh reads what has changed in the folder. It calls entered, unless it is nil, with the
// path on disk of each folder before it is read. When the error is not nil, the folder itself cannot
// be read, and what was read of it before stays until it can: all of it is read again then.
func (ix *Index) refresh(ctx context.Context, entered func(dir string)) (err error) {
	defer func() {
		if err != nil { // some of it may not be in the index
			for _, r := range ix.files {
				r.stamp, r.seen = "", false
			}
		}
	}()
	w := walk{ix: ix, entered: entered}
	if err := w.all(ctx); err != nil {
		return err
	}
	for file, r := range ix.files {
		if gone := !r.seen && !slices.ContainsFunc(w.closed, func(dir string) bool { return strings.HasPrefix(file, dir+"/") }); gone {
			w.changes.Delete = append(w.changes.Delete, r.sections...)
			delete(ix.files, file)
		}
		r.seen = false
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.documents, ix.sections = 0, 0
	for file, r := range ix.files {
		if ix.sections += len(r.sections); r.searched {
			ix.documents++
		}
		if r.problem != "" {
			w.problem(file, r.problem)
		}
	}
	slices.SortFunc(w.problems, func(a, b skill.Problem) int { return strings.Compare(a.Path, b.Path) })
	ix.report(ctx, w.problems)
	return nil
}

// lost tells why the folder cannot be read any more.
func (ix *Index) lost(ctx context.Context, err error) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.report(ctx, []skill.Problem{{Path: ".", Detail: "the folder cannot be read (" + cleanReason(err) + "), and what was read of it before is searched; check that it exists and its permissions"}})
}

// report makes these the problems that there are. The caller holds mu.
func (ix *Index) report(ctx context.Context, problems []skill.Problem) {
	known := make(map[skill.Problem]bool, len(ix.problems))
	for _, p := range ix.problems {
		known[p] = true
	}
	for _, p := range problems {
		if !known[p] {
			ix.opts.Logger.WarnContext(ctx, "a document cannot be searched", "path", p.Path, "because", p.Detail)
		}
	}
	if ix.problems = problems; ix.tell != nil {
		ix.tell(problems)
	}
}

// walk is one look at all files.
type walk struct {
	ix       *Index
	entered  func(string)
	changes  textindex.Changes
	closed   []string // folders that cannot be read
	problems []skill.Problem
	many     int // documents that are too many
}

func (w *walk) problem(file, why string) {
	w.problems = append(w.problems, skill.Problem{Path: cleanReason(errors.New(file)), Detail: why})
}

func (w *walk) all(ctx context.Context) error {
	if w.entered != nil {
		w.entered(w.ix.opts.Dir)
	}
	if err := w.patterns(); err != nil {
		return err
	}
	return fs.WalkDir(w.ix.fsys, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && file == ".":
			return err
		case err != nil:
			w.problem(file, "cannot be read; check its permissions")
			if w.closed = append(w.closed, file); d != nil && d.IsDir() {
				return fs.SkipDir
			}
		case file == ".":
		case strings.HasPrefix(d.Name(), "."), w.ix.ignore.match(file, d.IsDir()):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
			if w.entered != nil {
				w.entered(filepath.Join(w.ix.opts.Dir, filepath.FromSlash(file)))
			}
		default:
			if err := w.file(ctx, file); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// patterns reads what is to be ignored.
func (w *walk) patterns() (err error) {
	data, err := fs.ReadFile(w.ix.fsys, IgnoreFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	own, err := parsePatterns(strings.Split(string(data), "\n"))
	if err != nil {
		w.problem(IgnoreFile, err.Error())
	}
	set, err := parsePatterns(w.ix.opts.Ignore)
	w.ix.ignore = append(own, set...)
	return err
}

// file reads a file if it has changed.
func (w *walk) file(ctx context.Context, file string) error {
	suffix := strings.ToLower(path.Ext(file))
	f, ours := formats[suffix]
	if !ours && !slices.Contains(foreign, suffix) {
		return nil
	}
	stamp, problem := w.stamp(file, f)
	r := w.ix.files[file]
	if r == nil && len(w.ix.files) == maxFiles {
		if w.many++; w.many == 1 {
			w.problem(file, fmt.Sprintf("and what comes after it is left out: %d documents are read at most; name a smaller folder, or some of it in docs_ignore", maxFiles))
		}
		return nil
	}
	if r == nil {
		r = &record{}
		w.ix.files[file] = r
	}
	if r.seen = true; problem == "" && stamp == r.stamp {
		return nil
	}
	w.changes.Delete = append(w.changes.Delete, r.sections...)
	*r = record{stamp: stamp, problem: problem, seen: true}
	if problem == "" {
		w.read(ctx, file, f, r)
	}
	if len(w.changes.Put)+len(w.changes.Delete) >= batch {
		return w.flush(ctx)
	}
	return nil
}

// stamp tells states of a file apart, or says why it is not read.
func (w *walk) stamp(file string, f format) (stamp, problem string) {
	info, err := fs.Stat(w.ix.fsys, file)
	switch {
	case err != nil || !info.Mode().IsRegular():
		return "", "is not a readable file; check its permissions"
	case f.read == nil:
		return "", "is of a format that is not read; save it as PDF, DOCX, HTML, markdown or text, or name it in docs_ignore"
	case info.Size() > f.most:
		return "", fmt.Sprintf("is longer than the %d MiB that are read; split it", f.most>>20)
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano()), ""
}

// read puts the sections of a file into the index, or notes why there are none.
func (w *walk) read(ctx context.Context, file string, f format, r *record) {
	data, err := fs.ReadFile(w.ix.fsys, file)
	if err != nil { // mended permissions change neither size nor time
		r.stamp, r.problem = "", "cannot be read; check its permissions"
		return
	}
	doc, err := f.read(ctx, w.ix, file, data)
	switch {
	case ctx.Err() != nil: // it says nothing of the file
		r.stamp = ""
		return
	case errors.Is(err, errNoProcess):
		r.stamp, r.problem = "", cleanReason(err)
		return
	case err != nil:
		r.problem = cleanReason(err)
		return
	case doc == nil:
		return
	}
	r.searched = true
	title := mesh.Clip(doc.title, maxTitle)
	for i, s := range cut(doc.sections) {
		w.ix.last++
		d := textindex.Doc{ID: id(file, s.line, i), Texts: []string{title, s.heading, s.body}, Factor: 1, Data: tag(w.ix.last, doc.paged)}
		w.changes.Put, r.sections = append(w.changes.Put, d), append(r.sections, d.ID)
	}
}

// cut bounds sections in which nothing is to be cut at, as a page that is all one line.
func cut(sections []section) (all []section) {
	const most = 4 * maxSection
	for _, s := range sections {
		for len(s.body) > most {
			n := most
			for n > most-utf8.UTFMax && !utf8.RuneStart(s.body[n]) {
				n--
			}
			head := s
			head.body = s.body[:n]
			all, s.body = append(all, head), s.body[n:]
		}
		all = append(all, s)
	}
	return all
}

// cleanReason is why a file is not read, in one line.
func cleanReason(err error) string {
	return mesh.Clip(strings.Join(strings.Fields(skill.Visible(err.Error())), " "), 200)
}

// flush makes the changes so far, of whole files.
func (w *walk) flush(ctx context.Context) error {
	w.ix.mu.Lock()
	defer w.ix.mu.Unlock()
	err := w.ix.texts.Apply(ctx, w.changes)
	w.changes = textindex.Changes{Put: w.changes.Put[:0], Delete: w.changes.Delete[:0]}
	return err
}
