package runs

import (
	"context"
	"encoding/base64"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// Bounds of a page of runs.
const (
	maxPage     = 100
	defaultPage = 20
)

// ListSkillRuns lists the runs that schedules caused in the caller's tenant,
// and those that were missed, newest due time first: of others than the caller only
// for who may read all threads of the tenant. One that waited for an
// approval, which has been given since, is shown as it is now.
func (r *Runner) ListSkillRuns(ctx context.Context, req *meshv1.ListSkillRunsRequest) (*meshv1.ListSkillRunsResponse, error) {
	const op = "runs.ListSkillRuns"
	call, ok := mesh.CallFrom(ctx)
	if !ok {
		return nil, mesh.Errorf(mesh.Unknown, op, "")
	}
	q, err := queryOf(call.Principal, req)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	page := r.journal.page
	if req.GetName() != "" {
		page = r.journal.pageOf
	}
	records, more, err := page(ctx, q)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	res := &meshv1.ListSkillRunsResponse{}
	if slices.ContainsFunc(records, func(rec *record) bool { return !q.own(rec) }) {
		r.ReadByRole(ctx, "skill runs")
	}
	for _, rec := range records {
		if rec.Status == statusAwaiting {
			r.refresh(ctx, call, rec)
		}
		res.Runs = append(res.Runs, runProto(rec))
	}
	if n := len(records); more && n > 0 {
		last := records[n-1]
		res.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(place(last.Due.Unix(), last.Skill)))
	}
	return res, nil
}

// refresh brings the record of a run that waited up to date, if its task can be
// read.
func (r *Runner) refresh(ctx context.Context, call mesh.Call, rec *record) {
	as := mesh.Call{Principal: call.Principal, Traceparent: call.Traceparent}
	task, _, err := r.Edge.Task(mesh.WithCall(ctx, as), rec.Task)
	if err != nil || !mesh.Terminal(task.GetStatus().GetState()) {
		return
	}
	rec.end(task, task.GetStatus().GetTimestamp().AsTime())
	rec.Detail = mesh.Clip(rec.Detail, maxDetail)
}

// A query is what a page of records is of.
type query struct {
	tenant mesh.TenantID
	reader mesh.Principal
	skill  string // "" for all
	after  string // a place, or "" for the first page
	size   int
}

// sees reports whether the record is shown to the reader.
func (q query) sees(rec *record) bool {
	return q.own(rec) || q.reader.Can(mesh.ActReadTenant)
}

// own reports whether the run was the reader's.
func (q query) own(rec *record) bool { return rec.User != "" && rec.User == q.reader.User }

func queryOf(p mesh.Principal, req *meshv1.ListSkillRunsRequest) (query, error) {
	const op = "runs.queryOf"
	q := query{tenant: p.Tenant, reader: p, skill: req.GetName(), size: int(req.GetPageSize())}
	if q.size == 0 {
		q.size = defaultPage
	}
	if q.size < 1 || q.size > maxPage {
		return q, mesh.InvalidField(op, "page_size", "must be 1 to %d, or 0 for %d, and is %d", maxPage, defaultPage, q.size)
	}
	if req.GetPageToken() == "" {
		return q, nil
	}
	at, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if _, _, ok := parsePlace(string(at)); err != nil || !ok {
		return q, mesh.InvalidField(op, "page_token", "is none that a page had; begin again without it")
	}
	q.after = string(at)
	return q, nil
}

// page returns records of all skills of the tenant, and whether there are more.
func (j journal) page(ctx context.Context, q query) ([]*record, bool, error) {
	prefix := string(q.tenant) + "/"
	after, more := "", true
	if q.after != "" {
		after = prefix + q.after
	}
	var list []*record
	for more && len(list) < q.size {
		var items []state.Item
		var err error
		items, more, err = j.kv.List(ctx, state.Page{Kind: kindRecord, Prefix: prefix, After: after, Limit: q.size - len(list)})
		if err != nil {
			return nil, false, err
		}
		for _, it := range items {
			rec := new(record)
			if err := decode(it.Data, rec); err != nil {
				return nil, false, err
			}
			if after = it.Name; q.sees(rec) {
				list = append(list, rec)
			}
		}
	}
	return list, more, nil
}

// pageOf returns records of one skill, and whether there are more.
func (j journal) pageOf(ctx context.Context, q query) ([]*record, bool, error) {
	id := jobID{q.tenant, q.skill}
	if len(planKey(id).Name) > state.MaxName {
		return nil, false, nil
	}
	p, _, err := j.plan(ctx, id)
	if err != nil {
		return nil, false, err
	}
	var list []*record
	for _, due := range slices.Backward(p.Dues) {
		if place(due, q.skill) <= q.after {
			continue
		}
		rec, _, err := j.record(ctx, id, due)
		if mesh.IsCode(err, mesh.NotFound) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		if !q.sees(rec) {
			continue
		}
		if len(list) == q.size {
			return list, true, nil
		}
		list = append(list, rec)
	}
	return list, false, nil
}

func runProto(r *record) *meshv1.SkillRun {
	return &meshv1.SkillRun{Skill: r.Skill, Due: timestamppb.New(r.Due), Started: stamp(r.Started), Ended: stamp(r.Ended),
		Status: r.Status, Detail: r.Detail, ThreadId: r.Thread, TaskId: r.Task}
}

// stamp is nil for the zero time.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
