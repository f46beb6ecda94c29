package tenantdir

// NewOf is [New] with another bound on the files of a tenant.
func NewOf(base string, files int) *Dir { return &Dir{base: base, files: files} }
