package conformance_test

import (
	"testing"

	"agentmesh/mesh/conformance"
)

// An agent on the official SDK has nothing that fails, in any binding and version.
func TestAgentsOfTheOfficialSDKPassInEveryBinding(t *testing.T) {
	t.Parallel()
	all := run(t, serve(t, &person{}), conformance.Options{Question: "ask", Failure: "fail", Long: "work"})
	for _, f := range all {
		t.Logf("%-40s %-18s %-8s %s -> %s", f.Interface, f.Check, f.Verdict, f.Cause, f.Remedy)
	}
}
