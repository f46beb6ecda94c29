package call_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
)

// A line is a client of an agent that says what is put on it, until it is closed or
// the caller leaves.
type line struct {
	call.Client
	says     chan *a2apb.StreamResponse
	left     bool // the reader has gone
	canceled []string
	deaf     bool // does not answer when it is to cancel
}

func (l *line) SendStreamingMessage(ctx context.Context, _ *a2apb.SendMessageRequest) iter.Seq2[call.Response, error] {
	return func(yield func(call.Response, error) bool) {
		defer func() {
			time.Sleep(time.Second) // whoever does not wait for the reader is gone by then
			l.left = true
		}()
		for {
			select {
			case r := <-l.says:
				if !yield(call.Response{StreamResponse: r}, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func (l *line) CancelTask(ctx context.Context, task string) error {
	l.canceled = append(l.canceled, task)
	if l.deaf {
		<-ctx.Done()
		return mesh.Wrap("line", ctx.Err())
	}
	return nil
}

// pages are a journal: what was logged together, one line each.
type pages struct {
	all  [][]string
	full error // of the next append
}

func (p *pages) Append(_ context.Context, events []*mesh.Event) error {
	if p.full != nil {
		return p.full
	}
	p.all = append(p.all, told(events))
	return nil
}

// told are the events, one line each.
func told(events []*mesh.Event) []string {
	var bodies []mesh.Body
	for _, e := range events {
		bodies = append(bodies, e.Body)
	}
	return lines(bodies)
}

// open relays an agent that has said so much already.
func open(t *testing.T, journal call.Journal, change func(*call.Request), said ...*a2apb.StreamResponse) (*call.Relay, *line) {
	t.Helper()
	l := &line{says: make(chan *a2apb.StreamResponse, len(said)+8)}
	for _, r := range said {
		l.says <- r
	}
	req := request()
	if change != nil {
		change(&req)
	}
	r := call.Open(t.Context(), l, req, journal, func(b mesh.Body) *mesh.Event { return &mesh.Event{Execution: "t", Body: b} })
	synctest.Wait() // until the reader is as far ahead as it may be
	return r, l
}

// first is what the agent said first.
func first(t *testing.T, r *call.Relay) mesh.Body {
	t.Helper()
	b, ok := <-r.Bodies()
	if !ok {
		t.Fatal("the agent says nothing")
	}
	return b
}

// finding C12: what comes together is committed together, in order, up to a number
// of updates and of bytes.
func TestWhatComesTogetherIsLoggedTogether(t *testing.T) {
	many := func(n, bytes int) (said []*a2apb.StreamResponse) {
		for i := range n {
			said = append(said, piece("t", fmt.Sprint(i), strings.Repeat("x", bytes), false))
		}
		return said
	}
	talk := func(n, bytes int) (said []*a2apb.StreamResponse) {
		for range n {
			said = append(said, status1("t", working, strings.Repeat("x", bytes)))
		}
		return said
	}
	for name, tt := range map[string]struct {
		said []*a2apb.StreamResponse
		want []int // how many are logged together
	}{
		"a few":             {many(7, 1), []int{7}},
		"more than a batch": {many(300, 1), []int{256, 44}},
		"large ones":        {many(10, mesh.MaxEvent/4), []int{4, 4, 2}},
		"large words":       {talk(10, mesh.MaxEvent/4), []int{4, 4, 2}},
		"the largest":       {many(3, mesh.MaxEvent-8<<10), []int{2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log pages
				r, _ := open(t, &log, nil, tt.said...)
				defer r.Close()
				for range tt.want {
					said, err := r.Log(t.Context(), first(t, r), nil)
					if err != nil || said.Last != nil {
						t.Fatalf("%+v, %v", said, err)
					}
					synctest.Wait()
				}
				var got []int
				var all []string
				for _, page := range log.all {
					got, all = append(got, len(page)), append(all, page...)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("batches (-want +got):\n%s", diff)
				}
				for i, l := range all {
					if tt.said[i].GetArtifactUpdate() != nil && !strings.HasPrefix(l, fmt.Sprintf("new %d ", i)) {
						t.Fatalf("update %d was logged as %.20s", i, l)
					}
				}
			})
		})
	}
}

// finding R5: an agent whose events are large is no further ahead of the log than some MiB: who
// does not come to logging reads no more, and goes on when it does.
func TestAnAgentIsAFewMiBAheadOfTheLogAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 64
		var said []*a2apb.StreamResponse
		for i := range all {
			said = append(said, piece("t", fmt.Sprint(i), strings.Repeat("x", mesh.MaxEvent/2), false))
		}
		var log pages
		r, l := open(t, &log, nil, said...)
		defer r.Close()
		for logged := 0; logged < all; {
			if ahead := all - len(l.says) - logged; ahead > 4*2+1 {
				t.Fatalf("it is %d events of half a MiB ahead", ahead)
			}
			one, err := r.Log(t.Context(), first(t, r), nil)
			if err != nil {
				t.Fatal(err)
			}
			logged += len(one.Events)
			synctest.Wait()
		}
	})
}

// The agent's last word, and what came just before it, are the caller's to log with
// what follows from it. One that waits for credentials may go on.
func TestTheLastWordOfABatchIsTheCallersToLog(t *testing.T) {
	for name, tt := range map[string]struct {
		end    *a2apb.StreamResponse
		logged [][]string
		rest   []string
		last   mesh.TaskState
	}{
		"completed":        {status1("t", completed, ""), nil, []string{`new a "one"`, "working beside", `append a "two"`}, completed},
		"asks":             {status1("t", asks, "Which?"), nil, []string{`new a "one"`, "working beside", `append a "two"`}, asks},
		"waits for a word": {status1("t", auth, "Log in"), [][]string{{`new a "one"`, "working beside", `append a "two"`, "auth_required Log in"}}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log pages
				r, _ := open(t, &log, nil, task("t", working), piece("t", "a", "one", false), piece("t", "a", "two", true), tt.end)
				defer r.Close()
				// A body may be dropped, changed, and followed by events.
				change := func(b mesh.Body) (mesh.Body, []*mesh.Event) {
					switch b := b.(type) {
					case mesh.TaskMoved:
						if b.State == working {
							return nil, nil
						}
					case mesh.ArtifactAppended:
						if !b.Append {
							return b, []*mesh.Event{{Body: mesh.TaskMoved{State: working, Reason: "beside"}}}
						}
					}
					return b, nil
				}
				said, err := r.Log(t.Context(), first(t, r), change)
				if err != nil || (said.Last != nil) != (tt.last != 0) || said.Last != nil && said.Last.State != tt.last {
					t.Fatalf("%+v, %v", said, err)
				}
				if diff := cmp.Diff(tt.logged, log.all); diff != "" {
					t.Errorf("logged (-want +got):\n%s", diff)
				}
				if tt.rest != nil {
					if diff := cmp.Diff(tt.rest, told(said.Events)); diff != "" {
						t.Errorf("left to log (-want +got):\n%s", diff)
					}
				}
			})
		})
	}
}

// A journal that fails is told, with what it did not take.
func TestWhatCannotBeLoggedIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := mesh.Errorf(mesh.Unavailable, "journal", "the disk is full")
		log := &pages{full: full}
		r, _ := open(t, log, nil, piece("t", "a", "one", false), piece("t", "a", "two", true))
		defer r.Close()
		said, err := r.Log(t.Context(), first(t, r), nil)
		if !errors.Is(err, full) || !mesh.IsCode(err, mesh.Unavailable) || len(said.Events) != 2 || said.Last != nil {
			t.Errorf("%+v, %v", said, err)
		}
	})
}

// An agent is asked to end the task by the id that it has for it, as soon as it has
// said so, and with the patience that the caller has.
func TestTheAgentIsStoppedByItsOwnTask(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*call.Request)
		said   *a2apb.StreamResponse
		want   string
	}{
		"ours":                      {nil, task("t", working), "t"},
		"its own":                   {nil, task("own", working), "own"},
		"its own of an earlier leg": {func(r *call.Request) { r.RemoteTask = "before" }, nil, "before"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said []*a2apb.StreamResponse
				if tt.said != nil {
					said = append(said, tt.said)
				}
				r, l := open(t, new(pages), tt.change, said...)
				defer r.Close()
				if tt.said != nil {
					if _, err := r.Log(t.Context(), first(t, r), nil); err != nil {
						t.Fatal(err)
					}
				}
				if err := r.Stop(t.Context(), time.Minute); err != nil || !slices.Equal(l.canceled, []string{tt.want}) {
					t.Errorf("asked to cancel %q, %v, want %q", l.canceled, err, tt.want)
				}
				l.deaf = true
				before := time.Now()
				if err := r.Stop(t.Context(), time.Minute); !mesh.IsCode(err, mesh.Timeout) || time.Since(before) != time.Minute {
					t.Errorf("an agent that does not answer: %v after %v", err, time.Since(before))
				}
				gone, cancel := context.WithCancel(t.Context())
				cancel()
				if err := r.Stop(gone, time.Minute); err != nil {
					t.Errorf("for a caller who left: %v", err)
				}
			})
		})
	}
}

// Close ends the call and waits for who reads it, however far that is.
func TestCloseWaitsForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ahead := range []int{0, 1, 300} {
			var said []*a2apb.StreamResponse
			for range ahead {
				said = append(said, status1("t", working, "x"))
			}
			r, l := open(t, new(pages), nil, said...)
			r.Close()
			if !l.left {
				t.Errorf("%d ahead: Close did not wait", ahead)
			}
			r.Close() // once more does nothing
		}
	})
}
