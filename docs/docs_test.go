package docs_test

import (
	"io/fs"
	"os"
	"path"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
)

// folder has all documents, also those that the binary has no use for.
var folder = os.DirFS(".")

// pages returns all documents by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		data, err := fs.ReadFile(folder, name)
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
				if _, err := fs.Stat(folder, target); err != nil {
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

// Each field has a row, or is named in the row of what it is in.
func TestEverySettingIsDocumentedWithItsDefault(t *testing.T) {
	page := pages(t)["configuration.md"]
	rows := map[string]string{}
	for line := range strings.Lines(page) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			rows[name] = line
		}
	}
	all := settings(reflect.TypeFor[node.Config](), "", map[reflect.Type]bool{})
	if len(all) < 150 {
		t.Errorf("there are only %d settings: this test looks at the wrong thing", len(all))
	}
	for _, field := range all {
		at := strings.LastIndexAny(field, ".")
		parent, name := strings.TrimSuffix(strings.TrimSuffix(field[:max(at, 0)], "[]"), ".NAME"), field[at+1:]
		if rows[field] == "" && !strings.Contains(rows[parent], "`"+name+"`") {
			t.Errorf("configuration.md does not document %s", field)
		}
	}
	for _, value := range []string{node.DefaultGRPC, node.DefaultHTTP, node.DefaultData, node.DefaultMain} {
		if !strings.Contains(page, "| `"+value+"` |") {
			t.Errorf("configuration.md does not name the default %s", value)
		}
	}
}

// settings lists the fields of a file by their names in YAML, those of a type where it
// comes first.
func settings(t reflect.Type, prefix string, seen map[reflect.Type]bool) []string {
	if seen[t] {
		return nil
	}
	seen[t] = true
	var all []string
	for f := range t.Fields() {
		tag := f.Tag.Get("yaml")
		name := prefix + strings.TrimSuffix(tag, ",omitempty")
		switch of := f.Type; {
		case !f.IsExported():
		case tag == ",inline":
			all = append(all, settings(of, prefix, seen)...)
		case of.Kind() == reflect.Struct:
			all = append(all, settings(of, name+".", seen)...)
		case of.Kind() == reflect.Map && of.Elem().Kind() == reflect.Struct:
			all = append(append(all, name), settings(of.Elem(), name+".NAME.", seen)...)
		case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct:
			all = append(append(all, name), settings(of.Elem(), name+"[].", seen)...)
		default:
			all = append(all, name)
		}
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

// Each reason that programs may act on has a row that says what to do: those that package mesh
// and who calls and drives agents know, and those of A2A.
func TestEveryReasonIsDocumented(t *testing.T) {
	page, reasons := pages(t)["errors.md"], 0
	for _, file := range []string{"event.go", "call/refusal.go", "call/relay.go", "turn/driver.go", "a2a/errors.go"} {
		source, err := os.ReadFile("../mesh/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:const|\t)\s*(?:Reason|reasonHops|reasonLong)\w*\s*= "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
			reasons++
			if !regexp.MustCompile("(?m)^\\|[^|]*`" + m[1] + "`[^|]*\\|[^|]+\\|[^|]+\\|$").MatchString(page) {
				t.Errorf("errors.md does not say what the reason %s means, and what to do", m[1])
			}
		}
	}
	if reasons < 45 {
		t.Errorf("there are only %d reasons: this test looks for the wrong form", reasons)
	}
}

// What pages show as a file of examples is that file, which tests run, and each is on a page.
func TestPagesShowTheExamplesWhole(t *testing.T) {
	block := regexp.MustCompile("(?ms)^<!-- (examples/\\S+) -->\n(`{3,})\\w+\n(.*?)^`{3,}$")
	shown := map[string]bool{}
	for name, page := range pages(t) {
		for _, m := range block.FindAllStringSubmatch(page, -1) {
			shown[m[1]] = true
			if source, err := os.ReadFile(m[1]); err != nil || string(source) != m[3] {
				t.Errorf("%s shows another %s than there is (%v)", name, m[1], err)
			}
		}
	}
	err := fs.WalkDir(folder, "examples", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !shown[name] {
			t.Errorf("no page shows %s", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(shown) < 4 {
		t.Errorf("only %d examples are shown: this test looks for the wrong form", len(shown))
	}
}

// Each tutorial is followed word by word by a test of cmd/mesh.
func TestEveryTutorialIsFollowedByATest(t *testing.T) {
	tests, err := os.ReadFile("../cmd/mesh/tutorialpages_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for name := range pages(t) {
		title, is := strings.CutPrefix(strings.TrimSuffix(name, ".md"), "tutorials/")
		if is && title != "index" && !strings.Contains(string(tests), `"`+title+`"`) {
			t.Errorf("no test follows %s", name)
		}
	}
}

func TestDecisionsAreListedAndSayWhatWouldChangeOurMind(t *testing.T) {
	n, all := 0, pages(t)
	for name, text := range all {
		if strings.HasPrefix(name, "adr/") {
			n++
			if !strings.Contains(all["architecture.md"], "]("+name+"): ") {
				t.Errorf("architecture.md does not list %s", name)
			}
			if !strings.Contains(text, "\n## What would change our mind\n") {
				t.Errorf("%s does not say what would change our mind", name)
			}
		}
	}
	if n == 0 {
		t.Error("there are no decisions")
	}
}

// finding U7: the demo, the mesh and the binary are compiled once, and the README says nothing
// else: another way to start them would compile all anew, in silence.
func TestWhatIsStartedIsBuiltOnce(t *testing.T) {
	for name, wants := range map[string][]string{
		"../Makefile":  {"\ndemo: build ", "\nrun: build ", "\n\t@.build/mesh demo\n", "\n\t@.build/mesh up\n"},
		"../README.md": {"\n    make demo ", ".build/mesh chat"},
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q", name, want)
			}
		}
		if strings.Contains(string(text), "run ./cmd/mesh") {
			t.Errorf("%s compiles the mesh another way", name)
		}
	}
}
