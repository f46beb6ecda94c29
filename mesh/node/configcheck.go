package node

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
)

const (
	// maxTimeout bounds Limits.Timeout: a run by hand is waited for half as long.
	maxTimeout = 10 * time.Minute
	// leastCatchUp is the least of Schedules.CatchUp: schedules go by minutes.
	leastCatchUp = time.Minute
)

// invalid refuses a field, in words that say what to do. They cite no URL, nor what stands
// where one should: either may hold a secret.
func invalid(field, format string, args ...any) error {
	return mesh.InvalidField("node.Config", field, format, args...)
}

// first returns the first error of the checks.
func first(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkRates checks what bounds callers, and how the node ends.
func (c *Config) checkRates() error {
	switch r := c.RateLimit; {
	case r.PerSecond < 0 && r.PerSecond != limit.Unlimited || math.IsNaN(r.PerSecond) || math.IsInf(r.PerSecond, 0):
		return invalid("rate_limit.per_second", "must be a number of calls, 0 for the default or -1 for no limit, and is %v", r.PerSecond)
	case r.Burst < 0:
		return invalid("rate_limit.burst", "must be a number of calls, or 0 for two seconds' worth, and is %d", r.Burst)
	case r.FailedLogins < -1:
		return invalid("rate_limit.failed_logins", "must be a number of log-ins, or -1 for any, and is %d", r.FailedLogins)
	case c.Grace < 0:
		return invalid("grace", "must not be negative, and is %v; leave it out for 10s", c.Grace)
	case c.HeapFloor < -1 || c.HeapFloor > 1<<20:
		return invalid("heap_floor", "must be a number of MiB, or -1 for none, and is %d", c.HeapFloor)
	case c.Limits.Blob != 0 && c.Limits.Blob < mesh.MaxEvent:
		return invalid("limits.blob", "must be at least %d bytes, and is %d; leave it out for %d", mesh.MaxEvent, c.Limits.Blob, mesh.DefaultMaxBlob)
	case c.Limits.Timeout < 0 || c.Limits.Timeout > maxTimeout:
		return invalid("limits.timeout", "must be at most %v, and is %v; leave it out for 30s", maxTimeout, c.Limits.Timeout)
	case !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel):
		return invalid("log_level", "must be debug, info, warn or error, and is %q", c.LogLevel)
	}
	return nil
}

// checkAddresses checks where the node listens.
func (c *Config) checkAddresses() error {
	for _, a := range []struct{ field, addr, usual string }{{"grpc", c.GRPC, DefaultGRPC}, {"http", c.HTTP, DefaultHTTP}} {
		if _, _, err := net.SplitHostPort(a.addr); err != nil {
			return invalid(a.field, "must be host:port such as %s, and is %q", a.usual, a.addr)
		}
	}
	if _, port, _ := net.SplitHostPort(c.HTTP); c.GRPC == c.HTTP && port != "0" {
		return invalid("http", "is %s, as grpc is; give each a port of its own", c.HTTP)
	}
	return nil
}

// checkModel checks an endpoint and its prices, which are at that path.
func checkModel(at string, m Model) error {
	switch {
	case m.URL != "" && !webURL(m.URL):
		return invalid(at+".url", "must be a URL such as https://api.openai.com/v1")
	case !slices.Contains([]string{"", "auto", "chat", "responses"}, m.API):
		return invalid(at+".api", "must be auto, chat or responses, and is %q", m.API)
	case m.API == "chat" && len(m.NativeTools) > 0:
		return invalid(at+".native_tools", "need the Responses API; set %s.api to responses or auto, or leave them out", at)
	case m.API == "responses" && m.Audio:
		return invalid(at+".audio", "needs chat completions; set %s.api to chat, or leave it out", at)
	case !slices.Contains([]string{"", "auto", "anthropic", "none"}, m.Cache):
		return invalid(at+".cache", "must be auto, anthropic or none, and is %q", m.Cache)
	case m.Retries < -1:
		return invalid(at+".retries", "must be a number, 0 for 3 or -1 for never, and is %d", m.Retries)
	case m.Context < 0:
		return invalid(at+".context", "must be a number of tokens, or 0 for what is known of the model, and is %d", m.Context)
	case m.Response < 0:
		return invalid(at+".response", "must be a number of tokens, or 0 for the default, and is %d", m.Response)
	case m.Context > 0 && m.Response >= m.Context:
		return invalid(at+".response", "is %d, which leaves nothing of %s.context, %d, for the prompt; make it smaller", m.Response, at, m.Context)
	}
	for i, f := range m.Fallbacks {
		at := fmt.Sprintf("%s.fallbacks[%d]", at, i)
		if f.URL != "" && !webURL(f.URL) {
			return invalid(at+".url", "must be a URL such as https://api.openai.com/v1")
		}
		if f.Name == "" {
			return invalid(at+".name", "is missing; name the model to ask for there")
		}
	}
	if len(m.Fallbacks) > 0 && m.URL == "" && m.Key == "" {
		return invalid(at+".fallbacks", "are asked when the model fails, and there is no model; name the first to ask in model.url, model.key and model.name, or leave model.fallbacks out to use the offline planner")
	}
	if err := m.Prices.Validate(); err != nil && at != "model" {
		return invalid(at+".prices", "%s", mesh.DetailOf(err))
	} else if err != nil {
		return err
	}
	return nil
}

// fillEmbedding checks the model for embeddings, and gives it the endpoint of the model where
// it names none.
func (c *Config) fillEmbedding() error {
	e := &c.Embedding
	switch {
	case e.Name == "" && (e.URL != "" || e.Key != "" || e.Least != 0):
		return invalid("embedding.name", "is missing; name the model for embeddings, as text-embedding-3-small, or leave all of embedding out to find memories by their words")
	case e.Name == "":
		return nil
	case !(e.Least >= 0 && e.Least <= 1):
		return invalid("embedding.least", "must be from 0 to 1, and is %v; leave it out for %v", e.Least, usualLeast)
	}
	e.Least = cmp.Or(e.Least, usualLeast)
	return c.fillEndpoint("embedding", &e.URL, &e.Key)
}

// check checks the mail server, whose settings are at that path. Settings of it without an address would be
// of no effect: mail would be written to a folder, and nobody would know.
func (s SMTP) check(at string) error {
	if !slices.Contains([]string{"starttls", "tls", "none"}, s.TLS) {
		return invalid(at+".tls", "must be starttls, tls or none, and is %q", s.TLS)
	}
	if s.Address == "" {
		if s.User != "" || s.Password != "" || s.From != "" {
			return invalid(at+".address", "is missing; name the mail server as host:port, or leave all of %s out to have mail written to the outbox folder", at)
		}
		return nil
	}
	if host, port, err := net.SplitHostPort(s.Address); err != nil || host == "" || port == "" {
		return invalid(at+".address", "must be host:port such as mail.example.com:587")
	}
	switch _, err := mail.ParseAddress(s.From); {
	case s.From == "":
		return invalid(at+".from", "is missing; name the sender, as Mesh <mesh@example.com>")
	case err != nil:
		return invalid(at+".from", "must be an address such as Mesh <mesh@example.com>, and is %q", s.From)
	case s.Password != "" && s.User == "":
		return invalid(at+".user", "is missing; name the user whose password %s.password is", at)
	case s.User != "" && s.TLS == "none":
		return invalid(at+".tls", "must be starttls or tls with %s.user, for the password would be sent for all to read", at)
	}
	return nil
}

// checkServer checks an MCP server.
func checkServer(name string, s MCPServer) error {
	at := "mcp.servers." + name
	switch {
	case !mcpName.MatchString(name):
		return invalid("mcp.servers", "has %q; a name is lower-case letters, digits and '_', for it is the first half of the names of skills", name)
	case (s.URL == "") == (len(s.Command) == 0):
		return invalid(at, "needs either a command or a url")
	case s.URL != "" && !webURL(s.URL):
		return invalid(at+".url", "must be a URL such as https://example.com/mcp")
	case s.URL == "" && s.Command[0] == "":
		return invalid(at+".command", "begins with no program; name it first")
	case s.URL != "" && len(s.Env) > 0:
		return invalid(at+".env", "is for a server with a command; give one with a url headers instead")
	case s.URL == "" && len(s.Headers) > 0:
		return invalid(at+".headers", "are for a server with a url; give one with a command env instead")
	case s.Timeout < 0:
		return invalid(at+".timeout", "must not be negative, and is %v; leave it out for 30s", s.Timeout)
	}
	return nil
}

// fillNotification sets defaults of who is told, and checks it.
func fillNotification(i int, n *Notification) error {
	at := fmt.Sprintf("notify[%d]", i)
	if n.On == "" {
		n.On = "failure"
	}
	switch {
	case n.On != "failure" && n.On != "always":
		return invalid(at+".on", "must be failure or always, and is %q", n.On)
	case n.Webhook != "" && !webURL(n.Webhook):
		return invalid(at+".webhook", "must be a URL such as https://example.com/hook")
	case slices.Contains(n.Skills, ""):
		return invalid(at+".skills", "has an empty pattern; use names as mail.send, mail.* or *, or leave it out for all")
	}
	return nil
}

func webURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Hostname() != "" && (u.Scheme == "http" || u.Scheme == "https") && !strings.ContainsAny(s, " \t\r\n")
}
