package openai_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm/openai"
	"agentmesh/mesh/rpc/rpctest"
)

// Failures inside of a stream are typed errors, after the text that came.
func TestGenerate_failuresInTheStream(t *testing.T) {
	tests := map[string]struct {
		reply  func(s stream)
		code   mesh.Code
		detail string
	}{
		"ended without finish reason": {func(s stream) { s.text("half") }, mesh.Unavailable, "The model's stream was cut off"},
		"[DONE] without finish reason": {func(s stream) {
			s.text("half")
			s.raw("data: [DONE]\n\n")
		}, mesh.Unavailable, "The model's stream was cut off"},
		"connection cut": {func(s stream) {
			s.text("half")
			s.cut()
		}, mesh.Unavailable, "The model's stream was cut off"},
		"an error event": {func(s stream) {
			s.raw(": PROCESSING\n\n")
			s.text("half")
			s.raw(`data: {"error":{"message":"overloaded","code":503}}` + "\n\n")
		}, mesh.Unavailable, "The model's endpoint failed (HTTP 503); try again: overloaded"},
		"a rate limit event": {func(s stream) {
			s.text("half")
			s.raw(`data: {"error":{"message":"slow down","type":"rate_limit_error"}}` + "\n\n")
		}, mesh.Exhausted, "or check the account: slow down"},
		"an error beside choices": {func(s stream) {
			s.text("half")
			s.raw(`data: {"id":"1","error":{"message":"upstream","code":502},"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}` + "\n\n")
		}, mesh.Unavailable, "The model's endpoint failed (HTTP 502); try again: upstream"},
		"an error in a choice": {func(s stream) {
			s.text("half")
			s.raw(`data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":524,"message":"took too long"}}]}` + "\n\n")
		}, mesh.Unavailable, "HTTP 524); try again: took too long"},
		"an error that is a text": {func(s stream) {
			s.text("half")
			s.raw("data: {\"error\":\"out of memory\"}\n\n")
		}, mesh.Unavailable, "try again: out of memory"},
		"an error without a message": {func(s stream) {
			s.text("half")
			s.raw("data: {\"error\":{\"code\":\"504\"}}\n\n")
		}, mesh.Unavailable, "HTTP 504"},
		"an error with what the provider behind it said": {func(s stream) {
			s.text("half")
			s.raw(`data: {"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"{\"detail\":\"no GPU\"}","provider_name":"X"}}}` + "\n\n")
		}, mesh.Unavailable, `Provider returned error: {"detail":"no GPU"}`},
		"finish reason error": {func(s stream) {
			s.text("half")
			s.event(`{}`, "error")
		}, mesh.Unavailable, "failed while it was answering"},
		"not the protocol": {func(s stream) {
			s.text("half")
			s.raw("data: <html>\n\n")
		}, mesh.Unavailable, "not the OpenAI protocol"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			texts, calls, done, err := generate(t.Context(), serve(t, tt.reply), hello())
			if mesh.CodeOf(err) != tt.code || !strings.Contains(mesh.DetailOf(err), tt.detail) {
				t.Errorf("error %v, want %v with %q", err, tt.code, tt.detail)
			}
			if done != nil || len(calls) > 0 || strings.Join(texts, "") != "half" {
				t.Errorf("texts %q, calls %v, done %v", texts, calls, done)
			}
		})
	}
}

// Statuses say what to check, and no detail contains the key.
func TestGenerate_statuses(t *testing.T) {
	tests := map[int]struct {
		code   mesh.Code
		detail string
	}{
		400: {mesh.Invalid, "refused the request: context too long"},
		401: {mesh.Unauthenticated, "check the key (MESH_LLM_KEY)"},
		402: {mesh.Exhausted, "quota"},
		403: {mesh.Denied, "MESH_LLM_KEY"},
		404: {mesh.NotFound, `no model "big"; check MESH_LLM_MODEL`},
		408: {mesh.Timeout, "too long"},
		422: {mesh.Invalid, "refused the request"},
		429: {mesh.Exhausted, "rate limit"},
		500: {mesh.Unavailable, "HTTP 500"},
		503: {mesh.Unavailable, "HTTP 503"},
	}
	for status, tt := range tests {
		for _, body := range []string{`{"error":{"message":"context too long","type":"x","code":null}}`, "<html>Bad " + key + "</html>", ""} {
			c := serveConfig(t, openai.Config{Key: key, Model: "big", MaxRetries: -1}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			})
			_, _, _, err := generate(t.Context(), c, hello())
			detail := tt.detail
			if !strings.HasPrefix(body, "{") {
				detail, _, _ = strings.Cut(detail, ":")
			}
			if mesh.CodeOf(err) != tt.code || !strings.Contains(mesh.DetailOf(err), detail) {
				t.Errorf("%d %q: %v", status, body, err)
			}
			if strings.Contains(fmt.Sprint(err), key) {
				t.Errorf("%d: the key is in %v", status, err)
			}
		}
	}
}

func TestGenerate_refusedConnection(t *testing.T) {
	addr := rpctest.Free(t)
	c, err := openai.New(openai.Config{BaseURL: "http://" + addr + "/v1", Model: "big", MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := generate(t.Context(), c, hello()); mesh.CodeOf(err) != mesh.Unavailable || !strings.Contains(mesh.DetailOf(err), "MESH_LLM_URL") {
		t.Errorf("error %v", err)
	}
}

// A slow stream ends when its reader gives up, by cancel or by breaking the
// loop, and the server notices.
func TestGenerate_cancelReachesTheServer(t *testing.T) {
	for _, how := range []string{"cancel", "break"} {
		t.Run(how, func(t *testing.T) {
			gone := make(chan struct{})
			c := serve(t, func(s stream) {
				s.text("one")
				<-s.r.Context().Done()
				close(gone)
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var last error
			for _, err := range c.Generate(ctx, hello()) {
				if last = err; how == "break" {
					break
				}
				cancel()
			}
			if how == "cancel" && mesh.CodeOf(last) != mesh.Canceled {
				t.Errorf("ended with %v", last)
			}
			select {
			case <-gone:
			case <-time.After(time.Minute):
				t.Error("the server was not told")
			}
		})
	}
}

// A server that says nothing, or that never ends, is given up on; one that
// only sends keep-alives is alive.
func TestGenerate_timeouts(t *testing.T) {
	tests := map[string]struct {
		config openai.Config
		reply  func(s stream)
		want   mesh.Code
	}{
		"nothing at all": {openai.Config{IdleTimeout: 20 * time.Millisecond}, func(s stream) { <-s.r.Context().Done() }, mesh.Timeout},
		"nothing more": {openai.Config{IdleTimeout: 20 * time.Millisecond}, func(s stream) {
			s.text("half")
			<-s.r.Context().Done()
		}, mesh.Timeout},
		"too long in all": {openai.Config{Timeout: 50 * time.Millisecond}, func(s stream) {
			for s.r.Context().Err() == nil {
				s.text("more")
			}
		}, mesh.Timeout},
		"alive by comments": {openai.Config{IdleTimeout: 500 * time.Millisecond}, func(s stream) {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for range 40 {
				<-tick.C
				s.raw(": still here\n\n")
			}
			s.event(`{"content":"hi"}`, "stop")
		}, mesh.Unknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.config.Model = "big"
			c := serveConfig(t, tt.config, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.Copy(io.Discard, r.Body) // net/http watches for a client that leaves from here on
				tt.reply(stream{w, r})
			})
			_, _, _, err := generate(t.Context(), c, hello())
			if tt.want == mesh.Unknown && err != nil || tt.want != mesh.Unknown && mesh.CodeOf(err) != tt.want {
				t.Errorf("ended with %v, want %v", err, tt.want)
			}
		})
	}
}

func TestNew_refusesABadConfig(t *testing.T) {
	const local = "http://localhost:1/v1"
	hot, nan := 2.5, math.NaN()
	tests := []struct {
		name   string
		config openai.Config
	}{
		{"llm.url", openai.Config{Model: "m", BaseURL: "api.openai.com"}},
		{"llm.model", openai.Config{BaseURL: "https://api.openai.com/v1"}},
		{"llm.timeout", openai.Config{Model: "m", BaseURL: local, Timeout: -1}},
		{"llm.api", openai.Config{Model: "m", BaseURL: local, API: "soap"}},
		{"llm.cache", openai.Config{Model: "m", BaseURL: local, Cache: "disk"}},
		{"llm.temperature", openai.Config{Model: "m", BaseURL: local, Temperature: &hot}},
		{"llm.temperature", openai.Config{Model: "m", BaseURL: local, Temperature: &nan}},
		{"llm.extra", openai.Config{Model: "m", BaseURL: local, Extra: map[string]any{"messages": nil}}},
		{"llm.extra", openai.Config{Model: "m", BaseURL: local, Extra: map[string]any{"x": make(chan int)}}},
	}
	for _, tt := range tests {
		name, c := tt.name, tt.config
		_, err := openai.New(c)
		var e *mesh.Error
		if !errors.As(err, &e) || e.Code != mesh.Invalid || e.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// finding T12: what a provider says of a failure, of accounts and addresses, is for the
// operator; users who are not the operator are told what it means.
func TestAProvidersWordsAreForTheOperator(t *testing.T) {
	const words = "organization org-17 at gpu7.internal:8443 has no quota"
	for status := range map[int]bool{400: true, 401: true, 403: true, 404: true, 408: true, 422: true, 429: true, 500: true, 503: true} {
		var log bytes.Buffer
		c := serveConfig(t, openai.Config{Key: key, Model: "big", MaxRetries: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"error":{"message":"`+words+" "+key+`"}}`)
		})
		_, _, _, err := generate(t.Context(), c, hello())
		if detail := mesh.DetailOf(err); detail == "" || strings.Contains(detail, "org-17") || strings.Contains(detail, "gpu7") {
			t.Errorf("%d: a user is told %q", status, detail)
		}
		if !strings.Contains(log.String(), words) || strings.Contains(log.String(), key) {
			t.Errorf("%d: the log has %s", status, &log)
		}
	}
}
