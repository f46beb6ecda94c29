package rpc

import (
	"context"
	"log/slog"

	"agentmesh/mesh"
)

// LogHandler returns a handler that adds the tenant, the thread and the
// execution of the call in a record's context, as far as there are any, and
// passes the record to h. It returns h itself if it already does that. The
// attributes belong to the innermost open group.
func LogHandler(h slog.Handler) slog.Handler {
	if _, ok := h.(logHandler); ok {
		return h
	}
	return logHandler{h}
}

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if c, ok := mesh.CallFrom(ctx); ok {
		r = r.Clone()
		add := func(key, value string) {
			if value != "" {
				r.AddAttrs(slog.String(key, value))
			}
		}
		add("tenant", string(c.Principal.Tenant))
		add("thread", c.Thread)
		add("execution", string(c.Execution))
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name)}
}
