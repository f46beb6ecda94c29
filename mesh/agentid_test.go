package mesh_test

import (
	"net/url"
	"testing"

	"agentmesh/mesh"
)

func TestAnAgentIsKnownByItsSPIFFEID(t *testing.T) {
	want := mesh.AgentID{Tenant: "acme.2", Name: "mail_bot-1"}
	id, err := url.Parse(want.SPIFFE("mesh.example.com").String())
	if err != nil || id.String() != "spiffe://mesh.example.com/tenant/acme.2/agent/mail_bot-1" {
		t.Fatal(id, err)
	}
	if got, ok := mesh.AgentOf("mesh.example.com", id); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, other := range []string{
		"spiffe://other/tenant/acme.2/agent/mail", "https://mesh.example.com/tenant/acme.2/agent/mail", "spiffe://mesh.example.com/node",
		"spiffe://mesh.example.com/tenant/acme.2/agent/mail/x", "spiffe://mesh.example.com/tenant//agent/mail", "spiffe://mesh.example.com/tenant/a/agent/Mail",
		"spiffe://mesh.example.com/agent/acme.2/tenant/mail", "spiffe://mesh.example.com/tenant/a/agent/mail?x=1", "spiffe://u@mesh.example.com/tenant/a/agent/mail",
		"spiffe://mesh.example.com:1/tenant/a/agent/mail", "spiffe:mesh.example.com", "spiffe://mesh.example.com/tenant/a%2Fagent/agent/mail", "",
	} {
		u, err := url.Parse(other)
		if err != nil {
			t.Fatal(other, err)
		}
		if got, ok := mesh.AgentOf("mesh.example.com", u); ok {
			t.Errorf("%s: %+v", other, got)
		}
	}
	if _, ok := mesh.AgentOf("", mesh.AgentID{Tenant: "a", Name: "b"}.SPIFFE("")); ok {
		t.Error("without a domain")
	}
}
