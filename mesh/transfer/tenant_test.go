package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/blob"
	"agentmesh/mesh/retention"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/transfer"
	"agentmesh/mesh/turn"
)

// A place is a mesh as far as tenants are concerned.
type place struct {
	*transfer.Tenants
	t     *testing.T
	kv    *state.KV
	blobs *blob.Store
}

// stays leaves what it has.
type stays struct{ retention.Holder }

func (stays) Keeps() string { return "webhooks" }

func (stays) Export(context.Context, mesh.TenantID, func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	return []mesh.Left{{Held: mesh.Held{What: "webhooks", Count: 3}, Why: "they stay"}, {Held: mesh.Held{What: "none"}}}, nil
}

func newPlace(t *testing.T) *place {
	t.Helper()
	store := mem.Open()
	blobs, err := blob.Open(t.TempDir(), blob.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kv, log := state.New(store), threadlog.New(store, threadlog.WithBeside(blobs))
	blobs.WithReferences(func(ctx context.Context, key mesh.ThreadKey) (map[string]bool, error) {
		refs := map[string]bool{}
		events, err := log.Read(ctx, key, 0, 100)
		for _, e := range events {
			for b := range mesh.Blobs(mesh.PartsOf(e.Body)) {
				refs[b.Hash] = true
			}
		}
		return refs, err
	}, 0)
	return &place{t: t, kv: kv, blobs: blobs, Tenants: &transfer.Tenants{
		Threads: transfer.Threads{Log: log, Settle: turn.Settle}, KV: kv, Holders: []retention.Holder{kv, stays{}, blobs}, Files: blobs}}
}

// file has the thread have a large file, and returns the part that refers to it.
func (p *place) file(key mesh.ThreadKey, data []byte) *a2apb.Part {
	p.t.Helper()
	sum := sha256.Sum256(data)
	b := mesh.Blob{Hash: hex.EncodeToString(sum[:]), Size: int64(len(data))}
	u, err := p.blobs.Upload(p.t.Context(), key, "ann", b, 0)
	if err == nil {
		_, err = u.Write(data)
		err = errors.Join(err, u.Commit(p.t.Context()))
		u.Close()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return &a2apb.Part{Content: &a2apb.Part_Url{Url: b.URL()}, Filename: "large"}
}

// has gives the tenant threads, some of whose tasks are at work, others with large files, and
// values.
func (p *place) has(tenant mesh.TenantID, threads, values int) {
	p.t.Helper()
	for i := range threads {
		key := mesh.ThreadKey{Tenant: tenant, ID: mesh.NewThreadID()}
		id := mesh.NewExecutionID(key.ID)
		events := []*mesh.Event{
			{Execution: id, Body: mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn, Agent: "main", User: "ann"}}},
			{Execution: id, Body: mesh.MessagePosted{Message: &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_USER}, User: "ann"}},
			{Execution: id, Body: mesh.TaskMoved{State: []mesh.TaskState{a2apb.TaskState_TASK_STATE_COMPLETED, a2apb.TaskState_TASK_STATE_WORKING}[i%2]}},
		}
		if i%2 == 0 {
			m := events[1].Body.(mesh.MessagePosted).Message
			m.Parts = []*a2apb.Part{p.file(key, bytes.Repeat([]byte{byte(i)}, 300<<10))}
		}
		for _, e := range events {
			e.ID = mesh.NewEventID()
			e.Actor = "node"
		}
		expect := map[mesh.Scope]mesh.Seq{}
		for _, e := range events {
			if scope, decides := mesh.ScopeOf(e); decides {
				expect[scope] = 0
			}
		}
		if _, err := p.Log.Append(p.t.Context(), key, events, threadlog.AppendOptions{Expect: expect}); err != nil {
			p.t.Fatal(err)
		}
	}
	for i := range values {
		k := state.UserSpace(tenant, "ann", "tasks").Key(fmt.Sprint(i))
		if _, err := p.kv.Put(p.t.Context(), k, bytes.Repeat([]byte("v"), 1000*i), 0); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *place) export(tenant mesh.TenantID) (all []*meshv1.TenantPiece) {
	p.t.Helper()
	err := p.Export(p.t.Context(), tenant, func(piece *meshv1.TenantPiece) error {
		all = append(all, proto.CloneOf(piece))
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

func (p *place) bring(tenant mesh.TenantID, pieces []*meshv1.TenantPiece) (*meshv1.ImportTenantResponse, error) {
	return p.Import(p.t.Context(), tenant, func() (*meshv1.TenantPiece, error) {
		if len(pieces) == 0 {
			return nil, io.EOF
		}
		next := pieces[0]
		pieces = pieces[1:]
		return next, nil
	})
}

// what is the tenant's, by what it is: an export without its id, time, order and hashes.
func (p *place) what(tenant mesh.TenantID) map[string]proto.Message {
	all, thread, n := map[string]proto.Message{}, "", 0
	for _, piece := range p.export(tenant) {
		switch is := piece.GetPiece().(type) {
		case *meshv1.TenantPiece_Thread:
			thread, n = is.Thread.GetThreadId(), 0
		case *meshv1.TenantPiece_Events:
			for _, e := range is.Events.GetEvents() {
				all[fmt.Sprint(thread, " ", n)] = e
				n++
			}
		case *meshv1.TenantPiece_Thing:
			thread, n = is.Thing.GetStore()+" "+is.Thing.GetKind()+" "+is.Thing.GetName(), 0
			all[thread] = is.Thing
		case *meshv1.TenantPiece_Data:
			all[fmt.Sprint(thread, " ", n)] = piece
			n++
		}
	}
	return all
}

// lost is how something that was there is not as it was.
func lost(was, is map[string]proto.Message) string {
	for name, w := range was {
		if !proto.Equal(w, is[name]) { // cmp takes a second for each file
			return name + ": " + cmp.Diff(w, is[name], protocmp.Transform())
		}
	}
	return ""
}

// What was there reads back equal, with the ends of what was not over, and nothing of
// others. Cut off after any piece, the import is finished by the same export and ends with the same;
// once complete it does nothing, also when something was deleted since.
func TestATenantThatIsCutOffAnywhereIsFinishedByTheSameExport(t *testing.T) {
	from := newPlace(t)
	from.has("acme", 4, 6)
	from.has("rival", 3, 3)
	pieces, was := from.export("acme"), from.what("acme")
	for cut := 1; cut <= len(pieces); cut++ {
		to := newPlace(t)
		to.has("rival", 1, 1)
		rivals := to.what("rival")
		if _, err := to.bring("acme", pieces[:cut]); (err == nil) != (cut == len(pieces)) || err != nil && !mesh.IsCode(err, mesh.Invalid) {
			t.Fatalf("cut after %d of %d: %v", cut, len(pieces), err)
		}
		res, err := to.bring("acme", pieces)
		if err != nil || res.GetThreads() != 4 || res.GetDoneBefore() != (cut == len(pieces)) || len(res.GetLeft()) != 1 || res.GetLeft()[0].GetCount() != 3 {
			t.Fatalf("cut after %d: %v, %v", cut, res, err)
		}
		is := to.what("acme")
		if diff := lost(was, is); diff != "" {
			t.Fatalf("cut after %d, (-was +is): %s", cut, diff)
		}
		if len(is) != len(was)+2 { // the ends of two tasks
			t.Errorf("cut after %d: %d things, and were %d", cut, len(is), len(was))
		}
		if rival := to.what("rival"); lost(rivals, rival) != "" || len(rival) != len(rivals) {
			t.Errorf("another tenant was touched: %s", lost(rivals, rival))
		}
		infos, err := to.Log.Threads(t.Context(), "acme", 0, 1)
		if err == nil {
			err = to.Log.Delete(t.Context(), infos[0].Key, threadlog.AnyPos)
		}
		if err != nil {
			t.Fatal(err)
		}
		if res, err := to.bring("acme", pieces); err != nil || !res.GetDoneBefore() {
			t.Errorf("once more: %v, %v", res, err)
		}
		if tail, err := to.Log.Tail(t.Context(), infos[0].Key); err != nil || tail != 0 {
			t.Errorf("what was deleted is there again: %d, %v", tail, err)
		}
	}
}

// A tenant that has a thread or a value of its own, or a part of another export, stays as it is.
func TestATenantThatHasSomethingIsNotTouched(t *testing.T) {
	from := newPlace(t)
	from.has("acme", 2, 2)
	pieces := from.export("acme")
	for name, c := range map[string]struct{ threads, values int }{"a thread": {1, 0}, "a value": {0, 1}} {
		to := newPlace(t)
		to.has("acme", c.threads, c.values)
		was := to.what("acme")
		if _, err := to.bring("acme", pieces); !mesh.IsCode(err, mesh.Precondition) {
			t.Errorf("%s: %v", name, err)
		}
		if is := to.what("acme"); lost(was, is) != "" || len(is) != len(was) {
			t.Errorf("%s: it was touched: %s", name, lost(was, is))
		}
	}
	to := newPlace(t)
	thread := 2 + slices.IndexFunc(pieces, func(p *meshv1.TenantPiece) bool { return p.GetEvents() != nil })
	if _, err := to.bring("acme", pieces[:thread]); err == nil {
		t.Fatal("a part is taken for all")
	}
	if _, err := to.bring("acme", from.export("acme")); !mesh.IsCode(err, mesh.Precondition) || !bytes.Contains([]byte(mesh.DetailOf(err)), []byte(pieces[0].GetBegun().GetExportId())) {
		t.Errorf("another export into a part: %v", err)
	}
}

// What is no export of the tenant, or not all of one, is refused as such.
func TestWhatIsNoExportOfTheTenantIsRefused(t *testing.T) {
	from := newPlace(t)
	from.has("acme", 2, 3)
	good := from.export("acme")
	at := func(is func(*meshv1.TenantPiece) bool) int { return slices.IndexFunc(good, is) }
	thread := at(func(p *meshv1.TenantPiece) bool { return p.GetThread() != nil })
	events := at(func(p *meshv1.TenantPiece) bool { return p.GetEvents() != nil })
	data := at(func(p *meshv1.TenantPiece) bool { return len(p.GetData()) > 0 })
	change := func(i int, f func(*meshv1.TenantPiece)) []*meshv1.TenantPiece {
		all := slices.Clone(good)
		all[i] = proto.CloneOf(all[i])
		f(all[i])
		return all
	}
	for name, pieces := range map[string][]*meshv1.TenantPiece{
		"nothing":                nil,
		"no beginning":           good[1:],
		"another tenant's":       change(0, func(p *meshv1.TenantPiece) { p.GetBegun().TenantId = "rival" }),
		"a format to come":       change(0, func(p *meshv1.TenantPiece) { p.GetBegun().Format = 2 }),
		"no id":                  change(0, func(p *meshv1.TenantPiece) { p.GetBegun().ExportId = "" }),
		"a thread without an id": change(thread, func(p *meshv1.TenantPiece) { p.GetThread().ThreadId = "../x" }),
		"a thread too few":       slices.Delete(slices.Clone(good), thread, thread+2),
		"events too few":         change(thread, func(p *meshv1.TenantPiece) { p.GetThread().Total++ }),
		"events too many":        change(thread, func(p *meshv1.TenantPiece) { p.GetThread().Total-- }),
		"events of another thread": change(events, func(p *meshv1.TenantPiece) {
			p.GetEvents().GetEvents()[0].ExecutionId = string(mesh.NewExecutionID(mesh.NewThreadID()))
		}),
		"bytes too many":     change(data, func(p *meshv1.TenantPiece) { p.Piece = &meshv1.TenantPiece_Data{Data: make([]byte, 1<<20)} }),
		"bytes of nothing":   slices.Insert(slices.Clone(good), 1, good[data]),
		"a piece of nothing": slices.Insert(slices.Clone(good), 1, &meshv1.TenantPiece{}),
	} {
		if _, err := newPlace(t).bring("acme", pieces); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a store does not keep is left, and said; the rest comes.
func TestWhatIsNotTakenIsSaid(t *testing.T) {
	from := newPlace(t)
	from.has("acme", 1, 3)
	pieces := from.export("acme")
	for _, p := range pieces {
		if th := p.GetThing(); th.GetName() != "" && th.GetSize() == 1000 {
			th.Kind = "no kind"
		}
	}
	to := newPlace(t)
	res, err := to.bring("acme", pieces)
	if err != nil || len(res.GetLeft()) != 2 || res.GetLeft()[1].GetKind() != "values" || res.GetLeft()[1].GetCount() != 1 || res.GetLeft()[1].GetWhy() == "" {
		t.Errorf("%v, %v", res, err)
	}
	if n := len(to.what("acme")); n < 5 {
		t.Errorf("there are %d things", n)
	}
	broken := errors.New("broken")
	if err := from.Export(t.Context(), "acme", func(*meshv1.TenantPiece) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}
