package runs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/thread"
)

// finding R9: what the records of runs have of a conversation goes with it, and that the
// skill was due stays; the schedule goes on, also if the run waited for its user.
func TestRecordsOfRunsForgetConversationsThatWereDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = func(ctx context.Context, c skillCall) result {
			if strings.HasPrefix(c.skill, "mail") {
				return result{state: asks, said: "Send it?"}
			}
			return takes(time.Minute)(ctx, c)
		}
		lib := library(t)
		lib.Put(parse(t, "reports.daily", "0 9 * * *", ""), parse(t, "mail.digest", "0 10 * * *", ""))
		defer w.schedule(lib)()
		w.at("01-02 09:00:30")
		w.wantRuns("default", "01-02 09:00 reports.daily running", "01-01 10:00 mail.digest awaiting: Send it?", "01-01 09:00 reports.daily completed: Done after 1m0s.")
		res, err := w.runner.ListSkillRuns(w.as("default", "ann"), &meshv1.ListSkillRunsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var all []mesh.ThreadKey
		for _, r := range res.GetRuns() {
			all = append(all, mesh.ThreadKey{Tenant: "default", ID: r.GetThreadId()})
		}
		kept := map[mesh.ThreadKey]bool{}
		for key, err := range w.runner.Kept(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			kept[key] = true
		}
		if len(kept) != 2 || kept[all[0]] {
			t.Errorf("kept are %v, want the two that are over or wait", kept)
		}
		for _, key := range all[1:] {
			if err := w.states.Delete(t.Context(), key, func(*thread.State) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := w.runner.Forget(t.Context(), all); err != nil { // that of the run under way stays
				t.Fatal(err)
			}
		}
		w.wantRuns("default", "01-02 09:00 reports.daily running", "01-01 10:00 mail.digest failed: Its conversation was deleted before it was answered.", "01-01 09:00 reports.daily completed")
		items, _, err := w.kv.List(t.Context(), state.Page{Kind: "skill-run", Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			for _, key := range all[1:] {
				if strings.Contains(string(it.Data), key.ID) {
					t.Errorf("%s names a conversation that was deleted: %s", it.Name, it.Data)
				}
			}
		}
		w.at("01-02 10:00:30")
		w.wantRuns("default", "01-02 10:00 mail.digest awaiting: Send it?", "01-02 09:00 reports.daily completed: Done after 1m0s.",
			"01-01 10:00 mail.digest failed: Its conversation was deleted before it was answered.", "01-01 09:00 reports.daily completed")
	})
}
