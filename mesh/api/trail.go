package api

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/audit/trail"
	"agentmesh/mesh/security/authz"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// Bounds of a page of the trail, beside its size: how many events and records are looked at,
// how many threads are folded, and how many bytes of text are looked at.
const (
	maxTrailScan    = 5120
	maxTrailThreads = 64
	maxTrailText    = 2 << 20
	// maxOutput is how many events are looked at for one piece of output.
	maxOutput = 512
)

// Conversations are what [Audit] tells of beside the record. All of it is needed.
type Conversations struct {
	Log      *threadlog.Log
	States   *cache.States
	Redactor *trail.Redactor
	// Told hears which thread somebody reads of, or "conversations".
	Told ReadByRole
}

// ListAuditTrail implements meshv1.AuditServiceServer.
func (s *Audit) ListAuditTrail(ctx context.Context, req *meshv1.ListAuditTrailRequest) (*meshv1.ListAuditTrailResponse, error) {
	const op = "api.ListAuditTrail"
	q, err := s.ask(ctx, op, req)
	if err != nil {
		return nil, err
	}
	what := "conversations"
	if q.key.ID != "" {
		what = q.key.ID
	}
	resp, err := q.page(ctx)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	s.talks.Told(ctx, what)
	return resp, nil
}

// A question is what one asks of the trail.
type question struct {
	of     *Audit
	key    mesh.ThreadKey // without ID for all threads of the tenant
	req    *meshv1.ListAuditTrailRequest
	since  time.Time // zero for ever
	until  time.Time // zero for ever
	size   int
	gone   bool // there is no log of the thread
	merged merge
	folded map[string]bool // threads
}

// ask reads the request, and returns where to go on.
func (s *Audit) ask(ctx context.Context, op string, req *meshv1.ListAuditTrailRequest) (*question, error) {
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	if !call.Principal.Can(mesh.ActReadTenant) {
		return nil, authz.Denied(op, mesh.ActReadTenant)
	}
	q := &question{of: s, req: req, size: int(req.GetPageSize()), key: mesh.ThreadKey{Tenant: call.Principal.Tenant}, folded: map[string]bool{}}
	if q.size < 0 || q.size > maxAuditPage {
		return nil, mesh.InvalidField(op, "page_size", "is %d; it must be 1 to %d, or 0 for %d", q.size, maxAuditPage, defaultAuditPage)
	}
	if q.size == 0 {
		q.size = defaultAuditPage
	}
	for _, k := range req.GetKinds() {
		if _, known := meshv1.AuditTrailEntry_Kind_name[int32(k)]; !known || k == meshv1.AuditTrailEntry_KIND_UNSPECIFIED {
			return nil, mesh.InvalidField(op, "kinds", "has %v, which is none; leave it out for all", k)
		}
	}
	if q.since, err = timeIn(op, "since", req.GetSince()); err != nil {
		return nil, err
	}
	if q.until, err = timeIn(op, "until", req.GetUntil()); err != nil {
		return nil, err
	}
	if req.GetThreadId() != "" {
		if q.key, _, err = keyFor(ctx, op, req.GetThreadId()); err != nil {
			return nil, err
		}
	}
	return q, q.begin(ctx, op)
}

// timeIn is the time of a field, zero if it is not set.
func timeIn(op, field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if t.CheckValid() != nil {
		return time.Time{}, mesh.InvalidField(op, field, "is no time between the years 1 and 9999")
	}
	return t.AsTime(), nil
}

// begin finds where the page begins.
func (q *question) begin(ctx context.Context, op string) error {
	at, err := readTrailToken(op, q.req.GetPageToken(), q.key.ID != "")
	if err != nil {
		return err
	}
	events := &eventSource{of: q.of.talks.Log, key: q.key, after: at.event, until: q.until}
	records := &recordSource{of: q.of.store, key: q.key, after: at.record, until: q.until}
	q.merged = merge{events: events, records: records}
	if q.key.ID != "" {
		err = q.beginThread(ctx, op, at)
	}
	if err != nil || q.req.GetPageToken() != "" || q.since.IsZero() {
		return err
	}
	if events.after, err = events.before(ctx, q.since); err != nil {
		return mesh.Wrap(op, err)
	}
	if q.key.ID == "" {
		records.after, err = q.of.store.Before(ctx, q.since)
	}
	return mesh.Wrap(op, err)
}

// beginThread refuses a thread that has no log and was not deleted. What callers of the tenant
// tried to do to one that is not there makes none of it.
func (q *question) beginThread(ctx context.Context, op string, at trailToken) error {
	info, ok, err := q.of.talks.Log.Info(ctx, q.key)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	if q.gone = !ok; q.gone && !q.of.store.Deleted(q.key) {
		return mesh.ThreadNotFound(op)
	}
	if q.merged.events.first = info.FirstPos; at.first != info.FirstPos {
		q.merged.events.after = 0 // it is another one than it was
	}
	return nil
}

// page looks until there is enough.
func (q *question) page(ctx context.Context) (*meshv1.ListAuditTrailResponse, error) {
	resp := &meshv1.ListAuditTrailResponse{LogGone: q.gone}
	looked, read := 0, 0
	for len(resp.Entries) < q.size && looked < maxTrailScan && read < maxTrailText {
		it, err := q.merged.peek(ctx)
		if err != nil {
			return nil, err
		}
		if it == nil {
			return resp, nil
		}
		if looked++; q.maybe(it) {
			if id := it.key.ID; id != "" && !q.folded[id] {
				if len(q.folded) == maxTrailThreads {
					break
				}
				q.folded[id] = true
			}
			entry, bytes, events, err := q.entry(ctx, it)
			if err != nil {
				return nil, err
			}
			looked, read = looked+events, read+bytes
			if q.wanted(entry) {
				if read += proto.Size(entry); read > maxTrailText && len(resp.Entries) > 0 {
					break
				}
				resp.Entries = append(resp.Entries, entry)
			}
		}
		q.merged.take(it)
	}
	resp.NextPageToken = q.merged.token(q.key.ID != "")
	return resp, nil
}

// maybe is wanted as far as it can be told without the thread's state.
func (q *question) maybe(it *happened) bool {
	var kind meshv1.AuditTrailEntry_Kind
	switch {
	case it.record != nil:
		if it.record.GetTenantId() != string(q.key.Tenant) {
			return false
		}
		kind = trail.KindOfRecord(it.record)
	case it.key.Tenant != q.key.Tenant || it.event.Body == nil || thread.Continues(it.event):
		return false
	default:
		kind = trail.KindOf(it.event)
	}
	at := it.time()
	return (len(q.req.GetKinds()) == 0 || slices.Contains(q.req.GetKinds(), kind)) &&
		(q.since.IsZero() || !at.Before(q.since)) && (q.until.IsZero() || at.Before(q.until))
}

func (q *question) wanted(x *trail.Entry) bool {
	user := q.req.GetUserId()
	return (user == "" || x.GetUserId() == user || x.GetActor() == "user:"+user) && (q.req.GetAgent() == "" || trail.Concerns(x, q.req.GetAgent()))
}

// entry returns that of what happened, how many bytes of text were looked at for it and how
// many events more.
func (q *question) entry(ctx context.Context, it *happened) (x *trail.Entry, bytes, events int, err error) {
	if it.record != nil && it.key.ID == "" {
		return q.of.talks.Redactor.Record(it.record, "", nil), 0, 0, nil
	}
	var output *thread.Output
	more := false
	if it.event != nil {
		if output, more, events, err = q.output(ctx, it); err != nil {
			return nil, 0, 0, err
		}
	}
	err = q.of.talks.States.With(ctx, it.key, func(st *thread.State) error {
		if it.record != nil {
			x = q.of.talks.Redactor.Record(it.record, it.key.ID, st)
		} else {
			x, bytes = q.of.talks.Redactor.Event(it.key, st, it.event, output, more)
		}
		return nil
	})
	return x, bytes, events, err
}

// output gathers a piece of output that begins with the event, of which there may be more in
// the events after it, and more than is looked at.
func (q *question) output(ctx context.Context, it *happened) (o *thread.Output, more bool, looked int, err error) {
	o, more = thread.NewOutput(it.event)
	for at := it.event.Seq; more && looked < maxOutput && o.Bytes() <= trail.MaxRead; {
		events, err := q.of.talks.Log.Read(ctx, it.key, at, readAhead)
		if err != nil {
			return nil, false, looked, err
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			at = e.Seq
			looked++
			if more = o.Add(e); !more {
				break
			}
		}
	}
	return o, more, looked, nil
}
