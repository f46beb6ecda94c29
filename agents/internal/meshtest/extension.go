package meshtest

import (
	"regexp"
	"strings"
	"sync"
	"testing"

	"agentmesh/docs"
	"agentmesh/mesh"

	"google.golang.org/protobuf/types/known/structpb"
)

// schema has, by the path of each value of our extension's data, which types it
// may have: the table of docs/extension.md.
var schema = sync.OnceValue(func() map[string]string {
	page, err := docs.FS.ReadFile("extension.md")
	if err != nil {
		return nil
	}
	_, table, _ := strings.Cut(string(page), "\n## Schema\n")
	out := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(table, -1) {
		out[row[1]] = strings.TrimSpace(row[2])
	}
	return out
})

// checkExtension fails the test if the metadata has extension data that the schema
// does not describe.
func checkExtension(t testing.TB, md *structpb.Struct) {
	t.Helper()
	if v := md.GetFields()[mesh.ExtensionURI]; v != nil {
		checkValue(t, "", v)
	}
}

// checkEvent is checkExtension for what the event carries.
func checkEvent(t testing.TB, e *mesh.Event) {
	t.Helper()
	switch b := e.Body.(type) {
	case mesh.MessagePosted:
		checkExtension(t, b.Message.GetMetadata())
	case mesh.DispatchIssued:
		checkExtension(t, b.Message.GetMetadata())
	case mesh.ArtifactAppended:
		checkExtension(t, b.Metadata)
	case mesh.TaskMoved:
		checkExtension(t, b.Metadata)
	}
}

func checkValue(t testing.TB, path string, v *structpb.Value) {
	t.Helper()
	kind := "nothing"
	switch v.GetKind().(type) {
	case *structpb.Value_StructValue:
		kind = "object"
	case *structpb.Value_ListValue:
		kind = "list"
	case *structpb.Value_StringValue:
		kind = "text"
	case *structpb.Value_NumberValue:
		kind = "number"
	case *structpb.Value_BoolValue:
		kind = "boolean"
	}
	if types := schema()[path]; path != "" && !strings.Contains(types, kind) {
		t.Errorf("extension data: %q is a %s; docs/extension.md says %q", path, kind, types)
		return
	} else if strings.HasPrefix(types, "any ") {
		return
	}
	for _, item := range v.GetListValue().GetValues() {
		checkValue(t, path+"[]", item)
	}
	for name, field := range v.GetStructValue().GetFields() {
		checkValue(t, strings.TrimPrefix(path+"."+name, "."), field)
	}
}
