package audit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/authz"
	"agentmesh/mesh/security/grant"
)

// Options of [NewRecorder]. Store, Table and Signer must be set.
type Options struct {
	Store *Store
	// Table says which calls are recorded, and what they are about.
	Table authz.Table
	// Named returns what a request or response is about, by the path of the table; default
	// [authz.Named].
	Named  func(message any, path string) string
	Signer *grant.Signer
	// Head says how far the log of threads has come. The default is nowhere.
	Head func() Head
	// Checkpoints is a file to which checkpoints are added beside the store; "" is none.
	Checkpoints string
	// Alarms are told of checkpoints that cannot be made or kept; the default is none.
	Alarms *alarm.Set
	Logger *slog.Logger
	Now    func() time.Time
	// Every is how often counts are recorded, and checkpoints made; default a minute.
	Every time.Duration
}

// A Recorder writes the record of a node. It is an [rpc.Auditor]; while [Recorder.Run]
// runs, what it has noted reaches the store.
type Recorder struct {
	o Options

	acts *limit.Rate // of each caller

	unkept *meshv1.AuditCheckpoint // the last one, if it is not in Checkpoints; Run's
	failed bool                    // to keep it; Run's

	mu       sync.Mutex // guards the fields below
	refusals tally
	reads    tally
	due      []*meshv1.AuditRecord
	wake     chan struct{} // capacity 1
}

var _ rpc.Auditor = (*Recorder)(nil)

// How many callers, and what they try, are told apart in a minute whose calls are refused,
// and how many threads that are read by a role.
const (
	maxRefused = 128
	maxRead    = 1024
)

// How many acts a caller may do in a second, and at once: each makes two records, which
// stay.
const (
	actsPerSecond = 20
	actsAtOnce    = 500
	maxActors     = 1024 // callers that are told apart
)

// NewRecorder returns a recorder.
func NewRecorder(o Options) *Recorder {
	if o.Head == nil {
		o.Head = func() Head { return Head{} }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Named == nil {
		o.Named = authz.Named
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Every = cmp.Or(o.Every, time.Minute)
	acts, err := limit.NewRate(actsPerSecond, actsAtOnce, maxActors)
	if err != nil {
		panic(err) // for bounds that are not above 0
	}
	return &Recorder{o: o, acts: acts, refusals: newTally(maxRefused), reads: newTally(maxRead), wake: make(chan struct{}, 1)}
}

// Act implements [rpc.Auditor].
func (r *Recorder) Act(ctx context.Context, method string, req any) (func(resp any, err error), error) {
	rule := r.o.Table[method]
	if !rule.Audit {
		return nil, nil
	}
	begun := r.record(ctx, method, meshv1.AuditRecord_DECISION_ALLOWED)
	if wait, ok := r.acts.Allow(caller(begun), begun.Time.AsTime()); !ok {
		return nil, rpc.WithRetryAfter(mesh.Errorf(mesh.Exhausted, "audit.Act", "too many administrative acts: the limit is %v for each caller; try again later", r.acts), wait)
	}
	begun.Resource = r.o.Named(req, rule.Resource)
	if c, _ := mesh.CallFrom(ctx); req == nil { // of a stream
		begun.Resource = c.Thread
	}
	if err := r.o.Store.Append(begun); err != nil {
		return nil, err
	}
	return func(resp any, err error) {
		rec := r.record(ctx, method, meshv1.AuditRecord_DECISION_DONE)
		rec.OfSeq, rec.Resource = begun.Seq, cmp.Or(begun.Resource, r.o.Named(resp, rule.Resource))
		if deleted, ok := resp.(interface{ GetLastHash() []byte }); ok {
			rec.LastHash = deleted.GetLastHash()
		}
		if asked, ok := req.(*meshv1.EraseUserRequest); ok && !asked.GetCountOnly() {
			erased, _ := resp.(*meshv1.EraseUserResponse)
			rec.Erased = erased.GetErased()
		}
		if err != nil {
			rec.Decision = meshv1.AuditRecord_DECISION_FAILED
			because(rec, err)
		}
		if err := r.o.Store.Append(rec); err != nil { // that it began is recorded
			r.o.Logger.ErrorContext(ctx, "the end of an administrative act was not recorded", "of_seq", begun.Seq, "err", err)
		}
	}, nil
}

// Refused implements [rpc.Auditor].
func (r *Recorder) Refused(ctx context.Context, method string, req any, err error) {
	rec := r.record(ctx, method, meshv1.AuditRecord_DECISION_REFUSED)
	rec.Policy = "" // of what was allowed
	because(rec, err)
	rec.Resource = r.o.Named(req, r.o.Table[method].Resource)
	if c, _ := mesh.CallFrom(ctx); rec.Resource == "" { // as of a message, which names nothing else
		rec.Resource = c.Thread
	}
	key := caller(rec)
	if rec.GetUserId() != "" { // of who is known, it is told what was tried; there are so many methods
		key += "\x00" + method + "\x00" + rec.Permission
	}
	r.note(&r.refusals, key, rec)
}

// Read notes that the caller reads a thread because a role allows it, or a list with what
// is others'.
func (r *Recorder) Read(ctx context.Context, what string) {
	r.read(ctx, string(mesh.ActReadTenant), what)
}

// ReadAgent notes that the caller sees where an agent of somebody else is, or several, because
// a role allows it.
func (r *Recorder) ReadAgent(ctx context.Context, what string) {
	r.read(ctx, "agent.read.tenant", what)
}

// ReadTrail notes that the caller reads what happened in a thread, or in several.
func (r *Recorder) ReadTrail(ctx context.Context, what string) {
	r.read(ctx, string(mesh.ActReadAudit), what)
}

func (r *Recorder) read(ctx context.Context, action, what string) {
	rec := r.record(ctx, action, meshv1.AuditRecord_DECISION_ALLOWED)
	rec.Resource = what
	r.note(&r.reads, strings.Join([]string{caller(rec), action, what}, "\x00"), rec)
}

// Credential notes what the operator did to a credential, which is the principal's.
func (r *Recorder) Credential(act string, p mesh.Principal) {
	r.queue(r.credential(act, p))
}

// Alarm notes what the node cannot read or write, or can again.
func (r *Recorder) Alarm(act string, of alarm.Source) {
	r.queue(&meshv1.AuditRecord{Time: timestamppb.New(r.o.Now()), Action: act, Resource: of.String(), Decision: meshv1.AuditRecord_DECISION_DONE})
}

func (r *Recorder) credential(act string, p mesh.Principal) *meshv1.AuditRecord {
	return &meshv1.AuditRecord{Time: timestamppb.New(r.o.Now()), TenantId: string(p.Tenant), UserId: p.User,
		Action: act, Resource: p.Credential, Decision: meshv1.AuditRecord_DECISION_DONE}
}

// Noticed records credentials that were revoked and added while nobody looked. All of it is
// on disk when it returns nil.
func (r *Recorder) Noticed(revoked, added []mesh.Principal) error {
	var all []*meshv1.AuditRecord
	for _, p := range revoked {
		all = append(all, r.credential("credential.revoked", p))
	}
	for _, p := range added {
		all = append(all, r.credential("credential.added", p))
	}
	return r.o.Store.Append(all...)
}

// record returns what is known of the call in ctx.
func (r *Recorder) record(ctx context.Context, action string, d meshv1.AuditRecord_Decision) *meshv1.AuditRecord {
	c, _ := mesh.CallFrom(ctx)
	p := c.Principal
	rec := &meshv1.AuditRecord{Time: timestamppb.New(r.o.Now()), TenantId: string(p.Tenant), UserId: p.User, Credential: p.Credential, Issuer: p.Issuer, ImpersonatedBy: p.ImpersonatedBy,
		Action: action, Decision: d, Peer: rpc.Remote(ctx)}
	rec.Policy = c.Policy
	if p.Grant != nil {
		rec.Agent, rec.ExecutionId = p.Grant.Agent, string(p.Grant.Execution)
	}
	if _, rest, ok := strings.Cut(c.Traceparent, "-"); ok {
		rec.TraceId, _, _ = strings.Cut(rest, "-")
	}
	return rec
}

// caller tells callers apart.
func caller(rec *meshv1.AuditRecord) string {
	return strings.Join([]string{rec.TenantId, rec.UserId, rec.Agent, rec.Credential, rec.Peer}, "\x00")
}

// maxWhy bounds, in bytes, each of what an error of another process may say.
const maxWhy = 128

// because notes why, as the error says.
func because(rec *meshv1.AuditRecord, err error) {
	err = rpc.FromStatus(err)
	rec.Code = rpccode.Code(rpc.GRPCCode(mesh.CodeOf(err))).String() // as gRPC has it
	rec.Policy = cmp.Or(mesh.PolicyOf(err), rec.Policy)
	e := new(mesh.Error)
	if !errors.As(err, &e) {
		return
	}
	if rec.Reason = mesh.Clip(e.Reason, maxWhy); e.Lack != nil {
		rec.Permission, rec.RequiredBy = mesh.Clip(e.Lack.Permission, maxWhy), mesh.Clip(e.Lack.Agent, maxWhy)
	}
}
