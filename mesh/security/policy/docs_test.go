package policy_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/security/policy"
)

var (
	examples = regexp.MustCompile("(?s)```cedar\n(.*?)```\n\n\\| who \\| does \\| decision \\|\n\\|---\\|---\\|---\\|\n(.*?)\n\n")
	decided  = regexp.MustCompile("^\\| `(\\w+)/(\\w+)` \\(([\\w-]+)\\)(?: by `([^`]+)`)?(?: with `([^`]+)`)? \\| `(\\S+)(?: (\\S+))?` \\| (allowed|forbidden)(?: by `([^`]+)`)? \\|$")
)

// The page's examples decide what it says that they do, and its tables name what there is.
func TestThePagesExamplesDecideWhatItSays(t *testing.T) {
	data, err := os.ReadFile("../../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	page, rows := string(data), 0
	found := examples.FindAllStringSubmatch(page, -1)
	if n := strings.Count(page, "```cedar"); n != len(found) || n == 0 {
		t.Errorf("of %d examples %d say what they decide", n, len(found))
	}
	for _, example := range found {
		set := load(t, map[string]string{"example.cedar": example[1]})
		for row := range strings.Lines(example[2]) {
			rows++
			m := decided.FindStringSubmatch(strings.TrimSpace(row))
			if m == nil {
				t.Errorf("a row that says nothing: %s", row)
				continue
			}
			role, _ := mesh.RoleOf(m[3])
			r := policy.Request{Action: mesh.Action(m[6]), Name: m[7], Principal: mesh.Principal{
				Tenant: mesh.TenantID(m[1]), User: m[2], Roles: []mesh.Role{role}, Credential: m[5]}}
			if m[4] != "" {
				r.Principal.Grant = &mesh.Grant{}
				for name := range strings.SplitSeq(m[4], " -> ") {
					r.Principal.Grant.Agent = name
					r.Principal.Grant.Chain = append(r.Principal.Grant.Chain, mesh.Actor{Agent: name})
				}
			}
			var refusal error
			if r.Principal.Grant == nil && !r.Principal.Can(r.Action) {
				refusal = noRole
			}
			by, err := set.Judge("test", r, refusal)
			if err != nil {
				by = mesh.PolicyOf(err)
			}
			if by != m[9] || (err == nil) != (m[8] == "allowed") {
				t.Errorf("by %q, %v, and the page says: %s", by, err, row)
			}
		}
	}
	if rows < 15 {
		t.Errorf("there are %d rows", rows)
	}
	for _, a := range policy.Actions() {
		of, _ := policy.TypeOf(a)
		if !regexp.MustCompile("\\| `" + regexp.QuoteMeta(string(a)) + "` \\| .* \\| the `" + of + "`.* \\|").MatchString(page) {
			t.Errorf("the page does not say that %s is about a %s", a, of)
		}
		if !strings.Contains(policy.Schema, `"`+string(a)+`"`) {
			t.Errorf("the schema has no %s", a)
		}
	}
}
