package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"agentmesh/mesh"
)

const op = "openai.Generate"

// protocolError is a response or an event that is not what the protocol says.
type protocolError struct{ err error }

func (e *protocolError) Error() string { return "not the protocol: " + e.err.Error() }
func (e *protocolError) Unwrap() error { return e.err }

// lostError is a connection that could not be made or broke off.
type lostError struct{ err error }

func (e *lostError) Error() string { return "connection: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// refusedError is a request that the library did not send.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return "request: " + e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// apiError is what the endpoint says went wrong, by status or inside a stream.
type apiError struct {
	status int           // of HTTP, or the one that comes nearest
	text   string        // in the provider's words, which nobody has checked
	quota  bool          // there is no more until somebody pays
	after  time.Duration // how long to wait, if it said so
}

func (e *apiError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("HTTP %d: %s", e.status, e.text), ": ")
}

// UnmarshalJSON reads the errors of OpenAI, of OpenRouter with what the provider
// behind it said, and of servers that only give a text.
func (e *apiError) UnmarshalJSON(data []byte) error {
	var o struct {
		Message, Type, Code, Status any
		Metadata                    json.RawMessage
	}
	if json.Unmarshal(data, &o) != nil {
		if err := json.Unmarshal(data, &o.Message); err != nil { // a text, or whatever it is
			return err
		}
	}
	e.text = textOf(o.Message)
	var upstream struct{ Raw any }
	if json.Unmarshal(o.Metadata, &upstream) == nil && upstream.Raw != nil {
		e.text = strings.TrimPrefix(e.text+": "+textOf(upstream.Raw), ": ")
	}
	kind := strings.ToLower(textOf(o.Code) + " " + textOf(o.Type))
	e.quota = strings.Contains(kind, "insufficient_quota")
	e.status = statusOf(kind)
	for _, code := range []any{o.Code, o.Status} {
		if n, err := strconv.Atoi(textOf(code)); err == nil && n >= 400 && n < 600 {
			e.status = n
			break
		}
	}
	return nil
}

// textOf returns a JSON value as text; of something compound it is its JSON.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(raw)
}

// statusOf returns the status that goes with the words for a kind of error.
func statusOf(kind string) int {
	for _, k := range []struct {
		word   string
		status int
	}{
		{"rate_limit", http.StatusTooManyRequests},
		{"quota", http.StatusTooManyRequests},
		{"overloaded", http.StatusServiceUnavailable},
		{"timeout", http.StatusRequestTimeout},
		{"api_key", http.StatusUnauthorized},
		{"authentication", http.StatusUnauthorized},
		{"permission", http.StatusForbidden},
		{"not_found", http.StatusNotFound},
		{"invalid", http.StatusBadRequest},
		{"context_length", http.StatusBadRequest},
	} {
		if strings.Contains(kind, k.word) {
			return k.status
		}
	}
	return http.StatusBadGateway
}

// errorIn returns the error that a JSON body tells of, or nil.
func errorIn(body []byte) *apiError {
	var o struct{ Error, Message, Detail *apiError }
	if json.Unmarshal(bytes.TrimSpace(body), &o) != nil {
		return nil //nolint:nilerr // a body that is no JSON tells of none
	}
	for _, said := range []*apiError{o.Error, o.Message, o.Detail} {
		if said != nil {
			return said
		}
	}
	return nil
}

// ofResponse returns the error of a response that is one.
func ofResponse(status int, body []byte, after time.Duration) *apiError {
	said := errorIn(body)
	if said == nil {
		said = &apiError{}
	}
	said.status, said.after = status, after
	return said
}

// classify turns whatever went wrong into what the caller can do about it. The
// cause stays in Err, for the operator's log only. caller is the context of the
// caller, without our own limits.
func (g *generation) classify(caller context.Context, err error) *mesh.Error {
	e := g.code(caller, err)
	if g.tries > 1 {
		e.Detail += fmt.Sprintf(" (tried %d times)", g.tries)
	}
	return e
}

func (g *generation) code(caller context.Context, err error) *mesh.Error {
	if caller.Err() != nil {
		return &mesh.Error{Code: mesh.CodeOf(caller.Err()), Op: op, Detail: "The model was stopped before it had answered", Err: err}
	}
	keys, set := g.client.config.keys(), g.client.config.Settings
	var known *mesh.Error
	var said *apiError
	var malformed *protocolError
	var refused *refusedError
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, errIdle):
		return mesh.Errorf(mesh.Timeout, op, "The model sent nothing for too long; try again, or check %s: %w", set.URL, err)
	case errors.Is(err, errSlow):
		return mesh.Errorf(mesh.Timeout, op, "The model took too long to answer; try again: %w", err)
	case errors.Is(err, openai.ErrReasoningToolsRequireResponses):
		return mesh.Errorf(mesh.Unsupported, op,
			"The model %q takes tools over the Responses API only; allow it (API auto), or choose another model (%s): %w", g.model, set.Model, err)
	case errors.As(err, &refused):
		return &mesh.Error{Code: mesh.Invalid, Op: op, Detail: "The request cannot be sent to the model: " + safe(refused.err.Error(), keys...)}
	case errors.As(err, &said):
		clean := &apiError{status: said.status, text: safe(said.text, keys...), quota: said.quota, after: said.after}
		if log := g.client.config.Logger; log != nil && clean.text != "" {
			log.WarnContext(caller, "the model's endpoint refused or failed", "model", g.model, "status", clean.status, "said", clean.text)
			clean.text = ""
		}
		return ofStatus(clean, g.model, set)
	case errors.As(err, &malformed):
		return mesh.Errorf(mesh.Unavailable, op, "The model's endpoint sent something that is not the OpenAI protocol; check %s: %w",
			set.URL, errors.New(safe(err.Error(), keys...)))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return mesh.Errorf(mesh.Unavailable, op, "The model's stream was cut off; try again: %w", err)
	}
	return mesh.Errorf(mesh.Unavailable, op,
		"The model's endpoint could not be reached or broke off; check %s and that it is running: %w", set.URL, err)
}

// ofStatus says what to do about an error whose text is safe to show.
func ofStatus(said *apiError, model string, set Settings) *mesh.Error {
	code, advice := mesh.Unavailable, fmt.Sprintf("The model's endpoint failed (HTTP %d); try again", said.status)
	switch s := said.status; {
	case s == http.StatusUnauthorized:
		code, advice = mesh.Unauthenticated, "The model's endpoint did not accept the key; check the key ("+set.Key+")"
	case s == http.StatusForbidden:
		code, advice = mesh.Denied, fmt.Sprintf("The key may not use the model %q; check the key (%s) and %s", model, set.Key, set.Model)
	case s == http.StatusNotFound:
		code, advice = mesh.NotFound, fmt.Sprintf("The endpoint has no model %q; check %s and %s", model, set.Model, set.URL)
	case s == http.StatusTooManyRequests && said.after > 0:
		code, advice = mesh.Exhausted, fmt.Sprintf("The model's quota or rate limit is used up; wait %v, or check the account", said.after.Round(time.Second))
	case s == http.StatusTooManyRequests || s == http.StatusPaymentRequired:
		code, advice = mesh.Exhausted, "The model's quota or rate limit is used up; wait, or check the account"
	case s == http.StatusRequestTimeout:
		code, advice = mesh.Timeout, "The model took too long to answer; try again"
	case s < 500:
		code, advice = mesh.Invalid, "The model's endpoint refused the request"
	}
	if said.text != "" {
		advice += ": " + said.text
	}
	return &mesh.Error{Code: code, Op: op, Detail: advice, Err: said}
}
