package rest_test

import (
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh/bind/rest"
)

// finding P6: a name that an enum has not is told by its path, however deep; numbers, null
// and what is unknown otherwise are left alone.
func TestAnUnknownNameOfAnEnumIsToldByItsPath(t *testing.T) {
	for body, field := range map[string]string{
		`{"tasks":[{"status":{"state":"TASK_STATE_WORKNG"}}]}`:                                                    "tasks[0].status.state",
		`{"tasks":[{"history":[{"role":"ROLE_USER"},{"role":"user"}]}]}`:                                          "tasks[0].history[1].role",
		`{"tasks":[{"status":{"state":"TASK_STATE_WORKING"},"history":[{"role":"ROLE_AGENT","messageId":"x"}]}]}`: "",
		`{"tasks":[{"status":{"state":5}},{"status":{"state":null}},{"status":{"state":""}}]}`:                    "tasks[2].status.state",
		`{"tasks":[{"status":{"state":5}},{"status":{"state":null}}],"total_size":1,"state":"X"}`:                 "",
		`{"tasks":[{"metadata":{"state":"any","role":"any"},"history":[{"parts":[{"data":{"role":"x"}}]}]}]}`:     "",
	} {
		bad := rest.Decode([]byte(body), new(a2apb.ListTasksResponse))
		switch {
		case field == "" && bad != nil:
			t.Errorf("%s: %v", body, bad)
		case field != "" && !strings.HasPrefix(bad.Message(), field+": "):
			t.Errorf("%s: %v, want the field %s", body, bad, field)
		}
	}
}
