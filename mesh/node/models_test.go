package node

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/alarm"
	"agentmesh/mesh/internal/logbuffer"
	"agentmesh/mesh/llm/openai"
)

// An answer is a transport that answers to all requests for the same.
type answer func(r *http.Request) (status int, body string)

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := a(r)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// works answers as an endpoint does whose model calls the tool that it is to call.
func works(r *http.Request) (int, string) {
	if r.Method == http.MethodGet {
		return http.StatusOK, `{"data":[{"id":"big"}]}`
	}
	return http.StatusOK, `data: {"choices":[{"index":0,"delta":{"content":"OK","tool_calls":[{"index":0,"id":"1","function":{"name":"report_ok","arguments":"{}"}}]},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
}

// finding U3: an endpoint that does not work is an alarm, which ends by itself, and of one
// that works nothing is heard, nor is it asked again. Both are probed at the same time.
func TestAnAlarmOfAModelEndsWhenItsEndpointWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logbuffer.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		n := &node{logger: logger, alarms: alarm.New(logger, nil)}
		var asked, good atomic.Int32
		var mended atomic.Bool
		bad := answer(func(r *http.Request) (int, string) {
			if asked.Add(1); !mended.Load() {
				return http.StatusUnauthorized, ""
			}
			return works(r)
		})
		counted := answer(func(r *http.Request) (int, string) {
			good.Add(1)
			return works(r)
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		endpoint := func(setting, of string, over answer) ModelEndpoint {
			return ModelEndpoint{setting, of, openai.Config{BaseURL: "http://127.0.0.1:1/v1", Key: "sesame", Model: "big", Transport: over, Settings: openai.Settings{Key: "model.key"}}}
		}
		go func() { // the test waits
			ended <- n.watchModels(ctx, []ModelEndpoint{endpoint("model", "", bad), endpoint("models", "other", counted)})
		}()
		synctest.Wait()
		all := n.alarms.List()
		if len(all) != 1 || all[0].Source != (alarm.Source{Setting: "model"}) || !strings.Contains(all[0].Detail, "refuses the key (401): set model.key") {
			t.Errorf("the alarms are %+v", all)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if times := asked.Load(); times < 12 || times > 20 || len(n.alarms.List()) != 1 {
			t.Errorf("in an hour it was asked %d times", times)
		}
		mended.Store(true)
		time.Sleep(lastProbeAgain)
		if err := <-ended; err != nil || len(n.alarms.List()) != 0 || good.Load() != 3 {
			t.Errorf("%v, alarms %+v, the one that works was asked %d times", err, n.alarms.List(), good.Load())
		}
		stop()
		if text := log.String(); strings.Contains(text, "sesame") || strings.Count(text, "an alarm was raised") != 1 || strings.Count(text, "an alarm is over") != 1 {
			t.Errorf("the log is %s", text)
		}

		mended.Store(false)
		ctx, stop = context.WithCancel(t.Context())
		go func() { ended <- n.watchModels(ctx, []ModelEndpoint{endpoint("model", "", bad)}) }() // the test waits
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAllEndpointsOfModelsAreProbedOnce(t *testing.T) {
	t.Parallel()
	c := Config{
		Model:  Model{URL: "http://a/v1", Name: "m", Fallbacks: []Endpoint{{URL: "http://b/v1", Name: "m"}, {URL: "http://a/v1", Name: "m"}}},
		Models: map[string]Model{"fast": {URL: "http://c/v1", Name: "f", Fallbacks: []Endpoint{{URL: "http://d/v1", Name: "g"}}}, "cheap": {URL: "http://b/v1", Name: "m"}, "none": {}},
	}
	var got []string
	for _, e := range c.Endpoints() {
		got = append(got, fmt.Sprint(e, " ", e.Client.BaseURL, " ", e.Client.Settings.Key))
	}
	want := []string{"model http://a/v1 model.key (MESH_LLM_KEY)", "model fallbacks[0] http://b/v1 model.fallbacks[0].key",
		"models fast http://c/v1 models.fast.key", "models fast.fallbacks[0] http://d/v1 models.fast.fallbacks[0].key"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
