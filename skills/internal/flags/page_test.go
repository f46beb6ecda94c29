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

// S3-154: a long list is shown in parts, and what stands before each says how to
// get the next one.
func TestPage_showsAPartAndSaysHowToGoOn(t *testing.T) {
	for _, tt := range []struct {
		args  map[string]any
		total int
		want  string
	}{
		{nil, 0, "List"},
		{nil, 2, "List\n\na0\na1"},
		{nil, 3, "List\n\na0\na1\na2"},
		{nil, 4, "List\nShown are 1 to 3 of 4; go on with --offset 3.\n\na0\na1\na2"},
		{map[string]any{"offset": "3"}, 4, "List\nShown are 4 to 4 of 4, which are the last.\n\na3"},
		{map[string]any{"offset": int64(1), "limit": 2.0}, 4, "List\nShown are 2 to 3 of 4; go on with --offset 3.\n\na1\na2"},
		{map[string]any{"offset": 4.0}, 4, "List\nThere are 4, and none from offset 4 on."},
		{map[string]any{"offset": 2147483647.0}, 4, "List\nThere are 4, and none from offset 2147483647 on."},
		{map[string]any{"offset": 9.0}, 0, "List"},
	} {
		p, err := flags.PageOf(call(tt.args), 3, 5)
		if err != nil {
			t.Fatal(err)
		}
		got := p.Of(tt.total, func(i int) string { return fmt.Sprint("a", i) }).Under("List")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v of %d: %s", tt.args, tt.total, diff)
		}
	}
	for name, a := range map[string]map[string]any{"offset": {"offset": -1.0}, "limit": {"limit": 6.0}} {
		if _, err := flags.PageOf(call(a), 3, 5); !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != name {
			t.Errorf("%v: %v", a, err)
		}
	}
}

// S3-154: a page is never so long that it is cut again; so its offsets lead
// through the whole list, whatever is in it.
func TestPage_isNotCutAgain(t *testing.T) {
	all := make([]string, 300)
	for i := range all {
		all[i] = fmt.Sprint(i, ": ", strings.Repeat("x", (i*37)%700))
	}
	all[7] = strings.Repeat("y", 40<<10)
	var got []string
	p := flags.Page{Limit: 100}
	for n := 0; p.Offset < len(all) && n < 100; n++ {
		part := p.Of(len(all), func(i int) string { return all[i] })
		if text := part.Under("All", "", "A note."); part.To-part.From > 1 && len(text) > skill.DefaultMaxContent || !strings.HasPrefix(text, "All\nShown are ") || !strings.Contains(text, ".\nA note.\n\n") {
			t.Fatalf("%d bytes: %.100q", len(text), text)
		}
		got = append(got, all[part.From:part.To]...)
		p.Offset = part.To
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Error(diff)
	}
}
