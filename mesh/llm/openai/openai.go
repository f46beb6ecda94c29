// Package openai reaches language models over the OpenAI protocols, which
// OpenAI, OpenRouter, Ollama, vLLM and many others serve: chat completions, and
// the Responses API for the models that need it.
//
// A [Client] passes text on as it arrives and tool calls once they are
// complete. It asks again, with growing pauses, when an endpoint is overloaded
// or out of reach before the first piece of a reply; once text was passed on it
// never does. Every failure is a *mesh.Error whose detail tells the operator
// what to check, with what the provider said and without the key; a stream that
// ends without a finish reason is a failure, because a reply that was cut off
// must not pass for a short one.
//
// Requests of one conversation begin with the same bytes: tools sorted, then
// what stays, then what is known, then the messages, then what is new, so that
// providers can cache them. Where the provider wants to be told what to cache,
// see [Cache].
//
// Over the Responses API, models that reason get back within a turn what they
// thought, encrypted, so that nothing is kept by the provider.
//
// A client is safe for concurrent use. It keeps no conversation; all that it
// remembers is which models the endpoint wants asked over the Responses API,
// and which of them do not hand out what they thought.
package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// An API is one of the two protocols.
type API string

// The protocols. With APIAuto, which is the default, the client uses chat
// completions, and the Responses API for models that are known to need it or of
// which the endpoint says so.
const (
	APIAuto      API = "auto"
	APIChat      API = "chat"
	APIResponses API = "responses"
)

// A Cache says whether requests mark what the provider is to keep in its prompt
// cache. Providers that cache by themselves need no marks.
type Cache string

// The caches. CacheAnthropic sends marks (cache_control) as Anthropic's models
// take them, also through OpenRouter and other gateways: one at the end of
// Request.System, for an hour, and one at the end of what is settled, for five
// minutes. CacheAuto, which is the default, does so for models whose name
// begins with "anthropic/" or contains "claude".
const (
	CacheAuto      Cache = "auto"
	CacheAnthropic Cache = "anthropic"
	CacheNone      Cache = "none"
)

// Config says which endpoint to use, and how. BaseURL and Model are required.
type Config struct {
	// BaseURL is the endpoint up to and with its version, as
	// "https://api.openai.com/v1" or "http://127.0.0.1:11434/v1".
	BaseURL string
	// Key is the bearer token; "" sends none.
	Key string
	// Model is used for requests that name none.
	Model string
	// API is the protocol; "" is APIAuto.
	API API
	// Cache says what is marked for the provider's cache; "" is CacheAuto.
	Cache Cache
	// NativeTools are the tools that the endpoint itself has and runs, by its names. Nil is
	// what is known of its host; none is an empty list. They need the Responses API: with
	// APIChat there are none, and with APIAuto requests for them use it.
	NativeTools []string
	// Pictures says that the endpoint's model takes pictures: it is sent those of users. It
	// reads otherwise that they are there.
	Pictures bool
	// Audio says that the endpoint's model takes audio (input_audio), WAV and MP3, over chat
	// completions: it is sent that of users.
	Audio bool
	// Voice and Format are those of speech: a name that the endpoint knows, and mp3, wav, opus, flac
	// or aac.
	Voice, Format string
	// Language is that of who speaks in what is transcribed, in ISO 639-1, or "".
	Language string
	// Temperature is sent if it is not nil, also when it is 0.
	Temperature *float64
	// Extra are further top-level fields of each request, as OpenRouter's
	// {"provider": {"order": ["anthropic"]}}. They win over what the client
	// would send, but may not replace the conversation itself. An OpenRouter
	// endpoint is asked for usage details without being told to here.
	Extra map[string]any
	// MaxRetries is how often a request is sent again that failed before the
	// first piece of its reply; 0 is DefaultMaxRetries, and a negative number
	// is never.
	MaxRetries int
	// Timeout bounds a whole reply with all its retries. The default is 5
	// minutes.
	Timeout time.Duration
	// IdleTimeout bounds how long the endpoint may send nothing, before and
	// between the pieces of a reply; comments that keep the connection alive
	// count as a sign of life. The default is 60 seconds.
	IdleTimeout time.Duration
	// Transport reaches the endpoint; nil is a connection pool of the client's
	// own.
	Transport http.RoundTripper
	// Settings are what the operator calls BaseURL, Key and Model, for errors; "" is
	// MESH_LLM_URL, MESH_LLM_KEY and MESH_LLM_MODEL.
	Settings Settings
	// Logger, if it is not nil, is told what the endpoint says of a failure, in its words,
	// which may name accounts and addresses: errors then have ours alone, for users who
	// are not the operator. Without it they have both.
	Logger *slog.Logger
}

// Settings are the names of an endpoint's settings.
type Settings struct{ URL, Key, Model string }

// Defaults of [Config].
const (
	DefaultTimeout     = 5 * time.Minute
	DefaultIdleTimeout = time.Minute
	DefaultMaxRetries  = 3
)

// A Client is an [llm.Model] behind an endpoint. Use [New].
type Client struct {
	config Config
	api    *openai.Client
	http   *http.Client
	// natives are the endpoint's own tools, by all names for them.
	natives map[string]string

	mu        sync.Mutex
	responses map[string]bool // models that the endpoint wants asked over the Responses API
	silent    map[string]bool // models that do not hand out what they thought
}

var _ llm.Model = (*Client)(nil)

// New returns a client for the endpoint. It does not contact it.
func New(c Config) (*Client, error) {
	u, err := check(c)
	if err != nil {
		return nil, err
	}
	extra, err := extras(c, u)
	if err != nil {
		return nil, err
	}
	c = c.withDefaults()
	client := &http.Client{Transport: c.Transport}
	if c.Transport == nil {
		client.Transport = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second,
		}
	}
	config := openai.DefaultConfig(c.Key)
	config.BaseURL = c.BaseURL
	config.HTTPClient = &endpoint{http: client, extra: extra}
	// The endpoint passes nothing on but data, so that a line which is none is
	// no sign of trouble.
	config.EmptyMessagesLimit = math.MaxUint
	return &Client{config: c, api: openai.NewClientWithConfig(config), http: client, natives: nativeTools(c), responses: map[string]bool{}, silent: map[string]bool{}}, nil
}

func (c Config) withDefaults() Config {
	if c.API == "" {
		c.API = APIAuto
	}
	if c.Cache == "" {
		c.Cache = CacheAuto
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = DefaultIdleTimeout
	}
	if c.MaxRetries == 0 {
		c.MaxRetries = DefaultMaxRetries
	}
	c.MaxRetries = max(c.MaxRetries, 0)
	s := &c.Settings
	s.URL, s.Key, s.Model = cmp.Or(s.URL, "MESH_LLM_URL"), cmp.Or(s.Key, "MESH_LLM_KEY"), cmp.Or(s.Model, "MESH_LLM_MODEL")
	return c
}

// keys are what must not be told: the key, and what the URL has of one.
func (c Config) keys() []string {
	keys := []string{c.Key}
	if u, err := url.Parse(c.BaseURL); err == nil {
		password, _ := u.User.Password()
		keys = append(keys, u.User.Username(), password)
		for _, values := range u.Query() {
			keys = append(keys, values...)
		}
	}
	return keys
}

// check refuses what cannot work, and returns the endpoint's URL.
func check(c Config) (*url.URL, error) {
	const op = "openai.New"
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return nil, mesh.InvalidField(op, "llm.url",
			"MESH_LLM_URL must be an http or https URL such as https://api.openai.com/v1")
	case c.Model == "":
		return nil, mesh.InvalidField(op, "llm.model", "MESH_LLM_MODEL must name the model to use")
	case c.Timeout < 0 || c.IdleTimeout < 0:
		return nil, mesh.InvalidField(op, "llm.timeout", "timeouts must not be negative")
	case !slices.Contains([]API{"", APIAuto, APIChat, APIResponses}, c.API):
		return nil, mesh.InvalidField(op, "llm.api", "the API %q is unknown; use auto, chat or responses", c.API)
	case !slices.Contains([]Cache{"", CacheAuto, CacheAnthropic, CacheNone}, c.Cache):
		return nil, mesh.InvalidField(op, "llm.cache", "the cache %q is unknown; use auto, anthropic or none", c.Cache)
	case c.Temperature != nil && !(*c.Temperature >= 0 && *c.Temperature <= 2):
		return nil, mesh.InvalidField(op, "llm.temperature", "the temperature must be between 0 and 2")
	}
	return u, nil
}

// extras returns the fields that each request gets beside those that the
// library's types have.
func extras(c Config, u *url.URL) (map[string]json.RawMessage, error) {
	const op = "openai.New"
	fields := map[string]any{}
	if host := u.Hostname(); host == "openrouter.ai" || strings.HasSuffix(host, ".openrouter.ai") {
		fields["usage"] = map[string]any{"include": true}
	}
	if c.Temperature != nil {
		fields["temperature"] = *c.Temperature
	}
	for name, value := range c.Extra {
		if slices.Contains([]string{"model", "messages", "input", "instructions", "tools", "stream"}, name) {
			return nil, mesh.InvalidField(op, "llm.extra", "the field %q is the conversation's own and cannot be set for all requests; remove it", name)
		}
		fields[name] = value
	}
	out := map[string]json.RawMessage{}
	for name, value := range fields {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, mesh.InvalidField(op, "llm.extra", "the field %q cannot be written as JSON; use text, numbers, lists and maps", name)
		}
		out[name] = raw
	}
	return out, nil
}

// Close closes idle connections. Replies under way are not affected.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Sees reports whether the model takes pictures: see [llm.Sees].
func (c *Client) Sees() bool { return c.config.Pictures }

// Hears reports whether the model takes audio: see [llm.Hears].
func (c *Client) Hears() bool { return c.config.Audio }

// Generate streams one reply.
func (c *Client) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		timed, cancel := context.WithTimeoutCause(ctx, c.config.Timeout, errSlow)
		defer cancel()
		g := &generation{client: c, req: req, model: req.Model}
		if g.model == "" {
			g.model = c.config.Model
		}
		a, err := g.open(timed)
		if err == nil {
			defer a.close()
			err = a.stream(yield)
		}
		if err != nil {
			yield(llm.Chunk{}, g.classify(ctx, err))
		}
	}
}

// cached reports whether requests for the model mark what is to be cached.
func (c *Client) cached(model string) bool {
	if c.config.Cache != CacheAuto {
		return c.config.Cache == CacheAnthropic
	}
	name := strings.ToLower(model)
	return strings.HasPrefix(name, "anthropic/") || strings.Contains(name, "claude")
}

// apiOf returns the protocol for the model.
func (c *Client) apiOf(model string) API {
	if c.config.API != APIAuto {
		return c.config.API
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.responses[model] {
		return APIResponses
	}
	return APIChat
}

// thinks reports whether the model is asked for what it thought.
func (c *Client) thinks(model string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.silent[model]
}

// hush remembers that the model is not to be asked for what it thought.
func (c *Client) hush(model string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent[model] = true
}

// thinker says whose thoughts those of the model are: no other endpoint and no
// other model can read them.
func (c *Client) thinker(model string) string { return mesh.PublicURL(c.config.BaseURL) + " " + model }

// useResponses remembers that the model needs the Responses API.
func (c *Client) useResponses(model string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.responses[model] = true
}
