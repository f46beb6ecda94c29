package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"agentmesh/mesh"
)

// deliver tells what there is to tell, once or after a few attempts. What
// cannot be delivered is logged, and forgotten so that it may be told again.
func (n *Notifier) deliver(ctx context.Context, d *delivery) {
	if d.rule.URL == "" {
		level := slog.LevelInfo
		if d.note.Status != "ok" {
			level = slog.LevelWarn
		}
		n.logger.Log(ctx, level, "a skill was called", "rule", d.note.Rule, "skill", d.note.Skill, "status", d.note.Status,
			"content", d.note.Content, "tenant", d.note.Tenant, "user", d.note.User, "thread", d.note.Thread)
		return
	}
	body, err := json.Marshal(d.note)
	if err == nil {
		err = n.attempts(ctx, d, body)
	}
	if err == nil {
		return
	}
	n.mu.Lock()
	n.told.forget(d.about)
	n.mu.Unlock()
	n.logger.WarnContext(ctx, "a notification could not be delivered", "rule", d.note.Rule, "skill", d.note.Skill, "tenant", d.note.Tenant, "err", err)
}

// attempts posts the body until the webhook takes it or there is no use.
func (n *Notifier) attempts(ctx context.Context, d *delivery, body []byte) error {
	pause := n.options.Backoff
	for i := 1; ; i++ {
		err := n.post(ctx, d, body)
		if err == nil || i == n.options.Attempts || !retryable(err) {
			return err
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// post makes one request. Its errors do not hold the URL, which may be a
// secret.
func (n *Notifier) post(ctx context.Context, d *delivery, body []byte) error {
	const op = "notify.post"
	ctx, cancel := context.WithTimeout(ctx, n.options.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.rule.URL, bytes.NewReader(body))
	if err != nil {
		return mesh.Errorf(mesh.Invalid, op, "the URL cannot be used")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "agentmesh")
	req.Header.Set("Idempotency-Key", d.note.ID)
	res, err := n.client.Do(req)
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err
		}
		return mesh.Errorf(mesh.Unavailable, op, "the webhook cannot be reached: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // nothing of it is used
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10)
	answer := fmt.Sprintf("the webhook answered %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	switch code := res.StatusCode; {
	case code >= 200 && code <= 299:
		return nil
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return mesh.Errorf(mesh.Unavailable, op, "%s", answer)
	}
	return mesh.Errorf(mesh.Precondition, op, "%s", answer)
}

func retryable(err error) bool { return mesh.IsCode(err, mesh.Unavailable) }
