package runs_test

import (
	"fmt"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// The records of a user's runs go with the user, and plans name the user no more; the schedule,
// of a skill that stays, goes on. Another's are as they were.
func TestRecordsOfAUsersRunsAreErased(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		lib.Put(parse(t, "reports.daily", "0 9 * * *", ""), parse(t, "mail.digest", "0 10 * * *", ""))
		defer w.schedule(lib)()
		w.at("01-02 12:00:00")
		erase := func(tenant mesh.TenantID, user string, countOnly bool) string {
			held, err := w.runner.Erase(t.Context(), mesh.Owner{Tenant: tenant, User: user}, countOnly)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(held)
		}
		for _, tt := range []struct {
			tenant mesh.TenantID
			user   string
			count  bool
			want   int
		}{{"default", "scheduler", true, 4}, {"acme", "scheduler", false, 0}, {"default", "ann", false, 0}, {"default", "scheduler", false, 4}, {"default", "scheduler", false, 0}} {
			if got, want := erase(tt.tenant, tt.user, tt.count), fmt.Sprintf("[{scheduled runs %d}]", tt.want); got != want {
				t.Errorf("%v: %s, want %s", tt, got, want)
			}
		}
		for _, kind := range []string{"skill-run", "skill-schedule"} {
			items, _, err := w.kv.List(t.Context(), state.Page{Kind: kind, Limit: 100})
			if err != nil || kind == "skill-schedule" && len(items) != 2 {
				t.Errorf("%s: %d, %v", kind, len(items), err)
			}
			for _, it := range items {
				if strings.Contains(string(it.Data), "scheduler") {
					t.Errorf("%s names the user: %s", it.Name, it.Data)
				}
			}
		}
		w.wantRuns("default")
		w.at("01-03 09:30:00")
		w.wantRuns("default", "01-03 09:00 reports.daily completed: Done.")
	})
}
