package archtest

import (
	"go/parser"
	"go/token"
	"testing"
)

// The rules that the other tests apply to the tree, applied to cases that must
// fail: a rule that finds nothing anywhere proves nothing.
func TestRulesRefuse(t *testing.T) {
	tests := map[string]struct {
		refused bool
		want    bool
	}{
		"product code that the table allows":        {mayImport("mesh/edge", "mesh/threadlog") != "", false},
		"an agent's runtime that reads the log":     {mayImport("mesh/agent", "mesh/threadlog") != "", true},
		"a program that opens the store":            {mayImport("cmd/mesh", "mesh/store/disk") != "", true},
		"product code that uses a conformance kit":  {mayImport("mesh/node", "mesh/threadlog/logtest") != "", true},
		"a kit that builds on another one":          {mayImport("mesh/agent/agenttest", "mesh/skill/skilltest") != "", false},
		"a kit that the table does not name":        {mayImport("mesh/agent/agenttest", "mesh/threadlog/logtest") != "", true},
		"a node that composes":                      {mayImport("mesh/node", "mesh/store/disk") != "", false},
		"a test that uses a double":                 {mayTestImport("mesh/threadlog", "mesh/store/mem") != "", false},
		"a test that uses a kit":                    {mayTestImport("mesh/threadlog", "mesh/threadlog/logtest") != "", false},
		"a test on its own level":                   {mayTestImport("mesh/api", "mesh/rpc") != "", false},
		"a test that reaches up":                    {mayTestImport("mesh/threadlog", "mesh/edge") != "", true},
		"a test of the mesh that runs product code": {mayTestImport("mesh/node", "agents/mainagent") != "", true},
		"a package that nobody listed":              {mayTestImport("mesh/node", "mesh/util") != "", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.refused != tt.want {
				t.Errorf("refused = %v, want %v", tt.refused, tt.want)
			}
		})
	}
}

func TestClockUsesAreFoundUnderAnyName(t *testing.T) {
	tests := map[string]struct {
		source string
		want   int
	}{
		"plainly":                {`package p; import "time"; var t = time.Now()`, 1},
		"renamed":                {`package p; import clock "time"; var t = clock.Since(x)`, 1},
		"as a value":             {`package p; import "time"; var now = time.Now`, 1},
		"types are no clock":     {`package p; import "time"; var d time.Duration = time.Second`, 0},
		"another package's Now":  {`package p; import "example.org/sky"; var t = sky.Now()`, 0},
		"a method of that name":  {`package p; import "time"; var a = time.Time{}.After(b)`, 0},
		"two in one expression":  {`package p; import "time"; var a = time.Until(time.Now())`, 2},
		"inside of a function":   {`package p; import "time"; func f() { time.Sleep(1) }`, 1},
		"only where it imported": {`package p; var a = time.Now()`, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			fset := token.NewFileSet()
			parsed, err := parser.ParseFile(fset, "p.go", tt.source, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if got := clockUses(file{ast: parsed, fset: fset}); len(got) != tt.want {
				t.Errorf("found %v, want %d", got, tt.want)
			}
		})
	}
}
