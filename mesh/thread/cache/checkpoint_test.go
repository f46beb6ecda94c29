package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/thread/checkpoint"
	"agentmesh/mesh/threadlog"
)

// A shop is a backend of which a process can die: values are written until so many were.
type shop struct {
	*mem.Store
	mu   sync.Mutex
	room int // puts until it is dead; below 0 for ever
}

func (s *shop) PutState(ctx context.Context, key state.Key, data []byte, version int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.room == 0 {
		return 0, mesh.Errorf(mesh.Unavailable, "shop", "the process is dead")
	}
	s.room--
	return s.Store.PutState(ctx, key, data, version)
}

func (s *shop) has(room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = room
}

// A process has the backend's threads in memory, and saves them.
type process struct {
	*cache.States
	*tap
	kept *checkpoint.Store
	logs *bytes.Buffer
	stop func()
}

// begin begins a process that saves after so many events.
func (s *shop) begin(t testing.TB, most int, events int64) *process {
	t.Helper()
	p := &process{tap: &tap{Log: threadlog.New(s)}, kept: checkpoint.New(state.New(s)), logs: new(bytes.Buffer)}
	p.States = cache.New(p.tap, most, cache.WithCheckpoints(p.kept, slog.New(slog.NewTextHandler(p.logs, nil))))
	if events > 0 {
		p.SaveAfter(events)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.stop)
	return p
}

// image is the state of the thread, all of it.
func (p *process) image(t rapid.TB, k mesh.ThreadKey) (image []byte) {
	t.Helper()
	must(t, p.With(context.Background(), k, func(st *thread.State) (err error) {
		image, err = st.Checkpoint()
		return err
	}))
	return image
}

// folded is what the log says that the state is.
func (p *process) folded(t rapid.TB, k mesh.ThreadKey) []byte {
	t.Helper()
	events, err := p.Log.Read(context.Background(), k, 0, 1<<20)
	must(t, err)
	image, err := thread.Fold(events).Checkpoint()
	must(t, err)
	return image
}

// fill adds facts to a turn of the thread.
func (p *process) fill(t testing.TB, k mesh.ThreadKey, turn string, facts int) {
	t.Helper()
	for facts > 0 {
		n := min(facts, 500)
		events := make([]*mesh.Event, n)
		for i := range events {
			events[i] = reply(mesh.NewEventID(), turn)
		}
		must(t, add(context.Background(), p.States, k, events...))
		facts -= n
	}
}

// finding C6: a thread that is not in memory is read from where it was saved on, at the stop of
// the process before, when its state left memory, or now and then.
func TestAThreadIsReadFromWhereItWasSaved(t *testing.T) {
	for name, leave := range map[string]func(*process){
		"at the stop": func(p *process) { p.stop() },
		"when others need the room": func(p *process) {
			for i := range 10 {
				p.write(t, key(100+i), 0, open("t", ""))
				turns(t, p.States, key(100+i))
			}
		},
		"after many events": func(p *process) { p.fill(t, key(1), "t", 4096) },
	} {
		t.Run(name, func(t *testing.T) {
			s := &shop{Store: mem.Open(), room: -1}
			p := s.begin(t, 4, 0)
			must(t, add(t.Context(), p.States, key(1), open("t", "")))
			p.fill(t, key(1), "t", 2000)
			want := p.image(t, key(1))
			leave(p)
			for saved := []byte(nil); saved == nil; { // it is on its way
				var err error
				saved, err = p.kept.Load(t.Context(), key(1))
				must(t, err)
			}
			p.stop()
			next := s.begin(t, 0, 0)
			if got := next.image(t, key(1)); name == "at the stop" && !bytes.Equal(got, want) || !bytes.Equal(got, next.folded(t, key(1))) {
				t.Error("it is another state")
			}
			if n := next.read.Load(); n > 600 {
				t.Errorf("%d events were read", n)
			}
			if next.logs.Len() > 0 {
				t.Errorf("it says %s", next.logs)
			}
			must(t, add(t.Context(), next.States, key(1), open("after", "")))
			if !bytes.Equal(next.image(t, key(1)), next.folded(t, key(1))) {
				t.Error("it does not go on as it was")
			}
		})
	}
}

// A checkpoint that is damaged, of another log or of another fold is not gone on with: the
// thread is folded from its log, which says so.
func TestACheckpointThatCannotBeUsedIsToldAndDoesNoHarm(t *testing.T) {
	for name, spoil := range map[string]func(saved []byte) []byte{
		"cut":            func(b []byte) []byte { return b[:len(b)-1] },
		"empty":          func([]byte) []byte { return []byte{} },
		"changed":        func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"another format": func(b []byte) []byte { b[3] ^= 0x40; return b },
		"another place":  func(b []byte) []byte { b[1] ^= 2; return b },
		"no place":       func([]byte) []byte { return []byte{0x80} },
	} {
		t.Run(name, func(t *testing.T) {
			s := &shop{Store: mem.Open(), room: -1}
			p := s.begin(t, 0, 0)
			must(t, add(t.Context(), p.States, key(1), open("t", "")))
			p.fill(t, key(1), "t", 700)
			p.stop()
			saved, err := p.kept.Load(t.Context(), key(1))
			if err != nil || saved == nil {
				t.Fatalf("it was not saved: %v", err)
			}
			must(t, p.kept.Save(t.Context(), key(1), spoil(saved)))
			next := s.begin(t, 0, 0)
			if !bytes.Equal(next.image(t, key(1)), next.folded(t, key(1))) {
				t.Error("it is another state")
			}
			if !strings.Contains(next.logs.String(), key(1).ID) {
				t.Errorf("it says %q", next.logs)
			}
		})
	}
}

// Values that cannot be read are no reason to fold a thread of any length: who needs it is told.
func TestAThreadWhoseCheckpointCannotBeReadNowIsTriedAgain(t *testing.T) {
	s := &shop{Store: mem.Open(), room: -1}
	p := s.begin(t, 0, 0)
	must(t, add(t.Context(), p.States, key(1), open("t", "")))
	p.fill(t, key(1), "t", 700)
	p.stop()
	away := &awayFor{kept: p.kept, once: true}
	next := cache.New(p.tap, 0, cache.WithCheckpoints(away, slog.New(slog.DiscardHandler)))
	read := func() error { return next.With(t.Context(), key(1), func(*thread.State) error { return nil }) }
	if err := read(); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("it says %v", err)
	}
	must(t, read())
}

// awayFor fails once.
type awayFor struct {
	kept *checkpoint.Store
	once bool
}

func (a *awayFor) Save(ctx context.Context, k mesh.ThreadKey, b []byte) error {
	return a.kept.Save(ctx, k, b)
}
func (a *awayFor) Forget(ctx context.Context, keys []mesh.ThreadKey) error {
	return a.kept.Forget(ctx, keys)
}
func (a *awayFor) Load(ctx context.Context, k mesh.ThreadKey) ([]byte, error) {
	if a.once {
		a.once = false
		return nil, mesh.Errorf(mesh.Unavailable, "test", "the disk is away")
	}
	return a.kept.Load(ctx, k)
}

// What is saved of a thread while that is deleted does not stay.
func TestWhatIsSavedOfADeletedThreadGoes(t *testing.T) {
	s := &shop{Store: mem.Open(), room: -1}
	p := s.begin(t, 0, 1)
	for i := range 200 {
		must(t, add(t.Context(), p.States, key(i), open("t", "")))
		must(t, p.States.Delete(t.Context(), key(i), func(*thread.State) error { return nil }))
		must(t, p.kept.Forget(t.Context(), []mesh.ThreadKey{key(i)}))
	}
	p.stop()
	for k, err := range p.kept.Kept(t.Context()) {
		t.Errorf("something of %v is left, %v", k, err)
	}
}

// Whatever happens to threads, and to processes while they save them, a thread is what its log
// says.
func TestAThreadIsTheFoldOfItsLogWhateverWasSaved(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &shop{Store: mem.Open(), room: -1}
		p := s.begin(t, 2, 3)
		defer func() { p.stop() }()
		n := 0
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			k := key(rapid.IntRange(1, 4).Draw(rt, "thread"))
			n++
			switch rapid.IntRange(0, 11).Draw(rt, "step") {
			case 0: // the process ends, or is killed while it saves: after so many values
				if kill := rapid.IntRange(-1, 4).Draw(rt, "killed after"); kill >= 0 {
					s.has(kill)
				}
				p.stop()
				s.has(-1)
				p = s.begin(t, 2, 3)
			case 1:
				err := p.States.Delete(context.Background(), k, func(*thread.State) error { return nil })
				if err != nil && !mesh.IsCode(err, mesh.NotFound) {
					rt.Fatal(err)
				}
				if rapid.Bool().Draw(rt, "killed before it is forgotten") {
					continue
				}
				must(rt, p.kept.Forget(context.Background(), []mesh.ThreadKey{k}))
			case 2:
				if !bytes.Equal(p.image(rt, k), p.folded(rt, k)) {
					rt.Fatalf("%v is another state; it says %s", k, p.logs)
				}
			default:
				must(rt, add(context.Background(), p.States, k, open(fmt.Sprint("t", n), "words"), reply(fmt.Sprint("r", n), fmt.Sprint("t", n))))
			}
		}
		p.stop()
		p = s.begin(t, 0, 3)
		for i := range 5 {
			if !bytes.Equal(p.image(rt, key(i)), p.folded(rt, key(i))) {
				rt.Fatalf("%v is another state; it says %s", key(i), p.logs)
			}
		}
	})
}

// A checkpoint of any size is what it was, or is not there; more than is kept is refused.
func TestCheckpointsOfAnySize(t *testing.T) {
	kept := checkpoint.New(state.New(mem.Open()))
	noise := make([]byte, 20<<20)
	seed := uint64(1)
	for i := range noise {
		seed = seed*6364136223846793005 + 1442695040888963407
		noise[i] = byte(seed >> 56)
	}
	for _, size := range []int{0, 1, state.MaxData - 100, state.MaxData, 3 * state.MaxData, 5, 10 << 20} {
		must(t, kept.Save(t.Context(), key(1), noise[:size]))
		got, err := kept.Load(t.Context(), key(1))
		if err != nil || !bytes.Equal(got, noise[:size]) {
			t.Errorf("of %d bytes %d are there, %v", size, len(got), err)
		}
	}
	if err := kept.Save(t.Context(), key(2), noise); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("too large: %v", err)
	}
	must(t, kept.Forget(t.Context(), []mesh.ThreadKey{key(1), key(2)}))
	if got, err := kept.Load(t.Context(), key(1)); got != nil || err != nil {
		t.Errorf("forgotten, %d bytes are there, %v", len(got), err)
	}
	for k, err := range kept.Kept(t.Context()) {
		t.Errorf("something of %v is left, %v", k, err)
	}
	if _, err := checkpoint.New(state.New(&shop{Store: mem.Open()})).Load(t.Context(), key(3)); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
