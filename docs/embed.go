// Package docs carries this project's documents in the binary, where the
// knowledge skill searches them when no other folder of documents is given.
package docs

import "embed"

// FS holds the pages: *.md for users and operators, adr/*.md for decisions.
//
//go:embed *.md adr/*.md
var FS embed.FS
