package transfer

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/retention"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
)

// Format is the version of the form of exports that this program makes and reads.
const Format = 1

const (
	page       = 256       // threads, or events, that are read at once
	pieceBytes = 1 << 20   // about how many bytes of events a piece has
	chunk      = 256 << 10 // bytes of a thing that are in one piece, at most
)

// Tenants exports and imports tenants. It may be used concurrently.
type Tenants struct {
	Threads
	// KV keeps which exports are being imported.
	KV *state.KV
	// Holders are all that keep something of tenants beside the threads.
	Holders []retention.Holder
	// Files is the one of them that keeps what is too large for events; nil if none does.
	Files Files

	importing sync.Mutex
}

// Files keep that to which events refer.
type Files interface {
	retention.Holder
	// ExportThread is Export of all to which events of the thread refer that are in the log
	// when it is called.
	ExportThread(ctx context.Context, key mesh.ThreadKey, put func(mesh.Kept, io.Reader) error) error
}

// Export gives put the pieces of what is kept of the tenant. Threads that are begun meanwhile
// may be part of it, or not. Errors: those of put and of the stores, and Conflict if a thread is
// deleted while it is read.
func (t *Tenants) Export(ctx context.Context, tenant mesh.TenantID, put func(*meshv1.TenantPiece) error) error {
	const op = "transfer.Export"
	e := &exporting{t: t, tenant: tenant, put: put, end: &meshv1.TenantEnd{}}
	err := put(&meshv1.TenantPiece{Piece: &meshv1.TenantPiece_Begun{Begun: &meshv1.TenantExport{
		Format: Format, ExportId: mesh.NewEventID(), TenantId: string(tenant), Time: timestamppb.New(time.Now())}}})
	if err == nil {
		err = e.threads(ctx)
	}
	for _, h := range t.Holders {
		if err == nil {
			err = e.things(ctx, h)
		}
	}
	if err != nil {
		return mesh.Wrap(op, err)
	}
	return mesh.Wrap(op, put(&meshv1.TenantPiece{Piece: &meshv1.TenantPiece_End{End: e.end}}))
}

// exporting is an export that is made.
type exporting struct {
	t      *Tenants
	tenant mesh.TenantID
	put    func(*meshv1.TenantPiece) error
	end    *meshv1.TenantEnd
}

// threads gives all threads, the longest untouched first: one that is touched meanwhile comes
// again at the end, whether it came before or not.
func (e *exporting) threads(ctx context.Context) error {
	given := map[mesh.Pos]struct{}{}
	for after, more := mesh.Pos(0), true; more; {
		infos, err := e.t.Log.Idle(ctx, e.tenant, after, page)
		if err != nil {
			return err
		}
		for _, info := range infos {
			after = info.LastPos
			if _, was := given[info.FirstPos]; was {
				continue
			}
			given[info.FirstPos] = struct{}{}
			if err := e.thread(ctx, info.Key); err != nil {
				return err
			}
		}
		more = len(infos) == page
	}
	return nil
}

// thread gives the thread as it is now, if it is there.
func (e *exporting) thread(ctx context.Context, key mesh.ThreadKey) error {
	info, hash, there, err := e.moment(ctx, key)
	if err != nil || !there {
		return err
	}
	if e.t.Files != nil { // before the events, which are taken where it is there
		if err := e.t.Files.ExportThread(ctx, key, func(k mesh.Kept, r io.Reader) error { return e.thing(e.t.Files.Keeps(), k, r) }); err != nil {
			return err
		}
	}
	err = e.put(&meshv1.TenantPiece{Piece: &meshv1.TenantPiece_Thread{Thread: &meshv1.TenantThread{ThreadId: key.ID, Total: int64(info.Last), LastHash: hash}}})
	for after := mesh.Seq(0); err == nil && after < info.Last; {
		var events []*mesh.Event
		if events, err = e.t.Log.Read(ctx, key, after, int(min(page, info.Last-after))); err != nil {
			break
		}
		if len(events) == 0 {
			return deletedMeanwhile(key)
		}
		after = events[len(events)-1].Seq
		err = e.events(events)
	}
	if err != nil {
		return err
	}
	if is, there, err := e.t.Log.Info(ctx, key); err != nil || !there || is.FirstPos != info.FirstPos {
		return cmp.Or(err, error(deletedMeanwhile(key)))
	}
	e.end.Threads++
	e.end.Events += int64(info.Last)
	return nil
}

func deletedMeanwhile(key mesh.ThreadKey) *mesh.Error {
	return mesh.Errorf(mesh.Conflict, "transfer.Export", "the thread %s was deleted while it was read; export again", key.ID)
}

// moment is what the thread is at one moment, and the hash of its last event then, if it has one.
func (e *exporting) moment(ctx context.Context, key mesh.ThreadKey) (info threadlog.Info, hash []byte, there bool, err error) {
	const tries = 10 // of a thread that grows all the time; then it goes without its hash
	for n := range tries {
		if info, there, err = e.t.Log.Info(ctx, key); err != nil || !there {
			return info, nil, there, err
		}
		if n == tries-1 {
			break
		}
		hash = e.t.Log.LastHash(key)
		if is, _, err := e.t.Log.Info(ctx, key); err != nil || is.LastPos == info.LastPos {
			return info, hash, true, err
		}
	}
	return info, nil, true, nil
}

// events gives a page of events, in pieces that are not too large.
func (e *exporting) events(events []*mesh.Event) error {
	some, size := &meshv1.TenantEvents{}, 0
	flush := func() error {
		if len(some.GetEvents()) == 0 {
			return nil
		}
		err := e.put(&meshv1.TenantPiece{Piece: &meshv1.TenantPiece_Events{Events: some}})
		some, size = &meshv1.TenantEvents{}, 0
		return err
	}
	for _, ev := range events {
		p := eventpb.EventToProto(ev)
		n := proto.Size(p)
		if size+n > pieceBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		some.Events, size = append(some.Events, p), size+n
	}
	return flush()
}

// things gives what the holder has.
func (e *exporting) things(ctx context.Context, h retention.Holder) error {
	left, err := h.Export(ctx, e.tenant, func(k mesh.Kept, r io.Reader) error { return e.thing(h.Keeps(), k, r) })
	for _, l := range left {
		if l.Count > 0 {
			e.end.Left = append(e.end.Left, &meshv1.TenantLeft{Kind: l.What, Count: int64(l.Count), Why: l.Why})
		}
	}
	return err
}

// counted has one more thing of the store, which comes last if there was none.
func counted(things []*meshv1.TenantHeld, store string) []*meshv1.TenantHeld {
	at := slices.IndexFunc(things, func(h *meshv1.TenantHeld) bool { return h.GetStore() == store })
	if at < 0 {
		at, things = len(things), append(things, &meshv1.TenantHeld{Store: store})
	}
	things[at].Count++
	return things
}

// thing gives a thing with its bytes.
func (e *exporting) thing(store string, k mesh.Kept, r io.Reader) error {
	e.end.Things = counted(e.end.GetThings(), store)
	p := &meshv1.TenantThing{Store: store, Kind: k.Kind, Name: k.Name, UserId: k.User, Size: k.Size}
	if !k.Modified.IsZero() {
		p.Modified = timestamppb.New(k.Modified)
	}
	err := e.put(&meshv1.TenantPiece{Piece: &meshv1.TenantPiece_Thing{Thing: p}})
	for left := k.Size; err == nil && left > 0; {
		b := make([]byte, min(chunk, left))
		if _, err = io.ReadFull(r, b); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return mesh.Errorf(mesh.Conflict, "transfer.Export", "%s %s was changed while it was read; export again", store, mesh.Clip(k.Name, maxShown))
			}
			return err
		}
		left -= int64(len(b))
		err = e.put(&meshv1.TenantPiece{Piece: &meshv1.TenantPiece_Data{Data: b}})
	}
	return err
}
