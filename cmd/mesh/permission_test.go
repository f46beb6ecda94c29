package main

import (
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
)

// What an agent requires is shown with the roles that give what the caller lacks.
func TestAnAgentIsShownWithWhatItRequires(t *testing.T) {
	ag := &meshv1.Agent{Name: "builder", Card: &a2apb.AgentCard{}, RequiredPermissions: []string{"chat:send", "skill:create"}, MissingPermissions: []string{"skill:create"}}
	const want = "chat:send; skill:create (you lack it; roles that give it: operator, skill-author, tenant-admin)"
	if text := agentText(ag); !strings.Contains(text, "requires") || !strings.Contains(text, want) {
		t.Errorf("shown as\n%s", text)
	}
	ag.RequiredPermissions, ag.MissingPermissions = nil, nil
	if text := agentText(ag); strings.Contains(text, "requires") {
		t.Errorf("one that requires nothing is shown as\n%s", text)
	}
}
