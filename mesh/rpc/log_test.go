package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/internal/logbuffer"
	"agentmesh/mesh/rpc"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
)

// S4-069: calls between agents are in the log, with tenant context, at a level
// that operators see; other calls are there for those who look closer.
func TestEveryCallIsInTheLog(t *testing.T) {
	a := &agent{get: func(context.Context) error { return nil },
		sub: func(grpc.ServerStream) error { return errors.New("disk on fire") }}
	var info, debug logbuffer.Buffer
	for log, level := range map[*logbuffer.Buffer]slog.Level{&info: slog.LevelInfo, &debug: slog.LevelDebug} {
		o := rpc.Options{Auth: authFunc(believe), Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))}
		c := dialed(t, serve(t, a, o), rpc.DialOptions{})
		user := mesh.Call{Principal: mesh.Principal{Tenant: "acme", User: "alice"}, Thread: thread}
		both(mesh.WithCall(t.Context(), user), c)
		user.GrantToken = "signed"
		both(mesh.WithCall(t.Context(), user), c)
	}
	ids := []string{"tenant=acme", "thread=" + thread, "user=alice", "duration="}
	tests := map[string]struct {
		log  *logbuffer.Buffer
		want []string
	}{
		"a user's call at debug":           {&debug, append(ids, "msg=call", "level=DEBUG", "GetTask", "code=ok")},
		"an agent's call at info":          {&info, append(ids, `msg="agent call"`, "level=INFO", "GetTask", "code=ok", "execution="+string(exec), `chain="main -> mail"`)},
		"our own failure at error":         {&info, append(ids, "msg=call", "level=ERROR", "SubscribeToTask", "code=unknown", "disk on fire")},
		"an agent's call that went astray": {&info, append(ids, `msg="agent call"`, "level=ERROR", "SubscribeToTask", "disk on fire", `chain="main -> mail"`)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for line := range strings.Lines(tt.log.String()) {
				if all(line, tt.want) {
					return
				}
			}
			t.Errorf("no line has all of %q:\n%s", tt.want, tt.log)
		})
	}
	if all(info.String(), []string{"level=DEBUG"}) || strings.Count(info.String(), "\n") != 3 {
		t.Errorf("want three lines at info:\n%s", &info)
	}
}

func all(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

func TestLogHandlerSaysWhoseRecordItIs(t *testing.T) {
	var log bytes.Buffer
	h := rpc.LogHandler(slog.NewTextHandler(&log, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	if rpc.LogHandler(h) != h {
		t.Error("a handler that does it already is wrapped again")
	}
	logger := slog.New(h)
	ctx := mesh.WithCall(t.Context(), mesh.Call{Principal: mesh.Principal{Tenant: "acme"}, Thread: thread, Execution: exec})
	logger.InfoContext(t.Context(), "nobody's")
	logger.InfoContext(ctx, "acme's", "n", 1)
	logger.With("a", 1).WithGroup("g").InfoContext(ctx, "grouped", "n", 1)
	ids := "tenant=acme thread=" + thread + " execution=" + string(exec)
	want := "level=INFO msg=nobody's\n" +
		"level=INFO msg=acme's n=1 " + ids + "\n" +
		"level=INFO msg=grouped a=1 g.n=1 g." + strings.ReplaceAll(ids, " ", " g.") + "\n"
	if diff := cmp.Diff(want, log.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
