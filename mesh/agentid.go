package mesh

import (
	"net/url"
	"strings"
)

// An AgentID is an agent of a tenant; the zero value is none.
type AgentID struct {
	Tenant TenantID
	Name   string
}

// SPIFFE returns the agent's SPIFFE ID in the trust domain, as it is in its certificate:
// spiffe://DOMAIN/tenant/TENANT/agent/NAME.
func (a AgentID) SPIFFE(domain string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: domain, Path: "/tenant/" + string(a.Tenant) + "/agent/" + a.Name}
}

// AgentOf returns the agent whose SPIFFE ID in the trust domain this is; false if it is
// that of none.
func AgentOf(domain string, id *url.URL) (AgentID, bool) {
	part := strings.Split(id.Path, "/")
	if len(part) != 5 {
		return AgentID{}, false
	}
	a := AgentID{TenantID(part[2]), part[4]}
	return a, domain != "" && a.Tenant.Validate() == nil && ValidAgentName(a.Name) && *a.SPIFFE(domain) == *id
}
