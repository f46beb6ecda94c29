package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// fifty are policies that are asked for every message and every call of an agent, and
// forbid none: none of them can be left out by its tenant or action.
func fifty(t testing.TB) string {
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintf(&b, "@id(\"p%d\") forbid(principal, action, resource) when { principal in Role::\"team-%d\" && context has agent && resource in Tenant::\"t%d\" };\n", i, i, i)
	}
	return policies(t, t.TempDir(), map[string]string{"fifty.cedar": b.String()})
}

// BenchmarkAuthorizerWith50Policies has turns worked on by a mesh with 50 policies and by
// one without, by turns, and tells what one takes of each.
func BenchmarkAuthorizerWith50Policies(b *testing.B) {
	with := config(b.TempDir())
	with.Policies = fifty(b)
	agents := map[string]run{"main": recall}
	ways := []a2apb.A2AServiceClient{start(b, config(b.TempDir()), agents).edge(), start(b, with, agents).edge()}
	var took [2]time.Duration
	rounds := 0
	for b.Loop() {
		for i := range ways {
			way := (i + rounds) % 2 // each is first in turn
			begun := time.Now()
			res, err := ways[way].SendMessage(b.Context(), say("go"))
			took[way] += time.Since(begun)
			if err != nil || res.GetTask().GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
				b.Fatal(res, err)
			}
		}
		rounds++
	}
	plain, asked := float64(took[0].Nanoseconds())/float64(rounds), float64(took[1].Nanoseconds())/float64(rounds)
	b.ReportMetric(plain, "plain-ns/turn")
	b.ReportMetric(asked, "policies-ns/turn")
	b.ReportMetric(asked/plain, "policies/plain")
}
