package transfer

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/retention"
	"agentmesh/mesh/state"
)

// kindMark is the kind under which it is kept which export a tenant is imported from, among the
// operator's own values: a TenantImport, in JSON.
const kindMark = "tenant-import"

// A Next returns the next piece of an export; io.EOF where it ends.
type Next func() (*meshv1.TenantPiece, error)

// Import takes an export into the tenant, and says what came of it. Errors: Invalid for what is
// no export of the tenant, Precondition if the tenant has something that is not of it, or
// another one is imported; those of next and of the stores. After an error what came is there,
// and the same export goes on.
func (t *Tenants) Import(ctx context.Context, tenant mesh.TenantID, next Next) (*meshv1.ImportTenantResponse, error) {
	const op = "transfer.Import"
	if !t.importing.TryLock() {
		return nil, mesh.Errorf(mesh.Precondition, op, "another tenant is being imported; try again when that has ended")
	}
	defer t.importing.Unlock()
	first, err := next()
	if err != nil {
		return nil, cutOff(op, err)
	}
	b := first.GetBegun()
	switch {
	case b.GetExportId() == "":
		return nil, mesh.InvalidField(op, "piece.begun", "is missing; send an export from its beginning")
	case b.GetFormat() != Format:
		return nil, mesh.InvalidField(op, "piece.begun.format", "is %d, and this mesh reads %d; use one that reads it", b.GetFormat(), Format)
	case b.GetTenantId() != string(tenant):
		return nil, mesh.InvalidField(op, "piece.begun.tenant_id", "is %q, and the call is for the tenant %q; import it as what it is", mesh.Clip(b.GetTenantId(), maxShown), tenant)
	}
	in := &incomingTenant{t: t, tenant: tenant, next: next, res: &meshv1.ImportTenantResponse{}}
	if in.mark, err = t.mark(ctx, tenant, b.GetExportId()); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if done := in.mark.GetDone(); done != nil {
		done.DoneBefore = true
		return done, nil
	}
	if err := in.run(ctx); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	in.mark.Done = in.res
	return in.res, mesh.Wrap(op, t.putMark(ctx, tenant, in.mark))
}

func cutOff(op string, err error) error {
	if errors.Is(err, io.EOF) {
		return mesh.InvalidField(op, "piece", "is missing: the export ends before its end; send all of it, and what is there is passed over")
	}
	return err
}

// mark notes durably that the export is being imported, unless it is already, and returns what
// is known of that.
func (t *Tenants) mark(ctx context.Context, tenant mesh.TenantID, export string) (*meshv1.TenantImport, error) {
	v, err := t.KV.Get(ctx, state.Key{Kind: kindMark, Name: string(tenant)})
	m := new(meshv1.TenantImport)
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(v.Data, m)
	}
	if err != nil && !mesh.IsCode(err, mesh.NotFound) {
		return nil, err
	}
	if m.GetExportId() == export && m.GetDone() == nil {
		return m, nil
	}
	has, err := t.has(ctx, tenant)
	switch {
	case err != nil:
		return nil, err
	case has == "":
		m = &meshv1.TenantImport{ExportId: export}
		return m, t.putMark(ctx, tenant, m)
	case m.GetExportId() == export:
		return m, nil
	case m.GetExportId() != "" && m.GetDone() == nil:
		return nil, mesh.Errorf(mesh.Precondition, "transfer.Import", "the tenant %s has %s of the export %s, of which not all was imported; import that one again, or delete what there is of the tenant", tenant, has, m.GetExportId())
	}
	return nil, mesh.Errorf(mesh.Precondition, "transfer.Import", "the tenant %s has %s already; import into a mesh where it has nothing, or delete them", tenant, has)
}

func (t *Tenants) putMark(ctx context.Context, tenant mesh.TenantID, m *meshv1.TenantImport) error {
	data, err := protojson.Marshal(m)
	if err == nil {
		_, err = t.KV.Put(ctx, state.Key{Kind: kindMark, Name: string(tenant)}, data, state.AnyVersion)
	}
	return err
}

var errHas = errors.New("there is something")

// has names something that the tenant has; "" if it has nothing.
func (t *Tenants) has(ctx context.Context, tenant mesh.TenantID) (string, error) {
	if infos, err := t.Log.Threads(ctx, tenant, 0, 1); err != nil || len(infos) > 0 {
		return "conversations", err
	}
	for _, h := range t.Holders {
		_, err := h.Export(ctx, tenant, func(mesh.Kept, io.Reader) error { return errHas })
		if errors.Is(err, errHas) {
			return h.Keeps(), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

// incomingTenant is a tenant of which not all has come.
type incomingTenant struct {
	t      *Tenants
	tenant mesh.TenantID
	next   Next
	mark   *meshv1.TenantImport
	res    *meshv1.ImportTenantResponse
}

// piece returns the next piece.
func (in *incomingTenant) piece() (*meshv1.TenantPiece, error) {
	p, err := in.next()
	if err != nil {
		return nil, cutOff("transfer.Import", err)
	}
	return p, nil
}

// run takes all that comes.
func (in *incomingTenant) run(ctx context.Context) error {
	for {
		p, err := in.piece()
		if err != nil {
			return err
		}
		switch p := p.GetPiece().(type) {
		case *meshv1.TenantPiece_Thread:
			err = in.thread(ctx, p.Thread)
		case *meshv1.TenantPiece_Thing:
			err = in.thing(ctx, p.Thing)
		case *meshv1.TenantPiece_End:
			return in.end(p.End)
		default:
			err = mesh.InvalidField("transfer.Import", "piece", "is %T, which does not come here; send the pieces of an export in their order", p)
		}
		if err != nil {
			return err
		}
	}
}

// end checks that all has come that there is.
func (in *incomingTenant) end(e *meshv1.TenantEnd) error {
	same := func(a, b *meshv1.TenantHeld) bool { return proto.Equal(a, b) }
	if e.GetThreads() != in.res.GetThreads() || !slices.EqualFunc(e.GetThings(), in.res.GetThings(), same) {
		return mesh.InvalidField("transfer.Import", "piece.end", "says that there is more than came, or less; send all of an export")
	}
	in.res.Left = append(e.GetLeft(), in.res.GetLeft()...)
	return nil
}

// thread takes a thread, unless it is there.
func (in *incomingTenant) thread(ctx context.Context, of *meshv1.TenantThread) error {
	const op = "transfer.Import"
	key := mesh.ThreadKey{Tenant: in.tenant, ID: of.GetThreadId()}
	if id, err := mesh.ParseThreadID(key.ID); err != nil || id != key.ID {
		return mesh.InvalidField(op, "piece.thread.thread_id", "must be a UUID v4, and is %q", mesh.Clip(key.ID, maxShown))
	}
	_, there, err := in.t.Log.Info(ctx, key)
	if err != nil {
		return err
	}
	all, takes := NewIncoming(key.ID, of.GetTotal()), !there
	for n := int64(0); n < of.GetTotal(); {
		p, err := in.piece()
		if err != nil {
			return err
		}
		events := p.GetEvents().GetEvents()
		if n += int64(len(events)); len(events) == 0 || n > of.GetTotal() {
			return mesh.InvalidField(op, "piece.events", "of the thread %s are %d, and must be %d", key.ID, n, of.GetTotal())
		}
		if takes {
			err = all.Add(op, events)
		}
		switch {
		case mesh.IsCode(err, mesh.Exhausted):
			all, takes = nil, false
			in.left("threads", "the thread "+key.ID+" has more than 1,000,000 events or 256 MiB")
		case err != nil:
			return mesh.Errorf(mesh.Invalid, op, "the thread %s: %w", key.ID, err)
		}
	}
	in.res.Threads++
	if there {
		in.res.ThreadsBefore++
	}
	if !takes {
		return nil
	}
	ended, err := in.t.Begin(ctx, op, key, all)
	in.res.Ended += int64(ended)
	in.res.Events += of.GetTotal()
	return err
}

// thing has its store take a thing.
func (in *incomingTenant) thing(ctx context.Context, of *meshv1.TenantThing) error {
	k := mesh.Kept{Kind: of.GetKind(), Name: of.GetName(), User: of.GetUserId(), Size: of.GetSize()}
	if of.GetModified() != nil {
		k.Modified = of.GetModified().AsTime().In(time.Local)
	}
	in.res.Things = counted(in.res.GetThings(), of.GetStore())
	r := &thingReader{in: in, left: of.GetSize()}
	i := slices.IndexFunc(in.t.Holders, func(h retention.Holder) bool { return h.Keeps() == of.GetStore() })
	if i < 0 {
		in.left(mesh.Clip(of.GetStore(), maxShown), "this mesh keeps nothing of that kind")
	} else if _, err := in.t.Holders[i].Import(ctx, in.tenant, k, r); r.err != nil {
		return r.err
	} else if refused(err) {
		in.left(of.GetStore(), mesh.Clip(k.Name, maxShown)+": "+mesh.DetailOf(err))
	} else if err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, r)
	return err
}

// refused reports whether a store cannot keep a thing, and could not later.
func refused(err error) bool {
	return mesh.IsCode(err, mesh.Invalid) || mesh.IsCode(err, mesh.Precondition) || mesh.IsCode(err, mesh.Exhausted) || mesh.IsCode(err, mesh.Unsupported)
}

// left notes that something is not taken, and why the first one of its kind is not.
func (in *incomingTenant) left(kind, why string) {
	for _, l := range in.res.GetLeft() {
		if l.GetKind() == kind {
			l.Count++
			return
		}
	}
	in.res.Left = append(in.res.Left, &meshv1.TenantLeft{Kind: kind, Count: 1, Why: why})
}

// A thingReader reads the bytes of a thing.
type thingReader struct {
	in   *incomingTenant
	left int64
	b    []byte
	err  error // of the pieces
}

// Read implements io.Reader.
func (r *thingReader) Read(b []byte) (int, error) {
	for len(r.b) == 0 && r.err == nil {
		if r.left == 0 {
			return 0, io.EOF
		}
		p, err := r.in.piece()
		if r.err = err; err != nil {
			break
		}
		r.b = p.GetData()
		if n := int64(len(r.b)); n == 0 || n > r.left {
			r.err = mesh.InvalidField("transfer.Import", "piece.data", "has %d bytes where %d belong", n, r.left)
		} else {
			r.left -= n
		}
	}
	if r.err != nil {
		return 0, r.err
	}
	n := copy(b, r.b)
	r.b = r.b[n:]
	return n, nil
}
