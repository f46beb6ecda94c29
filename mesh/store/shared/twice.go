package shared

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// nodesEnv is "one" or "two" to run all tests on so many nodes; otherwise they are all run
// on one, and then a sample of them on two.
const nodesEnv = "MESH_TEST_NODES"

// sample is one of so many tests.
const sample = 4

var pair bool

// Pair reports whether the meshes of tests are two nodes.
func Pair() bool { return pair }

// Twice runs the tests on one node, and ends the process if one fails. From then on meshes
// are two nodes, on which the caller runs some of those again whose names do not match the
// pattern; no pattern is none. Which, is drawn, but for tests whose names begin with
// TestPair and those that were asked for by -run. Benchmarks are run once.
func Twice(m *testing.M, once string) {
	run := flag.Lookup("test.run").Value
	nodes := os.Getenv(nodesEnv)
	if nodes == "one" {
		return
	}
	if nodes != "two" {
		if code := m.Run(); code != 0 || flag.Lookup("test.bench").Value.String() != "" { // benchmarks are measured once
			os.Exit(code)
		}
		if run.String() == "" {
			set(run, fmt.Sprintf("^TestPair|^Test(.{%d})*.{%d}$", sample, rand.IntN(sample))) // #nosec G404 -- any will do; by the length of their names
		}
	}
	pair = true
	skip := flag.Lookup("test.skip").Value
	set(skip, strings.Trim(skip.String()+"|"+once, "|"))
	fmt.Fprintf(os.Stdout, "again, on two nodes: -run '%s'\n", run)
}

func set(v flag.Value, to string) {
	if err := v.Set(to); err != nil {
		panic(err) // the flag is the testing package's
	}
}
