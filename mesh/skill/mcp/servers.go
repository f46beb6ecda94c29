package mcp

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// Defaults of [Options] and [Server].
const (
	DefaultTimeout   = 30 * time.Second
	DefaultRetry     = time.Second
	DefaultRefresh   = time.Minute
	DefaultMaxResult = 256 << 10
)

// longestRetry is the longest pause between attempts to connect.
const longestRetry = time.Minute

// A Server is one MCP server: a process to start, or an endpoint.
type Server struct {
	// Command is a program and its arguments.
	Command []string
	// Env is the environment of the process, besides PATH and HOME.
	Env map[string]string
	// URL is an endpoint of streamable HTTP.
	URL string
	// Headers go with each request to URL.
	Headers map[string]string
	// Timeout bounds connecting, a listing of the tools, and a call. The
	// default is DefaultTimeout.
	Timeout time.Duration
}

// Options are the choices of [Open]. Zero values are defaults.
type Options struct {
	// Transport carries the requests to servers that have a URL. The default
	// is a transport like [http.DefaultTransport].
	Transport http.RoundTripper
	// Logger is for the operator; it also gets what processes write to their
	// standard error. The default discards.
	Logger *slog.Logger
	// Reserved are names that no server may have: those of the domains of other
	// skills, among which its tools would be mixed.
	Reserved []string
	// Version of the mesh is told to servers. The default is "dev".
	Version string
	// Retry is the pause before the second attempt to connect; later ones
	// double, up to a minute.
	Retry time.Duration
	// Refresh is how often tools are listed although the server told of no
	// change: that is how the end of a connection is noticed that nobody uses.
	Refresh time.Duration
	// MaxResult bounds the text of one result, in bytes, and as much again of
	// structured content.
	MaxResult int
}

// A Sink takes the skills that servers have; [skill.Library] is one. It is
// called concurrently, for other skills each time.
type Sink interface {
	// Put adds skills or replaces them.
	Put(skills ...*skill.Skill)
	// Remove takes skills out by name.
	Remove(names ...string)
}

// Servers are the MCP servers of a mesh.
type Servers struct {
	remotes map[string]*remote
	opts    Options
}

// Open checks the servers, whose names are the first halves of the names of
// skills. It connects to none; [Servers.Run] does. The error is Invalid and
// names the server and the setting.
func Open(servers map[string]Server, o Options) (*Servers, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Version = cmp.Or(o.Version, "dev")
	o.Retry = cmp.Or(o.Retry, DefaultRetry)
	o.Refresh = cmp.Or(o.Refresh, DefaultRefresh)
	o.MaxResult = cmp.Or(o.MaxResult, DefaultMaxResult)
	s := &Servers{remotes: map[string]*remote{}, opts: o}
	for name, server := range servers {
		if err := server.check(name); err != nil {
			return nil, err
		}
		if slices.Contains(o.Reserved, name) {
			return nil, mesh.InvalidField("mcp.Open", name,
				"is the name of the domain %s of the mesh's own skills, which the tools of the server would be mixed with; give the server another name, such as %s_mcp", name, name)
		}
		server.Timeout = cmp.Or(server.Timeout, DefaultTimeout)
		s.remotes[name] = newRemote(name, server, o)
	}
	return s, nil
}

// check refuses settings that cannot work or that could mean something else
// than they say.
func (s Server) check(name string) error {
	const op = "mcp.Open"
	u, err := url.Parse(s.URL)
	switch {
	case !skill.ValidPart(name):
		return mesh.InvalidField(op, "servers", "has %q; a name is lower-case letters, digits and '_', for it is the first half of the names of skills", mesh.Clip(name, 64))
	case (s.URL == "") == (len(s.Command) == 0):
		return mesh.InvalidField(op, name, "needs either a command or a url")
	case s.URL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https"):
		return mesh.InvalidField(op, name+".url", "must be a URL such as https://example.com/mcp")
	case s.URL != "" && u.User != nil:
		return mesh.InvalidField(op, name+".url", "must have no user and password; set a header Authorization")
	case len(s.Command) > 0 && s.Command[0] == "":
		return mesh.InvalidField(op, name+".command", "has no program")
	case s.Timeout < 0:
		return mesh.InvalidField(op, name+".timeout", "must not be negative")
	}
	for key, value := range s.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.Contains(value, "\x00") {
			return mesh.InvalidField(op, name+".env", "has %q, which can be no variable of an environment", mesh.Clip(key, 64))
		}
	}
	for key, value := range s.Headers {
		if key == "" || strings.ContainsFunc(key, notInToken) || strings.ContainsAny(value, "\r\n\x00") {
			return mesh.InvalidField(op, name+".headers", "has %q, which can be no header", mesh.Clip(key, 64))
		}
	}
	return nil
}

// notInToken reports whether the name of a header (RFC 9110 §5.6.2) cannot
// have the character.
func notInToken(r rune) bool {
	alphanumeric := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// Names returns the names of the servers, sorted.
func (s *Servers) Names() []string { return slices.Sorted(maps.Keys(s.remotes)) }

const handlerPrefix = "mcp:"

// HandlerName is what the skills of that server name as their handler.
func HandlerName(server string) string { return handlerPrefix + server }

// Handlers returns what runs the tools of each server, by [HandlerName]. A call
// fails at once while its server is not connected.
func (s *Servers) Handlers() map[string]skill.Handler {
	all := make(map[string]skill.Handler, len(s.remotes))
	for name, r := range s.remotes {
		all[HandlerName(name)] = skill.HandlerFunc(r.execute)
	}
	return all
}

// Run keeps the servers connected and offers their tools to the sink, until ctx
// ends; a nil sink is for processes that only call them. It is called once.
// When it returns, no process and nothing else that it started is left; the
// skills remain where they are, and calls of them fail as Unavailable. It
// returns nil.
func (s *Servers) Run(ctx context.Context, to Sink) error {
	base := s.opts.Transport
	if base == nil {
		own := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8,
			IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second}
		defer own.CloseIdleConnections()
		base = own
	}
	var running sync.WaitGroup
	for _, r := range s.remotes {
		running.Go(func() { r.run(ctx, base, to) })
	}
	running.Wait()
	return nil
}
