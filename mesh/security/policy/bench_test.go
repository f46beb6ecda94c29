package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/security/policy"
)

// BenchmarkJudge asks as many policies as there are for the tenant and the action.
func BenchmarkJudge(b *testing.B) {
	for _, n := range []int{0, 1, 10, 50, 200} {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "forbid(principal, action, resource) when { principal in Role::\"team-%d\" && context has agent && resource in Tenant::\"t%d\" };\n", i, i)
		}
		set := load(b, map[string]string{"a.cedar": text.String()})
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := set.Judge("bench", policy.Request{Principal: ann(mesh.RoleUser), Action: mesh.ActSkillCall, Name: "mail.send"}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
