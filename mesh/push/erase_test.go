package push_test

import (
	"fmt"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// A user's webhooks go with the user, in whosever threads; of others none does.
func TestAUsersConfigsAreErased(t *testing.T) {
	w, h := memory(t), newHook(t)
	d, _ := w.dispatcher(w.config())
	one, two := w.open(), w.open()
	one.set(d, h.URL)
	two.set(d, h.URL)
	two.set(d, h.URL)
	for _, user := range []string{"bob", "alice2"} {
		if _, err := d.Create(as(user), &a2apb.TaskPushNotificationConfig{TaskId: string(one.id), Url: h.URL}); err != nil {
			t.Fatal(err)
		}
	}
	erase := func(tenant mesh.TenantID, user string, countOnly bool) string {
		held, err := d.Erase(t.Context(), mesh.Owner{Tenant: tenant, User: user}, countOnly)
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
	}{{"acme", "alice", true, 3}, {"acm", "alice", false, 0}, {"acme", "bob", false, 1}, {"acme", "alice", true, 3}, {"acme", "alice", false, 3}, {"acme", "alice", false, 0}, {"acme", "alice2", true, 1}} {
		if got, want := erase(tt.tenant, tt.user, tt.count), fmt.Sprintf("[{webhooks %d}]", tt.want); got != want {
			t.Errorf("%v: %s, want %s", tt, got, want)
		}
	}
	if n := len(one.configs(d)) + len(two.configs(d)); n != 0 {
		t.Errorf("alice has %d configs", n)
	}
	one.complete() // nobody is told
	list, err := d.List(as("alice2"), &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: string(two.id)})
	if err != nil || len(list.GetConfigs()) != 0 {
		t.Errorf("of the other task: %v, %v", list, err)
	}
}
