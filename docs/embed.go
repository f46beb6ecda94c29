// Package docs carries this project's documents in the binary, where the
// knowledge skill searches them when no other folder of documents is given.
package docs

import "embed"

// FS holds the pages that are for users and operators. Of these, a page with "search: false" in
// its front matter is not searched; what else is not, .docsignore says to a mesh on this folder.
//
//go:embed *.md
var FS embed.FS
