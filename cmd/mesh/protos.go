package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"agentmesh/mesh"
	protos "agentmesh/proto"
)

// Names of A2A's messages: where the mesh's files import them from, and in a
// folder of our own, where they cannot clash with what an SDK has registered.
const (
	a2aFile       = "a2av1.proto"
	a2aPackage    = "lf.a2a.v1"
	a2aOwnFile    = "mesh/a2a/v1/a2a.proto"
	a2aOwnPackage = "mesh.a2a.v1"
)

// protosCommand writes the protos for those who write agents in other
// languages.
func (a *app) protosCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "protos DIR",
		Short: "Write the .proto files of the mesh's services, to make stubs from",
		Long: `protos writes the .proto files of the mesh's services into the folder DIR, as
mesh/v1/*.proto, and what they import. Stubs made from them need nothing but
protobuf and gRPC, in any language.

Messages of A2A are in mesh/a2a/v1/a2a.proto, in a package of their own, so that
the stubs go into one program with an SDK of A2A, which brings the same messages
as lf.a2a.v1. They are the same bytes and the same JSON: to make one of the
other, serialize and parse. The service of A2A is left out: it is the SDK's.

Annotations for REST are left out too; /openapi.json describes that interface.

Stubs for Python, when the files are in ./protos:

  python -m grpc_tools.protoc -I protos --python_out=. --grpc_python_out=. \
    $(find protos -name '*.proto')`,
		Example: `  mesh protos ./protos`,
		Args:    exactly("the folder DIR"),
		RunE: a.raw(func(_ context.Context, args []string) error {
			names, err := writeProtos(args[0])
			for _, name := range names {
				a.printf("%s\n", oneLine(filepath.Join(args[0], filepath.FromSlash(name))))
			}
			return err
		}),
	}
}

// writeProtos writes all files below dir and returns their names, with slashes.
func writeProtos(dir string) ([]string, error) {
	const op = "mesh.protos"
	files, err := protoFiles()
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	var names []string
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			return nil, mesh.Errorf(mesh.Precondition, op, "%s cannot be written; name another folder: %w", path, err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// What is changed in our files: where A2A's messages come from, and REST.
var (
	a2aImport   = regexp.MustCompile(`(?m)^import "` + regexp.QuoteMeta(a2aFile) + `";$`)
	a2aName     = regexp.MustCompile(`\b` + regexp.QuoteMeta(a2aPackage) + `\.`)
	httpImport  = regexp.MustCompile(`(?m)^import "google/api/annotations\.proto";\n`)
	httpOptions = regexp.MustCompile(`(?m)^(  rpc .*) \{\n    option \(google\.api\.http\) = \{(?:.*\}|\n(?:      .*\n)*    \});\n  \}$`)
)

// protoFiles returns the text of each file by its name.
func protoFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(protos.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := protos.FS.ReadFile(name)
		if err != nil {
			return err
		}
		text = a2aImport.ReplaceAll(text, []byte(`import "`+a2aOwnFile+`";`))
		text = a2aName.ReplaceAll(text, []byte(a2aOwnPackage+"."))
		text = httpImport.ReplaceAll(text, nil)
		files[name] = httpOptions.ReplaceAll(text, []byte("$1;"))
		return nil
	})
	if err != nil {
		return nil, err
	}
	a2a, err := protoregistry.GlobalFiles.FindFileByPath(a2aFile)
	if err != nil {
		return nil, err
	}
	files[a2aOwnFile] = a2aText(a2a)
	return files, nil
}

// a2aText returns A2A's messages and enums as the text of a .proto file in a
// package of our own.
func a2aText(fd protoreflect.FileDescriptor) []byte {
	p := &protoPrinter{from: fd.Package(), to: a2aOwnPackage}
	p.line(0, "// Messages of the Agent2Agent protocol (A2A), Copyright The A2A Authors, under the")
	p.line(0, "// Apache License 2.0. The same as in package %s, on the wire and in JSON; see", fd.Package())
	p.line(0, "// https://a2a-protocol.org for what they mean.")
	p.line(0, `syntax = "proto3";`)
	p.line(0, "\npackage %s;\n", a2aOwnPackage)
	for _, name := range messageImports(fd) {
		p.line(0, "import %q;", name)
	}
	for i := range fd.Enums().Len() {
		p.enum(0, fd.Enums().Get(i))
	}
	for i := range fd.Messages().Len() {
		p.message(0, fd.Messages().Get(i))
	}
	return bytes.Clone(p.out.Bytes())
}

// messageImports returns the files of others whose messages the messages of fd
// have as fields, sorted.
func messageImports(fd protoreflect.FileDescriptor) []string {
	seen := map[string]bool{}
	var visit func(ms protoreflect.MessageDescriptors)
	visit = func(ms protoreflect.MessageDescriptors) {
		for i := range ms.Len() {
			m := ms.Get(i)
			for j := range m.Fields().Len() {
				f := m.Fields().Get(j)
				if f.Message() != nil && f.Message().ParentFile() != fd {
					seen[f.Message().ParentFile().Path()] = true
				}
			}
			visit(m.Messages())
		}
	}
	visit(fd.Messages())
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
