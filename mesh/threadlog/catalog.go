package threadlog

import (
	"context"

	"agentmesh/mesh"
)

// Threads returns a page of the tenant's threads; see [Catalog].
func (l *Log) Threads(ctx context.Context, tenant mesh.TenantID, before mesh.Pos, limit int) ([]Info, error) {
	infos, err := l.backend.Threads(ctx, tenant, before, limit)
	return infos, mesh.Wrap("threadlog.Threads", err)
}

// Idle returns a page of the tenant's threads, the longest untouched first; see [Catalog].
func (l *Log) Idle(ctx context.Context, tenant mesh.TenantID, after mesh.Pos, limit int) ([]Info, error) {
	infos, err := l.backend.Idle(ctx, tenant, after, limit)
	return infos, mesh.Wrap("threadlog.Idle", err)
}

// Tenants returns how many threads each tenant has; see [Catalog].
func (l *Log) Tenants(ctx context.Context) (map[mesh.TenantID]int, error) {
	all, err := l.backend.Tenants(ctx)
	return all, mesh.Wrap("threadlog.Tenants", err)
}

// Bytes returns how many bytes the records of the tenant's threads have; see [Catalog].
func (l *Log) Bytes(ctx context.Context, tenant mesh.TenantID) (int64, error) {
	n, err := l.backend.Bytes(ctx, tenant)
	return n, mesh.Wrap("threadlog.Bytes", err)
}

// Deleted tells which threads were deleted; see [Catalog].
func (l *Log) Deleted(ctx context.Context, since int64) (keys []mesh.ThreadKey, now int64, all bool, err error) {
	keys, now, all, err = l.backend.Deleted(ctx, since)
	return keys, now, all, mesh.Wrap("threadlog.Deleted", err)
}

// Unfinished returns a page of the threads in which a message of a user may still
// have to be worked on; see [Catalog].
func (l *Log) Unfinished(ctx context.Context, after mesh.Pos, limit int) ([]Unfinished, error) {
	list, err := l.backend.Unfinished(ctx, after, limit)
	return list, mesh.Wrap("threadlog.Unfinished", err)
}
