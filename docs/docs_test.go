package docs_test

import (
	"io/fs"
	"path"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"agentmesh/docs"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
)

// pages returns all documents by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(docs.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(docs.FS, name)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLinksLeadToPagesAndSectionsThatExist(t *testing.T) {
	all := pages(t)
	link := regexp.MustCompile(`\]\(([^)\s#]*)(?:#([^)\s]*))?\)`)
	found := 0
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			found++
			target := path.Join(path.Dir(name), m[1])
			if strings.HasSuffix(m[1], "/") {
				if _, err := fs.Stat(docs.FS, target); err != nil {
					t.Errorf("%s: no folder %s", name, target)
				}
				continue
			}
			page, ok := all[target]
			if !ok {
				t.Errorf("%s: no page %s", name, target)
			}
			if m[2] != "" && !strings.Contains(headings(page), "\n"+m[2]+"\n") {
				t.Errorf("%s: page %s has no section %s", name, target, m[2])
			}
		}
	}
	if found == 0 {
		t.Error("there are no links: this test looks for the wrong form")
	}
}

// headings returns the anchors of a page, one per line.
func headings(page string) string {
	out := "\n"
	for line := range strings.Lines(page) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			out += strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-") + "\n"
		}
	}
	return out
}

func TestEverySettingIsDocumentedWithItsDefault(t *testing.T) {
	page := pages(t)["configuration.md"]
	for _, field := range settings(reflect.TypeFor[node.Config](), "") {
		if !strings.Contains(page, "| `"+field+"` |") {
			t.Errorf("configuration.md does not document %s", field)
		}
	}
	for _, value := range []string{node.DefaultGRPC, node.DefaultHTTP, node.DefaultData, node.DefaultMain} {
		if !strings.Contains(page, "| `"+value+"` |") {
			t.Errorf("configuration.md does not name the default %s", value)
		}
	}
}

// settings lists the fields of a file by their names in YAML.
func settings(t reflect.Type, prefix string) []string {
	var all []string
	for f := range t.Fields() {
		name := prefix + f.Tag.Get("yaml")
		if f.Type.Kind() == reflect.Struct {
			all = append(all, settings(f.Type, name+".")...)
			continue
		}
		all = append(all, name)
	}
	return all
}

func TestEveryRoleAndMetadataKeyIsDocumented(t *testing.T) {
	page := pages(t)["auth.md"]
	for _, p := range mesh.Roles() {
		if !strings.Contains(page, "| `"+string(p)+"` |") {
			t.Errorf("auth.md does not document the role %s", p)
		}
	}
	for _, key := range rpc.Keys() {
		if key == rpc.KeyWantSeq || key == rpc.KeyPushShape {
			continue // these are for gateways
		}
		if !strings.Contains(page, "`"+key+"`") {
			t.Errorf("auth.md does not document the key %s", key)
		}
	}
	if !strings.Contains(page, auth.LocalUser) || !strings.Contains(page, string(mesh.DefaultTenant)) {
		t.Error("auth.md does not say who callers are that name nobody")
	}
}

func TestDecisionsSayWhatWouldChangeOurMind(t *testing.T) {
	n := 0
	for name, text := range pages(t) {
		if strings.HasPrefix(name, "adr/") {
			n++
			if !strings.Contains(text, "\n## What would change our mind\n") {
				t.Errorf("%s does not say what would change our mind", name)
			}
		}
	}
	if n == 0 {
		t.Error("there are no decisions")
	}
}
