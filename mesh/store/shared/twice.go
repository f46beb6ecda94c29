package shared

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var pair bool

// Pair reports whether the meshes of tests are two nodes.
func Pair() bool { return pair }

// Twice runs the tests on one node, and ends the process if one fails. Then meshes are
// two nodes, on which the caller runs all again whose names do not match the pattern;
// no pattern is none. Benchmarks are run once.
func Twice(m *testing.M, once string) {
	code := m.Run()
	if code != 0 || flag.Lookup("test.bench").Value.String() != "" { // benchmarks are measured once
		os.Exit(code)
	}
	pair = true
	skip := flag.Lookup("test.skip").Value
	if err := flag.Set("test.skip", strings.Trim(skip.String()+"|"+once, "|")); err != nil {
		panic(err) // the flag is the testing package's
	}
	fmt.Fprintln(os.Stdout, "again, on two nodes")
}
