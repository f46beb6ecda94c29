// Package protos embeds the definitions of the mesh's own services, as their
// authors wrote them. They are read-only, and safe for concurrent use. It is
// not the generated code, which is gen/mesh/v1.
package protos

import "embed"

// FS has the .proto files of package mesh.v1, below "mesh/v1".
//
//go:embed mesh/v1/*.proto
var FS embed.FS
