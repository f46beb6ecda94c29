// Package skills holds the skills that the mesh brings along: for each domain
// a folder with a page per action, and the package with their handlers.
//
// The pages are embedded, so that a mesh has its skills without any file
// around it; a folder of the user's comes before them ([skill.Load]).
package skills

import "embed"

// FS is the folder of pages, as <domain>/<action>.md and <domain>/SKILL.md.
//
//go:embed */*.md
var FS embed.FS
