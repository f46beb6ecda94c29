package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"agentmesh/mesh"
)

const op = "openai.Generate"

// protocolError is an event that is not what the protocol says.
type protocolError struct{ err error }

func (e *protocolError) Error() string { return "malformed event: " + e.err.Error() }
func (e *protocolError) Unwrap() error { return e.err }

// classify turns whatever went wrong into what the caller can do about it. The
// cause stays in Err, for the operator's log only. caller is the context of the
// caller, and timed the one with our own limits.
func classify(caller, timed context.Context, model string, err error) *mesh.Error {
	if caller.Err() != nil {
		return &mesh.Error{Code: mesh.CodeOf(caller.Err()), Op: op, Detail: "The model was stopped before it had answered", Err: err}
	}
	cause := context.Cause(timed)
	switch {
	case errors.Is(cause, errIdle):
		return mesh.Errorf(mesh.Timeout, op, "The model sent nothing for too long; try again, or check MESH_LLM_URL: %w", err)
	case errors.Is(cause, errSlow):
		return mesh.Errorf(mesh.Timeout, op, "The model took too long to answer; try again: %w", err)
	case errors.Is(err, openai.ErrReasoningToolsRequireResponses):
		return mesh.Errorf(mesh.Unsupported, op,
			"The model %q does not take tools over the chat completions protocol; choose another one (MESH_LLM_MODEL): %w", model, err)
	}
	var malformed *protocolError
	if errors.As(err, &malformed) {
		return mesh.Errorf(mesh.Unavailable, op,
			"The model's endpoint sent something that is not the OpenAI protocol; check MESH_LLM_URL: %w", err)
	}
	if status, message, ok := statusOf(err); ok {
		return ofStatus(status, message, model, err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return mesh.Errorf(mesh.Unavailable, op, "The model's stream was cut off; try again: %w", err)
	}
	return mesh.Errorf(mesh.Unavailable, op,
		"The model's endpoint could not be reached or broke off; check MESH_LLM_URL and that it is running: %w", err)
}

// statusOf returns the HTTP status in err, and what the provider says about
// it. An error inside a stream has the status in its code, if anywhere.
func statusOf(err error) (status int, message string, ok bool) {
	var req *openai.RequestError
	if errors.As(err, &req) {
		return req.HTTPStatusCode, "", true
	}
	var api *openai.APIError
	if !errors.As(err, &api) {
		return 0, "", false
	}
	if api.HTTPStatusCode != 0 {
		return api.HTTPStatusCode, api.Message, true
	}
	if code, isInt := api.Code.(int); isInt && code >= 400 {
		return code, api.Message, true
	}
	if strings.Contains(fmt.Sprint(api.Code, api.Type), "rate_limit") {
		return http.StatusTooManyRequests, api.Message, true
	}
	return http.StatusBadGateway, api.Message, true
}

func ofStatus(status int, message, model string, err error) *mesh.Error {
	switch status {
	case http.StatusUnauthorized:
		return mesh.Errorf(mesh.Unauthenticated, op, "The model's endpoint did not accept the key; check the key (MESH_LLM_KEY): %w", err)
	case http.StatusForbidden:
		return mesh.Errorf(mesh.Denied, op, "The key may not use the model %q; check the key (MESH_LLM_KEY) and MESH_LLM_MODEL: %w", model, err)
	case http.StatusNotFound:
		return mesh.Errorf(mesh.NotFound, op, "The endpoint has no model %q; check MESH_LLM_MODEL and MESH_LLM_URL: %w", model, err)
	case http.StatusTooManyRequests, http.StatusPaymentRequired:
		return mesh.Errorf(mesh.Exhausted, op, "The model's quota or rate limit is used up; wait, or check the account: %w", err)
	case http.StatusRequestTimeout:
		return mesh.Errorf(mesh.Timeout, op, "The model took too long to answer; try again: %w", err)
	}
	if status >= 400 && status < 500 {
		said := ""
		if message != "" {
			said = ": " + clip(message)
		}
		return &mesh.Error{Code: mesh.Invalid, Op: op, Detail: "The model's endpoint refused the request" + said, Err: err}
	}
	return mesh.Errorf(mesh.Unavailable, op, "The model's endpoint failed (HTTP %d); try again: %w", status, err)
}

// clip shortens a provider's message to one line of at most 200 characters.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 200 {
		return string(r[:200]) + "…"
	}
	return s
}
