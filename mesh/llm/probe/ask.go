package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/openai"
)

// What the model is asked, and how long its replies may be, in tokens: models that reason need
// some before they come to their word.
const (
	wordAsked  = "Reply with the one word OK."
	wordTokens = 64
	toolAsked  = "Call the tool report_ok now. Write no text."
	toolTokens = 256
	toolName   = "report_ok"
)

// generate asks the model over the client that agents use, once, and returns what it called
// and how the reply ended.
func (p *prober) generate(ctx context.Context, req *llm.Request) (called bool, finish string, err error) {
	if p.client == nil {
		c := p.config
		c.Logger, c.MaxRetries, c.Timeout, c.IdleTimeout, c.NativeTools = nil, -1, p.limit, p.limit, []string{}
		if p.client, err = openai.New(c); err != nil {
			return false, "", err
		}
	}
	for chunk, err := range p.client.Generate(ctx, req) {
		switch {
		case err != nil:
			return called, "", err
		case chunk.Tool != nil:
			called = called || chunk.Tool.Name == toolName
		case chunk.Done != nil:
			finish = chunk.Done.Finish
		}
	}
	return called, finish, nil
}

func user(text string) []llm.Message { return []llm.Message{{Role: llm.RoleUser, Text: text}} }

// reply asks for a word, as a stream, and notes what that says of key, model, reply and
// stream. It returns whether it came.
func (p *prober) reply(ctx context.Context) bool {
	_, _, err := p.generate(ctx, &llm.Request{Model: p.config.Model, Messages: user(wordAsked), MaxTokens: wordTokens})
	moved := (*redirectedError)(nil)
	switch code := mesh.CodeOf(err); {
	case err == nil:
		p.well(StepKey, StepModel, StepReply, StepStream)
		return true
	case ctx.Err() != nil:
		return p.doubt(StepReply, Canceled, "", "the check was ended")
	case errors.As(err, &moved):
		return p.redirected(moved)
	case code == mesh.Unauthenticated:
		return p.unauthorized()
	case code == mesh.Denied:
		return p.fail(StepKey, KeyNotAllowed, "allow it where the key was made, set "+p.config.Settings.Key+" to another one, or "+p.config.Settings.Model+" to another model",
			"the endpoint takes the key and does not let it use the model %s (403)", p.config.Model)
	case code == mesh.NotFound:
		return p.missing()
	case code == mesh.Exhausted:
		p.well(StepKey)
		return p.fail(StepReply, Exhausted, "wait, or look at the account's credit and limits", "the endpoint says that the quota or rate limit of the key is used up")
	case code == mesh.Timeout:
		return p.fail(StepReply, Silent, "look at what the endpoint is doing; one that has to load the model first answers when it is asked again", "the model %s sent nothing for %v", p.config.Model, p.limit)
	}
	return p.whole(ctx, err)
}

// missing notes that the endpoint says 404 to a request for a reply.
func (p *prober) missing() bool {
	set := p.config.Settings
	switch {
	case p.lists(p.config.Model):
		p.well(StepModel)
		return p.fail(StepReply, NoAPI, "set its api to chat or responses, whichever the endpoint has", "the endpoint has the model %s, and not the API by which it is asked (404)", p.config.Model)
	case len(p.models) > 0:
		return p.fail(StepModel, NoSuchModel, "set "+set.Model+" to one that it has", "the endpoint has no model %s%s", p.config.Model, p.has())
	case p.listed == http.StatusNotFound:
		return p.fail(StepModel, WrongPath, "look at the path of "+set.URL+", which most often ends with /v1, and at "+set.Model,
			"there is nothing of the OpenAI protocol at %s (404), or no model %s", mesh.PublicURL(p.config.BaseURL), p.config.Model)
	}
	return p.fail(StepModel, NoSuchModel, "set "+set.Model+" to one that it has", "the endpoint has no model %s", p.config.Model)
}

// whole asks for a word in one piece, after a stream failed with err for a reason that may
// be the stream.
func (p *prober) whole(ctx context.Context, err error) bool {
	status, body := p.post(ctx)
	set, code := p.config.Settings, mesh.CodeOf(err)
	var reply struct {
		Choices []json.RawMessage `json:"choices"`
		Output  []json.RawMessage `json:"output"`
	}
	switch {
	case ctx.Err() != nil:
		return p.doubt(StepReply, Canceled, "", "the check was ended")
	case status == http.StatusOK && json.Unmarshal(body, &reply) == nil && len(reply.Choices)+len(reply.Output) > 0:
		p.well(StepKey, StepModel, StepReply)
		return p.fail(StepStream, NoStream, "use an endpoint that streams (server-sent events), or switch off what in front of it holds streams back", "the endpoint answers, and not as a stream")
	case status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented: // of who serves pages
		return p.foreign()
	case status >= 500:
		return p.fail(StepReply, Broken, "try again later, or look at the endpoint's own log", "the endpoint fails (HTTP %d)", status)
	case code == mesh.Invalid && len(p.models) > 0 && !p.lists(p.config.Model):
		return p.fail(StepModel, NoSuchModel, "set "+set.Model+" to one that it has", "the endpoint refuses the model %s, which it does not list%s", p.config.Model, p.has())
	case code == mesh.Invalid || status >= 400 && status != http.StatusNotFound:
		return p.fail(StepReply, Refused, "look at what is set of the model, as its api and extra fields", "%s", mesh.DetailOf(err))
	case status == 0:
		return p.fail(StepReply, Broken, "look whether the endpoint runs, and at its own log", "the connection broke before the endpoint had answered")
	}
	return p.foreign()
}

// foreign notes that what answers is no endpoint of a model.
func (p *prober) foreign() bool {
	return p.fail(StepReply, NotProtocol, "look at the path of "+p.config.Settings.URL+", which most often ends with /v1",
		"what answers at %s does not speak the OpenAI protocol", mesh.PublicURL(p.config.BaseURL))
}

// post asks for a word in one piece. The status is 0 if there was no response.
func (p *prober) post(ctx context.Context) (status int, body []byte) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	fields, path := map[string]any{"model": p.config.Model, "stream": false}, "/chat/completions"
	if p.config.API == openai.APIResponses {
		path, fields["input"], fields["max_output_tokens"] = "/responses", wordAsked, wordTokens
	} else {
		fields["messages"], fields["max_tokens"] = []map[string]string{{"role": "user", "content": wordAsked}}, wordTokens
	}
	maps.Copy(fields, p.config.Extra)
	data, err := json.Marshal(fields)
	if err != nil {
		return 0, nil
	}
	r, err := p.request(ctx, http.MethodPost, path, bytes.NewReader(data))
	if err != nil {
		return 0, nil
	}
	resp, err := p.http.Do(r)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody)); err != nil {
		return 0, nil
	}
	return resp.StatusCode, body
}

// tools has the model call a tool that does nothing.
func (p *prober) tools(ctx context.Context) {
	const remedy = "agents work by tools: choose a model, or start it with options, so that it calls them"
	called, finish, err := p.generate(ctx, &llm.Request{Model: p.config.Model, Messages: user(toolAsked), MaxTokens: toolTokens, Tools: []llm.Tool{{
		Name: toolName, Description: "Reports that all is well.", Parameters: json.RawMessage(`{"type":"object","properties":{}}`),
	}}})
	switch code := mesh.CodeOf(err); {
	case err == nil && called:
		p.well(StepTools)
	case err == nil && slices.Contains([]string{"length", "incomplete"}, finish):
		p.doubt(StepTools, NotSaid, "", "the model thought for longer than it was given, and called no tool by then")
	case err == nil:
		p.doubt(StepTools, NoToolCalls, remedy, "the model %s answered in words where it was to call a tool", p.config.Model)
	case ctx.Err() != nil:
		p.doubt(StepTools, Canceled, "", "the check was ended")
	case code == mesh.Invalid || code == mesh.NotFound || code == mesh.Unsupported:
		p.fail(StepTools, NoToolCalls, remedy, "the endpoint refuses requests with tools for the model %s", p.config.Model)
	default:
		p.doubt(StepTools, NotSaid, "", "a tool could not be asked for: %s", mesh.DetailOf(err))
	}
}
