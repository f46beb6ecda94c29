package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// writtenProtos runs 'mesh protos' and returns the folder and the names of the
// files in it.
func writtenProtos(t *testing.T) (string, []string) {
	t.Helper()
	dir := t.TempDir()
	said := runMesh(t, dir, nil, "protos", "protos").succeeds(t)
	var names []string
	for line := range strings.Lines(said) {
		name, ok := strings.CutPrefix(filepath.ToSlash(strings.TrimSpace(line)), "protos/")
		if !ok {
			t.Errorf("it said %q", line)
		}
		names = append(names, name)
	}
	return filepath.Join(dir, "protos"), names
}

// The written files import one another and what comes with every protobuf, and
// define nothing that an SDK of A2A or Google's annotations define too.
func TestProtosAreWholeAndClashWithNothing(t *testing.T) {
	dir, names := writtenProtos(t)
	for _, want := range []string{a2aOwnFile, "mesh/v1/handoff.proto", "mesh/v1/registry.proto", "mesh/v1/thread.proto"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %q", want, names)
		}
	}
	imports := regexp.MustCompile(`(?m)^import "(.*)";$`)
	of := regexp.MustCompile(`(?m)^package (.*);$`)
	for _, name := range names {
		text := readFile(t, filepath.Join(dir, filepath.FromSlash(name)))
		if p := of.FindStringSubmatch(text); p == nil || p[1] != strings.ReplaceAll(filepath.ToSlash(filepath.Dir(name)), "/", ".") {
			t.Errorf("%s: the package is %q", name, p)
		}
		for _, i := range imports.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(names, i[1]) && !strings.HasPrefix(i[1], "google/protobuf/") {
				t.Errorf("%s imports %s, which is not there", name, i[1])
			}
		}
		if strings.Contains(text, "google.api.") {
			t.Errorf("%s has annotations for REST", name)
		}
	}
}

func TestProtosSayWhereTheyCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "file"), "not a folder")
	runMesh(t, dir, nil, "protos", "file").fails(t, exitFailure, "file.*cannot be written; name another folder")
}

// Another compiler makes of the written files what the mesh has: the same
// messages with the same fields, in the services the same calls.
func TestInteropProtosCompile(t *testing.T) {
	dir, names := writtenProtos(t)
	out := filepath.Join(t.TempDir(), "set.binpb")
	compiler := protoc(t)
	args := append(compiler[1:], append([]string{"-I", dir, "--descriptor_set_out=" + out}, names...)...)
	if said, err := exec.CommandContext(timely(t), compiler[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal([]byte(readFile(t, out)), &set); err != nil {
		t.Fatal(err)
	}
	linked := map[string]string{a2aOwnFile: a2aFile}
	for _, got := range set.GetFile() {
		name := got.GetName()
		if linked[name] != "" {
			name = linked[name]
		}
		fd, err := protoregistry.GlobalFiles.FindFileByPath(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(shape(protodesc.ToFileDescriptorProto(fd), name == a2aFile), shape(got, false)); d != "" {
			t.Errorf("%s: -linked +compiled\n%s", got.GetName(), d)
		}
	}
	if len(set.GetFile()) != len(names) {
		t.Errorf("%d files were compiled, want %d", len(set.GetFile()), len(names))
	}
}

// protoc returns a compiler of protos, or skips the test where there is none.
func protoc(t *testing.T) []string {
	t.Helper()
	if path, err := exec.LookPath("protoc"); err == nil {
		return []string{path}
	}
	return append(sdkNamed(t, "python").runs, "-m", "grpc_tools.protoc")
}

// shape lists what a file defines, one line each, in A2A's own package.
func shape(f *descriptorpb.FileDescriptorProto, a2a bool) []string {
	var all []string
	var messages func(prefix string, ms []*descriptorpb.DescriptorProto)
	enums := func(prefix string, es []*descriptorpb.EnumDescriptorProto) {
		for _, e := range es {
			for _, v := range e.GetValue() {
				all = append(all, prefix+e.GetName()+" "+v.GetName()+" "+strconv.Itoa(int(v.GetNumber())))
			}
		}
	}
	messages = func(prefix string, ms []*descriptorpb.DescriptorProto) {
		for _, m := range ms {
			name := prefix + m.GetName()
			all = append(all, name)
			for _, field := range m.GetField() {
				field = proto.CloneOf(field)
				field.Options = nil
				of := ""
				if field.OneofIndex != nil {
					of = m.GetOneofDecl()[field.GetOneofIndex()].GetName()
				}
				field.OneofIndex = nil
				all = append(all, name+" "+of+" "+field.String())
			}
			enums(name+".", m.GetEnumType())
			messages(name+".", m.GetNestedType())
		}
	}
	messages("", f.GetMessageType())
	enums("", f.GetEnumType())
	for _, s := range f.GetService() {
		for _, m := range s.GetMethod() {
			m = proto.CloneOf(m)
			m.Options = nil
			if !a2a {
				all = append(all, s.GetName()+" "+m.String())
			}
		}
	}
	for i, line := range all {
		all[i] = strings.ReplaceAll(strings.ReplaceAll(line, a2aOwnPackage+".", a2aPackage+"."), "  ", " ")
	}
	slices.Sort(all)
	return all
}
