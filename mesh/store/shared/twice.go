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
	if code := m.Run(); code != 0 {
		os.Exit(code)
	}
	pair = true
	skip := flag.Lookup("test.skip").Value
	for name, value := range map[string]string{"test.skip": strings.Trim(skip.String()+"|"+once, "|"), "test.bench": ""} {
		if err := flag.Set(name, value); err != nil {
			panic(err) // the flags are the testing package's
		}
	}
	fmt.Println("again, on two nodes")
}
