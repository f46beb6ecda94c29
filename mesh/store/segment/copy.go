package segment

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
)

// A File is a file of a log as a copy of it has it: with what the log had when
// [Log.Files] was called, and nothing of what came then.
type File struct {
	Name string // in the folder
	Size int64  // of all of it

	path string
	head []byte // what it begins with, if it has no records; the file is not read then
	end  int64  // what is behind it is zeros
}

// Hold has no file of the log replaced until release is called, so that all of
// [Log.Files] can be read: a sweep does nothing meanwhile, and whoever wants one has it
// made after that. It waits for a sweep, and for others who hold the log.
func (l *Log) Hold() (release func()) {
	l.sweeping.Lock()
	return l.sweeping.Unlock
}

// Files returns the log as it is now, and the number of its last record. A copy of them in
// a folder is a log, in which dropped records may still be.
func (l *Log) Files() (files []File, last int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i, seg := range l.segs {
		f := File{Name: filepath.Base(seg.path), Size: seg.size, path: seg.path, end: seg.end}
		if seg.unread > 0 { // where it ends is not known yet; nothing is added to it
			f.end = seg.size
		}
		if i == len(l.segs)-1 && len(seg.offsets) == 0 { // another may take its place and its name
			f.head = seg.head()
		}
		files = append(files, f)
	}
	return files, l.last
}

// Open returns what the file has. The caller closes it.
func (f File) Open() (io.ReadCloser, error) {
	rest := io.LimitReader(noughts{}, f.Size-f.end)
	if f.head != nil {
		return io.NopCloser(io.MultiReader(bytes.NewReader(f.head), rest)), nil
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(file, f.end), rest), file}, nil
}

// noughts are zeros without an end.
type noughts struct{}

func (noughts) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// List returns the files of a log that nobody uses.
func List(dir string) (files []File, err error) {
	firsts, err := list(dir, true)
	for _, first := range firsts {
		path := segPath(dir, first)
		st, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: filepath.Base(path), Size: st.Size(), path: path, end: st.Size()})
	}
	return files, err
}
