package digest_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/checkpoint"
	"agentmesh/mesh/thread/digest"
	"agentmesh/mesh/threadlog"
)

// A counter is a log that counts the events that are read.
type counter struct {
	*threadlog.Log
	events int
}

func (c *counter) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]*mesh.Event, error) {
	events, err := c.Log.Read(ctx, key, after, limit)
	c.events += len(events)
	return events, err
}

// A loader is a store that counts the chunks that are loaded; what saves does comes before the
// first one is saved.
type loader struct {
	*checkpoint.Store
	n     int
	saves func()
}

func (l *loader) LoadChunk(ctx context.Context, key mesh.ThreadKey, turn string, from, to int64) ([]byte, error) {
	l.n++
	return l.Store.LoadChunk(ctx, key, turn, from, to)
}

func (l *loader) SaveChunk(ctx context.Context, key mesh.ThreadKey, turn string, from, to int64, data []byte) error {
	if f := l.saves; f != nil {
		l.saves = nil
		f()
	}
	return l.Store.SaveChunk(ctx, key, turn, from, to, data)
}

// The first reading of a long turn is of all its log, and the second is not. What is kept of it is
// damaged, of another log, in part or away: the task is that of the log always, and what is kept of a
// deleted thread goes.
func TestALongTaskIsThatOfItsLogWhateverIsKept(t *testing.T) {
	values := mem.Open()
	kv := state.New(values)
	store := checkpoint.New(kv)
	log := threadlog.New(mem.Open())
	id := mesh.NewThreadID()
	key := mesh.ThreadKey{Tenant: "acme", ID: id}
	turn := mesh.NewExecutionID(id)
	leg := mesh.NewExecutionID(id)
	events := []*mesh.Event{
		{Execution: turn, Actor: "node", Time: time.Unix(1, 0), Body: mesh.TaskOpened{Execution: mesh.Execution{ID: turn, Kind: mesh.KindTurn, Agent: "a", User: "ann"}}},
		{Execution: turn, Actor: "node", Time: time.Unix(1, 0), Body: mesh.DispatchIssued{Child: mesh.Execution{ID: leg, Parent: turn, Kind: mesh.KindAgent, Agent: "a", User: "ann"}}},
	}
	for i := range 3*digest.Every + 100 {
		events = append(events, &mesh.Event{Execution: leg, Actor: "agent:a", Time: time.Unix(2, 0), Body: mesh.ArtifactAppended{Append: i > 0,
			Artifact: &a2apb.Artifact{ArtifactId: "x", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: fmt.Sprint(i, " ")}}}}}})
	}
	opens := threadlog.AppendOptions{Expect: map[mesh.Scope]mesh.Seq{mesh.ThreadScope: 0, mesh.Scope(turn): 0, mesh.Scope(leg): 0}}
	for len(events) > 0 {
		n := min(len(events), 1000)
		if _, err := log.Append(t.Context(), key, events[:n], opens); err != nil {
			t.Fatal(err)
		}
		events, opens = events[n:], threadlog.AppendOptions{}
	}
	info, _, err := log.Info(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	long := thread.Long{Turn: turn, From: 1, To: info.Last}
	task := func(k *digest.Keeper) *a2apb.Task {
		s := thread.NewSnapshot(id, turn)
		if at, err := k.Read(t.Context(), key, long, 0, func(e *mesh.Event) bool { s.Apply(e); return true }); err != nil || at != long.To {
			t.Fatalf("read up to %d: %v", at, err)
		}
		out, _ := s.Task()
		return out
	}
	chunks := func() (n int) {
		if err := store.Chunks(t.Context(), key, string(turn), func(int64, int64) { n++ }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	counted := &counter{Log: log}
	loads := &loader{Store: store}
	keeper := digest.New(counted, loads, slog.New(slog.DiscardHandler))
	want := task(keeper)
	if n := chunks(); n != 3 || counted.events <= 3*digest.Every {
		t.Fatalf("%d chunks are kept of %d events", n, counted.events)
	}
	if counted.events, loads.n = 0, 0; !proto.Equal(want, task(keeper)) || counted.events > 200 || loads.n != 3 {
		t.Errorf("of what is kept %d events are read again, and %d chunks", counted.events, loads.n)
	}
	page, _, err := kv.List(context.WithoutCancel(t.Context()), state.Page{Kind: "thread.digest", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for name, harm := range map[string]func(){
		"whole": func() {},
		"the first is away": func() {
			_ = kv.Delete(t.Context(), state.Key{Kind: "thread.digest", Name: page[0].Name}, state.AnyVersion)
		},
		"the second is damaged": func() {
			_, _ = kv.Put(t.Context(), state.Key{Kind: "thread.digest", Name: page[1].Name}, []byte("damaged"), state.AnyVersion)
		},
		"the last is of another log": func() {
			from := int64(2*digest.Every + 1)
			other := append([]byte{1, 2}, make([]byte, 2)...) // at position 1, of nobody, without events
			if err := store.SaveChunk(t.Context(), key, string(turn), from, from+digest.Every-1, other); err != nil {
				t.Error(err)
			}
		},
	} {
		harm()
		for range 2 {
			if !proto.Equal(want, task(keeper)) {
				t.Errorf("%s: it is another task", name)
			}
		}
		if n := chunks(); n != 3 {
			t.Errorf("%s: %d chunks are kept after that", name, n)
		}
	}
	if err := log.Delete(t.Context(), key, info.LastPos); err != nil {
		t.Fatal(err)
	}
	if err := store.Forget(t.Context(), []mesh.ThreadKey{key}); err != nil {
		t.Fatal(err)
	}
	if keeper.Keep(t.Context(), key, []thread.Long{long}); chunks() != 0 {
		t.Error("something is kept of a deleted thread")
	}
}

// Of a thread that is deleted while a chunk of it is saved nothing is kept, also where its id has
// begun anew by then.
func TestNothingIsKeptOfAThreadThatBeganAnew(t *testing.T) {
	for _, anew := range []bool{false, true} {
		store, log := checkpoint.New(state.New(mem.Open())), threadlog.New(mem.Open())
		id := mesh.NewThreadID()
		key := mesh.ThreadKey{Tenant: "acme", ID: id}
		turn := mesh.NewExecutionID(id)
		add := func(opens bool, n int) {
			events := make([]*mesh.Event, 0, n+1)
			var o threadlog.AppendOptions
			if opens {
				o.Expect = map[mesh.Scope]mesh.Seq{mesh.ThreadScope: 0, mesh.Scope(turn): 0}
				events = append(events, &mesh.Event{Execution: turn, Actor: "node", Body: mesh.TaskOpened{Execution: mesh.Execution{ID: turn, Kind: mesh.KindTurn, Agent: "a", User: "ann"}}})
			}
			for range n {
				events = append(events, &mesh.Event{Execution: turn, Actor: "node", Body: mesh.ModelReplied{Model: "m"}})
			}
			if _, err := log.Append(t.Context(), key, events, o); err != nil {
				t.Fatal(err)
			}
		}
		add(true, 96)
		for range 4 {
			add(false, 1000)
		}
		info, _, err := log.Info(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		values := &loader{Store: store, saves: func() {
			if err := log.Delete(t.Context(), key, info.LastPos); err != nil {
				t.Fatal(err)
			}
			if err := store.Forget(t.Context(), []mesh.ThreadKey{key}); err != nil {
				t.Fatal(err)
			}
			if anew {
				add(true, 0)
			}
		}}
		digest.New(log, values, slog.New(slog.DiscardHandler)).Keep(t.Context(), key, []thread.Long{{Turn: turn, From: 1, To: info.Last}})
		if err := store.Chunks(t.Context(), key, string(turn), func(from, to int64) { t.Errorf("anew %v: the events %d to %d are kept", anew, from, to) }); err != nil || values.saves != nil {
			t.Errorf("anew %v: %v", anew, err)
		}
	}
}
