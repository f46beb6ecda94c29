package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

var (
	frameworksDir  = flag.String("frameworks", "", "the folder into which .ci/frameworks has installed agent frameworks")
	frameworksPage = flag.String("frameworkspage", "", "the page to write: what works with what")
)

// streamTime is how long a first word may take to come through.
const streamTime = 15 * time.Second

// A framework is software of others that has agents or clients of A2A.
type framework struct {
	name          string
	env           string // its folder below that of all
	agent, client string // programs in testdata/interop/frameworks; "" for none
	settings      string // of the mesh, that it needs
	root          string // path of the mesh's card, as its client wants it
	shows         string // path of the card that its client talks by, if not by that
	// answer makes of what was asked the answer that the framework reads; nil is a text.
	answer func(*testing.T, *spoken) *a2apb.Part
	// limits are what does not work for a reason of the framework's own, and why. They
	// are tried, so that one that falls is noticed. What absent has the framework has
	// nothing for.
	agentLimits, clientLimits map[string]string
	agentAbsent, clientAbsent map[string]string
}

// A scenario is something that has to work; its error says what does not.
type scenario[T any] struct {
	name string
	try  func(T) error
}

// A verdict is what came of a scenario.
type verdict struct {
	works               bool
	failed, limit, none string
}

// A trial is the test in which a scenario is tried.
type trial struct{ t *testing.T }

func (c *trial) in(t *testing.T) { c.t = t }

// row are a framework's verdicts by scenario.
type row map[string]verdict

// notJoined is what failed where nothing could be tried.
const notJoined = "it did not join"

// judge tries all scenarios, and compares with what is known.
func judge[T interface{ in(t *testing.T) }](t *testing.T, on T, all []scenario[T], limits, absent map[string]string) row {
	verdicts, joined := row{}, true
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			if why, none := absent[s.name]; none {
				verdicts[s.name] = verdict{none: why}
				return
			}
			v := verdict{failed: notJoined}
			if joined {
				v.limit = limits[s.name]
				verdicts[s.name] = verdict{failed: "the run broke off"} // stays if it does
				on.in(t)
				v.failed = ""
				if err := s.try(on); err != nil {
					v.failed = err.Error()
				}
			}
			v.works = v.failed == ""
			verdicts[s.name] = v
			joined = joined && (v.works || s.name != "join")
			switch {
			case v.works && v.limit != "":
				t.Errorf("a known limit is none any more: %s", v.limit)
			case !v.works && v.limit == "":
				t.Error(v.failed)
			case !v.works:
				t.Logf("a known limit: %s (%s)", v.limit, v.failed)
			}
		})
	}
	return verdicts
}

// TestFrameworks joins the agents of frameworks to a mesh, has their clients talk to
// one, and writes what works. The findings that it shows when they come back: N1, N3,
// N4, N5, N7, N8.
func TestFrameworks(t *testing.T) {
	if *frameworksDir == "" {
		t.Skip("make interop-frameworks runs it: it installs agent frameworks")
	}
	agents, clients := map[string]row{}, map[string]row{}
	ran := 0
	for _, f := range frameworks {
		if f.agent != "" {
			t.Run(f.name+" as agent", func(t *testing.T) {
				ran++
				agents[f.name] = row{}
				agents[f.name] = judge(t, agentOf(t, f), asAgent, f.agentLimits, f.agentAbsent)
			})
		}
		if f.client != "" {
			t.Run(f.name+" as client", func(t *testing.T) {
				ran++
				clients[f.name] = row{}
				clients[f.name] = judge(t, clientOf(t, f), asClient, f.clientLimits, f.clientAbsent)
			})
		}
	}
	if *frameworksPage != "" && ran == frameworkRoles() {
		page := frameworksText(t, agents, clients)
		if err := os.WriteFile(*frameworksPage, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// frameworkRoles is how many runs there are when nothing is left out.
func frameworkRoles() (n int) {
	for _, f := range frameworks {
		if f.agent != "" {
			n++
		}
		if f.client != "" {
			n++
		}
	}
	return n
}

// versions are those that .ci/frameworks installed.
func (f *framework) versions(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(readFile(t, filepath.Join(*frameworksDir, f.env+".versions")))
}

// runs is what runs the program.
func (f *framework) runs(program string) string {
	switch filepath.Ext(program) {
	case ".mjs":
		return "node"
	case ".java":
		return "java"
	}
	return filepath.Join(*frameworksDir, f.env, "bin", "python")
}

// before are the arguments before those of the program.
func (f *framework) before(t *testing.T, program string) []string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "interop", "frameworks", program))
	if err != nil {
		t.Fatal(err)
	}
	switch env := filepath.Join(*frameworksDir, f.env); filepath.Ext(program) {
	case ".mjs":
		return []string{path, env}
	case ".java":
		jars, classes := filepath.Join(env, "lib", "*"), filepath.Join(env, "classes")
		if !compiled[program] {
			if out, err := exec.CommandContext(t.Context(), "javac", "-cp", jars, "-d", classes, path).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			compiled[program] = true
		}
		return []string{"-XX:TieredStopAtLevel=1", "-cp", classes + string(filepath.ListSeparator) + jars, strings.TrimSuffix(program, ".java")}
	}
	return []string{path}
}

// compiled are the programs of Java that this run has compiled.
var compiled = map[string]bool{}

const frameworksHead = `# What works with what

Agent frameworks and SDKs of others, in the versions below, run for real against a mesh:
as agents that ` + "`mesh agents add URL`" + ` joins, and as clients of its edge. Models are scripted
ones. ` + "`make interop-frameworks`" + ` writes this page; it fails when something that works ceases
to, or a known limit falls.

**ok**: it works. **limit**: it does not, for a reason of the framework's own, which is
below. **-**: the framework has nothing of the kind, or it was not tried, as below.
**FAILS**: it does not yet.

The SDKs of A2A v1.0 for Go, Python and JavaScript are not here: ` + "`make test-interop`" + `
runs them with every change.
`

// frameworksText is the page.
func frameworksText(t *testing.T, agents, clients map[string]row) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(frameworksHead)
	b.WriteString("\n| framework | versions | settings of the mesh |\n|---|---|---|\n")
	for _, f := range frameworks {
		settings := "-"
		if f.settings != "" {
			settings = "`" + f.settings + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", f.name, f.versions(t), settings)
	}
	frameworksTable(&b, "As agents in the mesh", names(asAgent), agents)
	frameworksTable(&b, "As clients of the mesh", names(asClient), clients)
	return b.String()
}

func names[T any](all []scenario[T]) (names []string) {
	for _, s := range all {
		names = append(names, s.name)
	}
	return names
}

func frameworksTable(b *strings.Builder, title string, scenarios []string, rows map[string]row) {
	fmt.Fprintf(b, "\n## %s\n\n| framework | %s |\n|---%s|\n", title, strings.Join(scenarios, " | "), strings.Repeat("|---", len(scenarios)))
	var notes []string
	for _, f := range frameworks {
		of, ok := rows[f.name]
		if !ok {
			continue
		}
		cells := []string{f.name}
		for _, s := range scenarios {
			v := of[s]
			cell, why := "ok", v.limit
			if v == (verdict{}) {
				v.failed = "it did not start"
			}
			switch {
			case v.none != "":
				cell, why = "-", v.none
			case !v.works && v.limit != "":
				cell = "limit"
			case !v.works:
				cell, why = "**FAILS**", v.failed
			}
			if cells = append(cells, cell); cell != "ok" && why != notJoined {
				notes = append(notes, fmt.Sprintf("- %s, %s (%s): %s", f.name, s, strings.Trim(cell, "*"), strings.Join(strings.Fields(why), " ")))
			}
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	if len(notes) > 0 {
		fmt.Fprintf(b, "\n%s\n", strings.Join(slices.Compact(notes), "\n"))
	}
}
