// Package openai reaches language models over the OpenAI chat completions
// protocol, which OpenAI, OpenRouter, Ollama, vLLM and many others serve.
//
// A [Client] passes text on as it arrives and tool calls once they are
// complete. Every failure is a *mesh.Error whose detail tells the operator
// what to check and never contains the key; a stream that ends without a
// finish reason is a failure, because a reply that was cut off must not pass
// for a short one. A client is safe for concurrent use.
//
// It does not retry, and it keeps no conversation.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// Config says which endpoint to use. BaseURL and Model are required.
type Config struct {
	// BaseURL is the endpoint up to and with its version, as
	// "https://api.openai.com/v1" or "http://127.0.0.1:11434/v1".
	BaseURL string
	// Key is the bearer token; "" sends none.
	Key string
	// Model is used for requests that name none.
	Model string
	// Timeout bounds a whole reply. The default is 5 minutes.
	Timeout time.Duration
	// IdleTimeout bounds how long the endpoint may send nothing, before and
	// between the pieces of a reply; comments that keep the connection alive
	// count as a sign of life. The default is 60 seconds.
	IdleTimeout time.Duration
}

// Defaults of [Config].
const (
	DefaultTimeout     = 5 * time.Minute
	DefaultIdleTimeout = time.Minute
)

// A Client is an [llm.Model] behind an endpoint. Use [New].
type Client struct {
	config    Config
	api       *openai.Client
	transport *http.Transport
}

var _ llm.Model = (*Client)(nil)

// New returns a client for the endpoint. It does not contact it.
func New(c Config) (*Client, error) {
	const op = "openai.New"
	u, err := url.Parse(c.BaseURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, mesh.InvalidField(op, "llm.url",
			"MESH_LLM_URL must be an http or https URL such as https://api.openai.com/v1")
	}
	if c.Model == "" {
		return nil, mesh.InvalidField(op, "llm.model", "MESH_LLM_MODEL must name the model to use")
	}
	if c.Timeout < 0 || c.IdleTimeout < 0 {
		return nil, mesh.InvalidField(op, "llm.timeout", "timeouts must not be negative")
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = DefaultIdleTimeout
	}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}
	config := openai.DefaultConfig(c.Key)
	config.BaseURL = c.BaseURL
	config.HTTPClient = &http.Client{Transport: eventStream{transport}}
	// Keep-alive comments are taken out by eventStream, and its blank lines are
	// no sign of trouble.
	config.EmptyMessagesLimit = math.MaxUint
	return &Client{config: c, api: openai.NewClientWithConfig(config), transport: transport}, nil
}

// Close closes idle connections. Replies under way are not affected.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Generate streams one reply.
func (c *Client) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		timed, stop := watch(ctx, c.config.Timeout, c.config.IdleTimeout)
		defer stop()
		model := req.Model
		if model == "" {
			model = c.config.Model
		}
		stream, err := c.api.CreateChatCompletionStream(timed, request(model, req))
		if err != nil {
			yield(llm.Chunk{}, classify(ctx, timed, model, err))
			return
		}
		defer func() { _ = stream.Close() }()

		a := assembly{done: llm.Done{Model: model}}
		for {
			text, err := next(stream, &a)
			// A reply that has its finish reason is complete, however the
			// connection ends.
			if err != nil && (errors.Is(err, io.EOF) || ctx.Err() == nil) && a.done.Finish != "" {
				break
			}
			if err != nil {
				yield(llm.Chunk{}, classify(ctx, timed, model, err))
				return
			}
			if a.size > maxCalls {
				yield(llm.Chunk{}, mesh.Errorf(mesh.Exhausted, op, "The model's tool calls are longer than %d KiB; ask for less at once", maxCalls>>10))
				return
			}
			if text != "" && !yield(llm.Chunk{Text: text}, nil) {
				return
			}
		}
		a.finish(yield)
	}
}

// chunk is one event of the stream. Some gateways report a failure in an
// otherwise normal event, which the library's own type has no place for.
type chunk struct {
	openai.ChatCompletionStreamResponse
	Error *openai.APIError `json:"error"`
}

// next reads one event into a and returns the text in it.
func next(stream *openai.ChatCompletionStream, a *assembly) (string, error) {
	raw, err := stream.RecvRaw()
	if err != nil {
		return "", err
	}
	var c chunk
	if err := json.Unmarshal(raw, &c); err != nil {
		return "", &protocolError{err}
	}
	if c.Error != nil {
		return "", c.Error
	}
	return a.add(&c.ChatCompletionStreamResponse), nil
}

// assembly is a reply so far.
type assembly struct {
	done  llm.Done
	calls []mesh.ToolUse
	index []int // of calls, as the provider counts
	size  int   // bytes of all calls
}

// maxCalls bounds the calls of one reply, in bytes; they are kept until the
// reply is complete.
const maxCalls = 256 << 10

// add takes in one event and returns its text.
func (a *assembly) add(c *openai.ChatCompletionStreamResponse) string {
	if c.Model != "" {
		a.done.Model = c.Model
	}
	if u := c.Usage; u != nil {
		a.done.Usage = mesh.Usage{Prompt: int64(u.PromptTokens), Completion: int64(u.CompletionTokens)}
		if u.PromptTokensDetails != nil {
			a.done.Usage.Cached = int64(u.PromptTokensDetails.CachedTokens)
		}
	}
	text := ""
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		text += choice.Delta.Content + choice.Delta.Refusal
		for _, t := range choice.Delta.ToolCalls {
			a.addCall(t)
		}
		if choice.FinishReason != "" && choice.FinishReason != openai.FinishReasonNull {
			a.done.Finish = string(choice.FinishReason)
		}
	}
	return text
}

// addCall takes in a piece of a call. Pieces belong together by index; a
// provider that sends none begins a call with each new id.
func (a *assembly) addCall(t openai.ToolCall) {
	at := len(a.calls) - 1
	if t.Index != nil {
		at = -1
		for i, n := range a.index {
			if n == *t.Index {
				at = i
			}
		}
	} else if at >= 0 && t.ID != "" && t.ID != a.calls[at].ID {
		at = -1
	}
	if at < 0 {
		n := len(a.calls)
		if t.Index != nil {
			n = *t.Index
		}
		a.calls, a.index = append(a.calls, mesh.ToolUse{}), append(a.index, n)
		at = len(a.calls) - 1
	}
	call := &a.calls[at]
	if call.ID == "" {
		call.ID = t.ID
	}
	if call.Name == "" {
		call.Name = t.Function.Name
	}
	call.Arguments += t.Function.Arguments
	a.size += len(t.ID) + len(t.Function.Name) + len(t.Function.Arguments)
}

// finish yields the calls and the end of the reply.
func (a *assembly) finish(yield func(llm.Chunk, error) bool) {
	if a.done.Finish == "error" {
		yield(llm.Chunk{}, mesh.Errorf(mesh.Unavailable, op, "The model's provider failed while it was answering; try again"))
		return
	}
	for i := range a.calls {
		if !yield(llm.Chunk{Tool: &a.calls[i]}, nil) {
			return
		}
	}
	yield(llm.Chunk{Done: &a.done}, nil)
}
