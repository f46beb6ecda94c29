package flags_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
)

func call(args map[string]any) *skill.Call { return &skill.Call{Skill: "x.y", Args: args} }

// S3-158, S3-087: what is missing is named as it is written in a command.
func TestRequire_namesWhatIsMissing(t *testing.T) {
	c := call(map[string]any{"to": []any{"a"}, "blank": " \t", "none": nil, "empty": []any{}, "zero": int64(0), "off": false, "blanks": []any{" ", nil, map[string]any{}}, "commas": ",", "object": map[string]any{"a": "b"}})
	for want, names := range map[string][]string{
		"":                              {"to", "zero", "off", "commas"},
		"Missing required flag: --body": {"to", "body"},
		"Missing required flags: --blank, --none, --empty": {"blank", "none", "empty"},
		"Missing required flags: --blanks, --object":       {"blanks", "object"},
	} {
		err := flags.Require(c, names...)
		if mesh.DetailOf(err) != want || want != "" && !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("%v: %v, want %q", names, err, want)
		}
	}
}

// S3-158: values come in the declared type, or as text where a page declares
// nothing.
func TestValues_areReadFromTextAsWell(t *testing.T) {
	c := call(map[string]any{
		"list": []any{"a", " b ", "", 3.0}, "quoted": `"Doe, Ann" <a@b>, c@d`, "commas": "a, b,,", "json": `["a, b", "c"]`, "broken": `["a"`,
		"n": int64(7), "text_n": " 7 ", "far": "8", "word": "seven",
		"on": true, "bare": "", "text_off": "False", "odd": "perhaps",
	})
	for name, want := range map[string][]string{
		"list": {"a", "b", "3"}, "commas": {"a", "b"}, "json": {"a, b", "c"}, "broken": {`["a"`}, "quoted": {`"Doe, Ann" <a@b>`, "c@d"}, "absent": nil,
	} {
		if diff := cmp.Diff(want, flags.List(c, name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for name, want := range map[string]int{"n": 7, "text_n": 7, "absent": 3, "far": -1, "word": -1} {
		got, err := flags.Int(c, name, 3, 1, 7)
		if err != nil {
			got = -1
			if want := "must be from 1 to 7"; mesh.DetailOf(err) != want || mesh.FieldOf(err) != name {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]string{"on": "true", "bare": "true", "text_off": "false", "absent": "false", "odd": "error"} {
		got := map[bool]string{true: "true", false: "false"}
		b, err := flags.Bool(c, name)
		if said := got[b]; err == nil && said != want || (err != nil) != (want == "error") {
			t.Errorf("%s is %s, %v, want %s", name, said, err, want)
		}
	}
	if got := flags.Text(c, "n") + flags.Text(c, "on") + flags.Text(c, "word") + flags.Text(c, "list"); got != "7trueseven" || flags.Text(call(map[string]any{"big": 1e15}), "big") != "1000000000000000" {
		t.Errorf("texts are %q", got)
	}
}

func TestEnum_namesTheValuesAllowed(t *testing.T) {
	if err := flags.Enum(call(nil), "sort", []string{"due", "title"}, "due", "title"); err != nil {
		t.Error(err)
	}
	err := flags.Enum(call(nil), "sort", []string{"due", "size"}, "due", "title")
	if want := `must be one of: due, title, and is "size"`; mesh.DetailOf(err) != want || mesh.FieldOf(err) != "sort" {
		t.Errorf("error is %v", err)
	}
}

// A query of any length costs no more than its first words.
func TestWords_areFewAndEachOnce(t *testing.T) {
	c := call(map[string]any{"query": "Tax  tax\nREPORT", "long": strings.Repeat("a ", 1000) + manyWords(100)})
	if diff := cmp.Diff([]string{"tax", "report"}, flags.Words(c, "query")); diff != "" {
		t.Error(diff)
	}
	if got := flags.Words(c, "long"); len(got) != 32 || got[0] != "a" {
		t.Errorf("%d words: %v", len(got), got)
	}
	if got := flags.Words(c, "absent"); got != nil {
		t.Errorf("%v", got)
	}
}

func manyWords(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " w%d", i)
	}
	return b.String()
}
