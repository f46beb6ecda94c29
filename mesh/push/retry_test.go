package push_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"agentmesh/mesh/push"
)

// A wire is a transport without sockets that answers as its script says and
// notes when it was asked. After the script it answers 200.
type wire struct {
	begin  time.Time
	mu     sync.Mutex
	script []reply
	asked  []string // "SECONDS WORD"
}

type reply struct {
	status int // 0: hang until the request is given up
	header http.Header
	err    error
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	update := new(a2apb.StreamResponse)
	if err := protojson.Unmarshal(body, update); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.asked = append(w.asked, time.Since(w.begin).String()+" "+word(update))
	out := reply{status: http.StatusOK}
	if len(w.script) > 0 {
		out, w.script = w.script[0], w.script[1:]
	}
	w.mu.Unlock()
	if out.err != nil {
		return nil, out.err
	}
	if out.status == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: out.status, Header: out.header, Body: http.NoBody, Request: r}, nil
}

func (w *wire) was() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

func answers(status ...int) (out []reply) {
	for _, s := range status {
		out = append(out, reply{status: s})
	}
	return out
}

func retryAfter(status int, value string) reply {
	return reply{status: status, header: http.Header{"Retry-After": {value}}}
}

func TestFailedAttemptsAreRepeatedWithPausesThatGrow(t *testing.T) {
	for name, c := range map[string]struct {
		script []reply
		want   []string
	}{
		"500 three times": {answers(500, 503, 404), []string{"0s one", "500ms one", "1.5s one", "3.5s one", "3.5s two"}},
		"a connection that fails": {
			[]reply{{err: errors.New("connection refused")}}, []string{"0s one", "500ms one", "500ms two"}},
		"a webhook that hangs":     {answers(0), []string{"0s one", "15.5s one", "15.5s two"}},
		"Retry-After in seconds":   {[]reply{retryAfter(429, "60")}, []string{"0s one", "1m0s one", "1m0s two"}},
		"Retry-After as a date":    {[]reply{retryAfter(503, "Sat, 01 Jan 2000 00:02:00 GMT")}, []string{"0s one", "2m0s one", "2m0s two"}},
		"Retry-After without end":  {[]reply{retryAfter(503, "99999999")}, []string{"0s one", "1h0m0s one", "1h0m0s two"}},
		"Retry-After that is past": {[]reply{retryAfter(503, "0")}, []string{"0s one", "500ms one", "500ms two"}},
		"Retry-After of nonsense":  {[]reply{retryAfter(503, "soon")}, []string{"0s one", "500ms one", "500ms two"}},
		"a pause has an end": {answers(500, 500, 500, 500, 500, 500, 500, 500, 500),
			[]string{"0s one", "500ms one", "1.5s one", "3.5s one", "7.5s one", "15.5s one", "31.5s one", "1m1.5s one", "1m31.5s one", "2m1.5s one", "2m1.5s two"}},
		"each update has its own count": {answers(500, 500, 200, 500),
			[]string{"0s one", "500ms one", "1.5s one", "1.5s two", "2s two"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := memory(t)
				conf, tr := w.config(), &wire{begin: time.Now(), script: c.script}
				conf.Transport, conf.MaxBackoff = tr, time.Minute
				d, stop := w.dispatcher(conf)
				defer stop()
				task := w.open()
				task.set(d, "https://hook.test/")
				synctest.Wait()
				task.say("one", "two")
				time.Sleep(3 * time.Hour)
				if got := tr.was(); !slices.Equal(got, c.want) {
					t.Errorf("attempts at\n%q, want\n%q", got, c.want)
				}
			})
		})
	}
}

func TestJitterSpreadsPausesOverTheirSecondHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memory(t)
		conf, tr := w.config(), &wire{begin: time.Now(), script: answers(500)}
		conf.Transport, conf.Jitter = tr, func() float64 { return 0.5 }
		d, stop := w.dispatcher(conf)
		defer stop()
		task := w.open()
		task.set(d, "https://hook.test/")
		task.say("one")
		time.Sleep(time.Hour)
		if got, want := tr.was(), []string{"0s one", "750ms one"}; !slices.Equal(got, want) {
			t.Errorf("attempts at %q, want %q", got, want)
		}
	})
}

// A thread that moves on does not make a webhook that fails be asked sooner.
func TestPausesHoldWhileTheThreadMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memory(t)
		conf, tr := w.config(), &wire{begin: time.Now(), script: answers(0, 500, 500)}
		conf.Transport = tr
		d, stop := w.dispatcher(conf)
		defer stop()
		task := w.open()
		task.set(d, "https://hook.test/")
		task.say("one")
		time.Sleep(5 * time.Second) // the first attempt is under way
		task.say("two")
		time.Sleep(10*time.Second + 100*time.Millisecond) // the first pause
		task.say("three")
		time.Sleep(time.Hour)
		want := []string{"0s one", "15.5s one", "16.5s one", "18.5s one", "18.5s two", "18.5s three"}
		if got := tr.was(); !slices.Equal(got, want) {
			t.Errorf("attempts at %q, want %q", got, want)
		}
	})
}

func TestAConfigIsGivenUpAfterTooManyFailuresAndResumedWhenSetAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memory(t)
		conf, tr := w.config(), &wire{begin: time.Now(), script: answers(500, 500, 500)}
		conf.Transport, conf.Attempts = tr, 3
		d, stop := w.dispatcher(conf)
		task := w.open()
		c := task.set(d, "https://hook.test/")
		task.say("one")
		time.Sleep(600 * time.Millisecond)
		if got := task.delivery(d, c.GetId()); got.Failed || got.Attempts != 2 || got.LastFailure.IsZero() {
			t.Errorf("after two failures: %+v", got)
		}
		stop()
		stop = w.run(d) // failures are remembered, pauses are not
		task.say("two")
		time.Sleep(time.Hour)
		want := []string{"0s one", "500ms one", "600ms one"}
		if got := tr.was(); !slices.Equal(got, want) {
			t.Fatalf("attempts at %q, want %q", got, want)
		}
		got := task.delivery(d, c.GetId())
		if !got.Failed || got.Attempts != 3 || got.LastError != "the webhook answered 500 Internal Server Error" {
			t.Errorf("after three failures: %+v", got)
		}
		if !strings.Contains(w.logs.String(), "given up") {
			t.Errorf("the log does not say so: %s", w.logs)
		}
		stop()
		stop = w.run(d) // still given up
		defer stop()
		task.say("three")
		time.Sleep(time.Hour)
		task.set(d, "https://hook.test/", func(n *a2apb.TaskPushNotificationConfig) { n.Id = c.GetId() })
		synctest.Wait()
		want = append(want, "2h0m0.6s one", "2h0m0.6s two", "2h0m0.6s three")
		if got := tr.was(); !slices.Equal(got, want) {
			t.Errorf("attempts at %q, want %q", got, want)
		}
		if got := task.delivery(d, c.GetId()); got != (push.Delivery{}) {
			t.Errorf("after success: %+v", got)
		}
	})
}

func TestAWebhookThatIsGoneIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memory(t)
		conf, tr := w.config(), &wire{begin: time.Now(), script: answers(http.StatusGone)}
		conf.Transport = tr
		d, stop := w.dispatcher(conf)
		defer stop()
		task := w.open()
		c := task.set(d, "https://hook.test/")
		task.say("one", "two")
		time.Sleep(time.Hour)
		if got := tr.was(); len(got) != 1 || !task.delivery(d, c.GetId()).Failed {
			t.Errorf("it was asked at %q", got)
		}
	})
}

// A config that is set again is tried at once, however long the pause was.
func TestSettingAConfigAgainEndsItsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memory(t)
		conf, tr := w.config(), &wire{begin: time.Now(), script: []reply{retryAfter(503, "3600")}}
		conf.Transport = tr
		d, stop := w.dispatcher(conf)
		defer stop()
		task := w.open()
		c := task.set(d, "https://hook.test/")
		task.say("one")
		time.Sleep(time.Minute)
		task.set(d, "https://hook.test/other", func(n *a2apb.TaskPushNotificationConfig) { n.Id = c.GetId() })
		time.Sleep(2 * time.Hour)
		if got, want := tr.was(), []string{"0s one", "1m0s one"}; !slices.Equal(got, want) {
			t.Errorf("attempts at %q, want %q", got, want)
		}
	})
}

func TestRunRunsOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memory(t)
		d, stop := w.dispatcher(w.config())
		defer stop()
		synctest.Wait()
		if err := d.Run(context.Background()); err == nil {
			t.Error("it ran twice")
		}
	})
}
