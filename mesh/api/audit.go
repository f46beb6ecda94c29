package api

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/audit"
)

// Audit serves mesh.v1.AuditService.
type Audit struct {
	meshv1.UnimplementedAuditServiceServer
	store *audit.Store
	talks Conversations
}

// NewAudit returns the server of the record in the store, and of what happened in the
// conversations.
func NewAudit(store *audit.Store, talks Conversations) *Audit {
	return &Audit{store: store, talks: talks}
}

// Bounds of a page of records: how many there are at most and by default, how many are
// read at once, and how many are looked at for one page.
const (
	maxAuditPage     = 1000
	defaultAuditPage = 100
	auditChunk       = 256
	maxAuditScan     = 20 * auditChunk
)

// ListAuditRecords implements meshv1.AuditServiceServer.
func (s *Audit) ListAuditRecords(ctx context.Context, req *meshv1.ListAuditRecordsRequest) (*meshv1.ListAuditRecordsResponse, error) {
	const op = "api.ListAuditRecords"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	if size < 0 || size > maxAuditPage {
		return nil, mesh.InvalidField(op, "page_size", "is %d; it must be 1 to %d, or 0 for %d", size, maxAuditPage, defaultAuditPage)
	}
	if size == 0 {
		size = defaultAuditPage
	}
	before := s.store.Last() + 1
	if token := req.GetPageToken(); token != "" {
		n, err := strconv.ParseInt(token, 36, 64)
		if err != nil || n < 1 {
			return nil, mesh.InvalidField(op, "page_token", "is not one of this list; use the next_page_token of the page before")
		}
		before = min(n, before)
	}
	resp := &meshv1.ListAuditRecordsResponse{}
	for looked := 0; before > 1 && len(resp.Records) < size && looked < maxAuditScan; looked += auditChunk {
		first := max(before-auditChunk, 1)
		recs, err := s.store.Read(ctx, first-1, int(before-first))
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		for len(recs) > 0 && len(resp.Records) < size {
			rec := recs[len(recs)-1]
			recs, before = recs[:len(recs)-1], rec.GetSeq()
			if wanted(rec, req.GetFilter(), call.Principal) {
				resp.Records = append(resp.Records, rec)
			}
		}
	}
	if before > 1 {
		resp.NextPageToken = strconv.FormatInt(before, 36)
	}
	return resp, nil
}

// FollowAuditRecords implements meshv1.AuditServiceServer.
func (s *Audit) FollowAuditRecords(req *meshv1.FollowAuditRecordsRequest, stream grpc.ServerStreamingServer[meshv1.FollowAuditRecordsResponse]) error {
	const op = "api.FollowAuditRecords"
	ctx := stream.Context()
	call, err := callOf(ctx, op)
	if err != nil {
		return err
	}
	after := req.GetAfterSeq()
	if after < 0 {
		return mesh.InvalidField(op, "after_seq", "is %d; it must be the seq of a record, or 0", after)
	}
	if err := accept(stream); err != nil {
		return err
	}
	for {
		grown := s.store.Grown() // before it is read, so that nothing is missed
		recs, err := s.store.Read(ctx, after, auditChunk)
		if err != nil {
			return mesh.Wrap(op, err)
		}
		for _, rec := range recs {
			after = rec.GetSeq()
			if !wanted(rec, req.GetFilter(), call.Principal) {
				continue
			}
			if err := stream.Send(&meshv1.FollowAuditRecordsResponse{Record: rec}); err != nil {
				return mesh.Errorf(mesh.Canceled, op, "The caller is gone: %w", err)
			}
		}
		if len(recs) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return mesh.Wrap(op, ctx.Err())
		case <-grown:
		}
	}
}

// wanted reports whether the principal may see the record, and asks for it.
func wanted(rec *meshv1.AuditRecord, f *meshv1.AuditFilter, p mesh.Principal) bool {
	if rec.GetTenantId() != string(p.Tenant) && !p.Can(mesh.ActAdminNode) {
		return false
	}
	for _, t := range []struct{ want, is string }{
		{f.GetTenantId(), rec.GetTenantId()}, {f.GetUserId(), rec.GetUserId()}, {f.GetAgent(), rec.GetAgent()}, {f.GetResource(), rec.GetResource()},
	} {
		if t.want != "" && t.want != t.is {
			return false
		}
	}
	at := rec.GetTime().AsTime()
	return strings.HasSuffix(rec.GetAction(), f.GetAction()) &&
		(f.GetDecision() == meshv1.AuditRecord_DECISION_UNSPECIFIED || f.GetDecision() == rec.GetDecision()) &&
		(f.GetSince() == nil || !at.Before(f.GetSince().AsTime())) && (f.GetUntil() == nil || at.Before(f.GetUntil().AsTime()))
}
