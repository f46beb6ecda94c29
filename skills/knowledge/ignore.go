package knowledge

import (
	"fmt"
	"path"
	"strings"
)

// IgnoreFile is the file in a folder of documents that has patterns of what is not searched,
// one a line; lines that begin with # are comments.
const IgnoreFile = ".docsignore"

// patterns choose files and folders.
type patterns []pattern

type pattern struct {
	glob   string
	name   bool // it is of a name, wherever that is
	folder bool // it is of folders alone
}

// parsePatterns reads lines as those of a .gitignore: a pattern without a slash, but at its end,
// is of a name anywhere, any other one of a path in the folder; a slash at the end is for folders
// alone. There are *, ? and [...], and neither ** nor !. It returns those that are sound, and what
// is wrong with the first other one.
func parsePatterns(lines []string) (all patterns, err error) {
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		glob, folder := strings.CutSuffix(line, "/")
		p := pattern{glob: strings.TrimPrefix(glob, "/"), name: !strings.Contains(glob, "/"), folder: folder}
		_, bad := path.Match(p.glob, "")
		if bad != nil || p.glob == "" || strings.HasPrefix(line, "!") || strings.Contains(line, "**") {
			if err == nil {
				err = fmt.Errorf("has the pattern %q, which is none; use *, ? and [...], as in drafts/ or *.tmp.md", line)
			}
			continue
		}
		all = append(all, p)
	}
	return all, err
}

// match reports whether the file or folder is chosen. Those above it are not looked at.
func (ps patterns) match(file string, folder bool) bool {
	for _, p := range ps {
		of := file
		if p.name {
			of = path.Base(file)
		}
		if ok, _ := path.Match(p.glob, of); ok && (folder || !p.folder) {
			return true
		}
	}
	return false
}
