package main

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// An ancient is an agent that serves v0.3 alone, and says on its card that it is v1.0.
type ancient struct{}

func (ancient) Execute(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		_ = yield(a2a.NewSubmittedTask(ec, ec.Message), nil) && yield(a2a.NewArtifactEvent(ec, a2a.NewTextPart("of old")), nil) &&
			yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
	}
}

func (ancient) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}

// An agent whose card has the wrong version answers as soon as a setting says the right one.
func TestASettingSaysTheVersionOfARegisteredAgent(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	defer web.Close()
	mux.Handle("POST /", a2av0.NewJSONRPCHandler(a2asrv.NewHandler(ancient{})))
	mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"name": "Ancient", "description": "Is old.", "version": "1.0.0", "capabilities": {"streaming": true},
			"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
			"skills": [{"id": "say", "name": "Say", "description": "Says.", "tags": ["say"]}],
			"supportedInterfaces": [{"url": %q, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]}`, web.URL)
	})
	dir := t.TempDir()
	m := up(t, dir, "--main", "ancient")
	m.mesh("agents", "add", web.URL, "--name", "ancient").succeeds(t)
	m.mesh("send", "hello").want(t, exitFailure, "")
	m.stop()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), `agents: {ancient: {protocol_version: "0.3", silence: 10m}}`)
	m = up(t, dir, "--main", "ancient")
	m.mesh("send", "hello").want(t, exitOK, "of old")
}
