package mesh

// An Owner is whose data something is: a user's or, without User, what all users of the
// tenant share.
type Owner struct {
	Tenant TenantID
	User   string
}
