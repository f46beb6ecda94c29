package mcp

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/url"
	"strings"
)

// minHidden is the shortest value of a variable or header that is hidden: a shorter one
// cannot be told from other text.
const minHidden = 8

// hidden takes the values of the server's variables and headers out of what it says of
// itself: they may be secrets, and servers repeat them where one is refused.
func (s Server) hidden() *strings.Replacer {
	var pairs []string
	hide := func(name, value string) {
		if len(value) < minHidden {
			return
		}
		for _, form := range []string{value, url.QueryEscape(value), base64.StdEncoding.EncodeToString([]byte(value))} {
			pairs = append(pairs, form, "["+name+"]")
		}
	}
	for name, value := range s.Env {
		hide(name, value)
	}
	for name, value := range s.Headers {
		hide(name, value)
		if _, credentials, ok := strings.Cut(value, " "); ok { // behind a scheme, as Bearer
			hide(name, credentials)
		}
	}
	if u, err := url.Parse(s.URL); err == nil {
		for name, values := range u.Query() {
			for _, value := range values {
				hide(name, value)
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

// discreet is a handler of logs that hides in texts and errors.
type discreet struct {
	slog.Handler
	hide *strings.Replacer
}

// Handle implements [slog.Handler].
func (d discreet) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(err.Error())
		}
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(d.hide.Replace(a.Value.String()))
		}
		clean.AddAttrs(a)
		return true
	})
	return d.Handler.Handle(ctx, clean)
}

// WithAttrs implements [slog.Handler].
func (d discreet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return discreet{d.Handler.WithAttrs(attrs), d.hide}
}

// WithGroup implements [slog.Handler].
func (d discreet) WithGroup(name string) slog.Handler {
	return discreet{d.Handler.WithGroup(name), d.hide}
}
