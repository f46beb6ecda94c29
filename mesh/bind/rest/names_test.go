package rest_test

import (
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
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

// A field that a message of ours has not is told by its path, for it may be the one on which
// all depends; of A2A's messages, and those of others in ours, unknown fields are ignored.
func TestAnUnknownFieldOfOursIsToldByItsPath(t *testing.T) {
	for _, tt := range []struct {
		into  proto.Message
		body  string
		field string
	}{
		{new(meshv1.EraseUserRequest), `{"user_id":"x","countOnly":true,"count_only":true}`, "count_only"}, // twice the same
		{new(meshv1.EraseUserRequest), `{"user_id":"x","countonly":true}`, "countonly"},
		{new(meshv1.EraseUserRequest), `{"user_id":"x","count_only":true}`, ""},
		{new(meshv1.RegisterAgentRequest), `{"name":"x","card":{"name":"x","fancy":{"more":1}}}`, ""},
		{new(meshv1.RegisterAgentRequest), `{"name":"x","lease":"60s","leas":"60s"}`, "leas"},
		{new(meshv1.AppendEventsRequest), `{"events":[{"executionId":"x"},{"execution":"x"}]}`, "events[1].execution"},
		{new(a2apb.ListTasksRequest), `{"contextId":"x","contextid":"y"}`, ""},
	} {
		bad := rest.Decode([]byte(tt.body), tt.into)
		switch {
		case tt.field == "" && bad != nil:
			t.Errorf("%s: %v", tt.body, bad)
		case tt.field != "" && !strings.HasPrefix(bad.Message(), tt.field+": "):
			t.Errorf("%s: %v, want the field %s", tt.body, bad, tt.field)
		}
	}
}
