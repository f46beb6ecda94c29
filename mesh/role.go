package mesh

import "slices"

// An Action is something that a caller does and that not everybody may do.
type Action string

// The actions. Of those with a second, wider form, who has the wider has both.
const (
	ActChat         Action = "chat.send"          // send messages, and have webhooks for their tasks
	ActReadOwn      Action = "thread.read.own"    // read the threads that one takes part in
	ActReadTenant   Action = "thread.read.tenant" // read all threads of the tenant
	ActCancelOwn    Action = "task.cancel.own"
	ActCancelTenant Action = "task.cancel.tenant"
	ActApproveOwn   Action = "approve.own" // answer what one's own turns ask
	ActApproveAny   Action = "approve.any" // answer what any turn of the tenant asks
	ActSkillCall    Action = "skill.call"  // run skills
	ActOrchestrate  Action = "orchestrate" // have agents dispatch others
	ActHandoff      Action = "handoff"     // have agents hand over, and end a handoff
	ActRegister     Action = "agent.register"
	ActTakeAgent    Action = "agent.take" // replace or remove what another user registered
	ActCreateSkill  Action = "skill.create"
	ActResetBreaker Action = "breaker.reset"
	ActDeleteThread Action = "thread.delete"
	ActEraseUser    Action = "user.erase" // remove all that is kept of a user
	ActReadAudit    Action = "audit.read"
	ActAdminTenant  Action = "admin.tenant" // what is the tenant's, whoever made it
	ActAdminNode    Action = "admin.node"   // act for other tenants and users; share with all tenants
)

// A Role is a name for a set of actions.
type Role string

// The roles.
const (
	RoleViewer         Role = "viewer"
	RoleReader         Role = "reader"
	RoleUser           Role = "user"
	RoleAgentPublisher Role = "agent-publisher"
	RoleSkillAuthor    Role = "skill-author"
	RoleApprover       Role = "approver"
	RoleDeleter        Role = "thread-deleter"
	RoleTenantAdmin    Role = "tenant-admin"
	RoleAuditor        Role = "auditor"
	RoleOperator       Role = "operator"
)

var (
	userActions   = []Action{ActReadOwn, ActChat, ActCancelOwn, ActApproveOwn, ActSkillCall, ActOrchestrate, ActHandoff}
	tenantActions = []Action{ActReadTenant, ActCancelTenant, ActApproveAny, ActRegister, ActTakeAgent, ActCreateSkill, ActResetBreaker,
		ActDeleteThread, ActEraseUser, ActReadAudit, ActAdminTenant}
)

// roles has what each role allows.
var roles = map[Role][]Action{
	RoleViewer:         {ActReadOwn},
	RoleReader:         {ActReadOwn, ActReadTenant},
	RoleUser:           userActions,
	RoleAgentPublisher: {ActRegister},
	RoleSkillAuthor:    {ActCreateSkill, ActResetBreaker},
	RoleApprover:       {ActReadOwn, ActReadTenant, ActApproveOwn, ActApproveAny},
	RoleDeleter:        {ActDeleteThread},
	RoleTenantAdmin:    slices.Concat(userActions, tenantActions),
	RoleAuditor:        {ActReadOwn, ActReadTenant, ActReadAudit},
	RoleOperator:       slices.Concat(userActions, tenantActions, []Action{ActAdminNode}),
}

// earlier has the names that roles had when they were called permissions, in token
// files and in logs.
var earlier = map[string]Role{
	"chat": RoleUser, "agents": RoleAgentPublisher, "skill:create": RoleSkillAuthor, "threads:delete": RoleDeleter,
}

// Roles lists all roles, sorted.
func Roles() []Role {
	all := make([]Role, 0, len(roles))
	for r := range roles {
		all = append(all, r)
	}
	slices.Sort(all)
	return all
}

// RoleOf returns the role of that name, which may be one of the permissions that
// were before there were roles; false if there is none.
func RoleOf(name string) (Role, bool) {
	if r, ok := earlier[name]; ok {
		return r, true
	}
	_, ok := roles[Role(name)]
	return Role(name), ok
}

// Actions returns what the role allows, sorted; nothing for one that is none.
func (r Role) Actions() []Action { return slices.Sorted(slices.Values(roles[r])) }

// Allow reports whether one of the roles allows the action.
func Allow(held []Role, a Action) bool {
	return slices.ContainsFunc(held, func(r Role) bool { return slices.Contains(roles[r], a) })
}

// RolesWith lists the roles that allow the action, sorted: what to ask for.
func RolesWith(a Action) []Role {
	return slices.DeleteFunc(Roles(), func(r Role) bool { return !slices.Contains(roles[r], a) })
}
