package edge_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

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

// longOutput logs so many pieces of output of the task, between which other things happen that
// its user is not shown.
func (w *world) longOutput(acc string, pieces int) {
	w.t.Helper()
	leg := w.fold().Turn(mesh.ExecutionID(acc)).Leg().Execution
	for done := 0; done < pieces; {
		var batch []*mesh.Event
		for ; done < pieces && len(batch) < 1000; done++ {
			var body mesh.Body = mesh.ArtifactAppended{Append: true, Artifact: &a2apb.Artifact{ArtifactId: "long",
				Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: strings.Repeat("x", 20)}}}}}
			if done%50 == 49 {
				body = mesh.ModelReplied{Model: "m"}
			}
			batch = append(batch, &mesh.Event{Execution: leg, Actor: "agent:main", Body: body})
		}
		if _, err := w.log.Append(w.t.Context(), w.key(), batch, threadlog.AppendOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// A task with 100,000 events that is not kept in short is read as a whole once. From then on it is read,
// followed and canceled with so few readings of the store as its answer has pages, of which none is of
// its middle; and the answer is that of all events.
func TestALongTaskIsReadInShort(t *testing.T) {
	lib := &library{Backend: mem.Open()}
	kv := &counted{Store: mem.Open()}
	var digests *digest.Keeper
	w := rebuild(t, lib, "node-1", func(s *settings) { // the log is there when it is used
		s.edge.Digests = later{&digests}
	})
	digests = digest.New(w.log, checkpoint.New(state.New(kv)), slog.New(slog.DiscardHandler))
	w.agent("main", func(s *scene) {
		s.say("working. ")
		s.until(nil)
		s.move(canceled, "")
	})
	acc := w.send("go")
	w.until(acc, func(h *heard) bool { return h.text != "" })
	w.longOutput(acc.Task.Id, 100_000)
	var reads, middle atomic.Int64
	lib.watch(func(after mesh.Seq) {
		if reads.Add(1); after > 2*digest.Every && after < 100_000-2*digest.Every {
			middle.Add(1)
		}
	})
	first := w.snapshot(acc.Task.Id)
	if middle.Swap(0) < 80_000/1000 {
		t.Error("the task was in short before it was read")
	}
	reads.Store(0)
	kv.reads.Store(0)
	within := func(what string, most int64) {
		t.Helper()
		if n, in, k := reads.Swap(0), middle.Swap(0), kv.reads.Swap(0); n > most || in > 0 || k > 3*most {
			t.Errorf("%s reads the log %d times, %d of them in its middle, and the values %d times; most is %d", what, n, in, k, most)
		}
	}
	again := w.snapshot(acc.Task.Id)
	if !proto.Equal(first, again) || len(again.Artifacts) != 2 || len(again.Artifacts[1].Parts[0].GetText()) != 20*98_000 {
		t.Errorf("it is another task, with %d artifacts", len(again.Artifacts))
	}
	within("GetTask", 32)
	little := w.call(func(c *mesh.Call) { c.Room = mesh.MaxWire / 8 })
	part, _, err := w.Task(little, acc.Task.Id)
	if size := proto.Size(part); err != nil || size > mesh.MaxWire/4 || part.Metadata.GetFields()[mesh.KeyTruncated] == nil {
		t.Errorf("who takes less gets %d bytes, marked %v: %v", size, part.GetMetadata(), err)
	}
	within("GetTask for who takes less", 32)
	_, from, err := w.Bare(w.ctx(w.thread), acc.Task.Id)
	if err != nil {
		t.Error(err)
	}
	within("the task of SubscribeToTask", 32)
	ended := make(chan error, 1)
	go func() {
		var last error
		for _, err := range w.Updates(w.ctx(w.thread), acc.Task.Id, from) {
			last = err
		}
		ended <- last
	}()
	w.mustCancel(acc.Task.Id)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	within("CancelTask, with who follows and who works", 64)
	over := w.snapshot(acc.Task.Id)
	within("GetTask of what has ended", 32)
	if over.GetStatus().GetState() != canceled || !proto.Equal(over.Artifacts[1], first.Artifacts[1]) {
		t.Errorf("canceled, it is %v", over.GetStatus())
	}
}

// later are the digests of a log that is made with the edge.
type later struct{ of **digest.Keeper }

func (l later) Read(ctx context.Context, key mesh.ThreadKey, t thread.Long, after mesh.Seq, yield func(*mesh.Event) bool) (mesh.Seq, error) {
	return (*l.of).Read(ctx, key, t, after, yield)
}

// counted are values of which each reading counts.
type counted struct {
	*mem.Store
	reads atomic.Int64
}

func (c *counted) GetState(ctx context.Context, key state.Key) (state.Value, error) {
	c.reads.Add(1)
	return c.Store.GetState(ctx, key)
}

func (c *counted) ListState(ctx context.Context, p state.Page) ([]state.Item, bool, error) {
	c.reads.Add(1)
	return c.Store.ListState(ctx, p)
}
