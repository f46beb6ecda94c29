package state

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"agentmesh/mesh"
)

// A Scope says with whom a value is shared.
type Scope uint8

// The scopes.
const (
	ScopeSetting Scope = iota // a user of a tenant, or all of them, as the operator sets
	ScopeUser                 // a user of a tenant
	ScopeTenant               // all users of a tenant
	ScopeAgent                // an agent of a tenant, whoever it works for
)

// The kinds of values that the mesh itself declares.
const (
	KindBreaker = "breaker" // the circuits of skills, which the node writes
	KindMemory  = "memory"
	KindTasks   = "tasks"
)

// scopes has the kinds that are declared. All others have ScopeSetting, but for
// "agent/NAME", which is what the agent of that name keeps for itself.
var scopes = map[string]Scope{KindBreaker: ScopeTenant, KindMemory: ScopeUser, KindTasks: ScopeSetting}

// agentKind begins the kinds of agents, and userKind those of users in the store.
const (
	agentKind = "agent/"
	userKind  = "user."
)

// ScopeOf returns the scope of a kind.
func ScopeOf(kind string) Scope {
	if strings.HasPrefix(kind, agentKind) {
		return ScopeAgent
	}
	return scopes[kind]
}

// AgentKind reports whether a kind is that of the agent's own values: "agent/NAME" or,
// where that is no kind that is declared, its name alone.
func AgentKind(kind, agent string) bool {
	_, declared := scopes[kind]
	return kind == agentKind+agent || kind == agent && !declared
}

// A Space is where the values of one kind are that a caller reaches: Prefix, which the
// caller neither gives nor sees, begins their names.
type Space struct {
	Tenant mesh.TenantID
	Kind   string
	Prefix string
}

// UserSpace returns where a user's values of the kind are.
func UserSpace(t mesh.TenantID, user, kind string) Space {
	if kind != KindMemory { // whose names have always begun with the user
		kind = userKind + kind
	}
	return Space{t, kind, UserPrefix(user)}
}

// TenantSpace returns where the values of the kind are that a tenant's users share,
// and where all were before they had scopes.
func TenantSpace(t mesh.TenantID, kind string) Space { return Space{Tenant: t, Kind: kind} }

// AgentSpace returns where what the agent keeps for itself is.
func AgentSpace(t mesh.TenantID, agent string) Space {
	if _, declared := scopes[agent]; declared {
		return Space{Tenant: t, Kind: "agent." + agent}
	}
	return Space{Tenant: t, Kind: agent}
}

// Key returns the key of the value that the caller calls name.
func (s Space) Key(name string) Key {
	if name == "" {
		return Key{s.Tenant, s.Kind, ""}
	}
	return Key{s.Tenant, s.Kind, s.Prefix + name}
}

// Page returns the page of values in p, whose Prefix and After are the caller's.
func (s Space) Page(p Page) Page {
	return Page{Tenant: s.Tenant, Kind: s.Kind, Prefix: s.Prefix + p.Prefix, After: s.Prefix + p.After, Limit: p.Limit}
}

// Name returns what the caller calls the value of that name.
func (s Space) Name(name string) string { return strings.TrimPrefix(name, s.Prefix) }

// UserPrefix begins the names of a user's values.
func UserPrefix(user string) string {
	// No escaped name has a '/', or a '=', which begins those that are too long.
	name := url.QueryEscape(user)
	if len(name) > 128 {
		sum := sha256.Sum256([]byte(user))
		name = "=" + hex.EncodeToString(sum[:])
	}
	return name + "/"
}
