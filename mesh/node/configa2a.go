package node

import (
	"net/url"
	"path/filepath"
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/keyfile"
)

// A2A are choices of the A2A surface.
type A2A struct {
	// StrictVersion refuses requests that name no A2A version, as the
	// specification says; by default those that are plainly of v1.0 are served.
	StrictVersion bool `yaml:"strict_version"`
	// ErrorTable is the version of A2A whose table of errors is used: 1.0.1
	// (default) or 1.0.0.
	ErrorTable string `yaml:"error_table"`
	// Streaming offers streams, and Push push notifications; by default both are
	// offered. What is not is refused, and cards say so.
	Streaming *bool `yaml:"streaming"`
	Push      *bool `yaml:"push"`
	// RequiredExtensions are the URIs of extensions that callers have to support, as
	// cards then say; by default there are none.
	RequiredExtensions []string `yaml:"required_extensions"`
	// PlainRefusals answers a streaming call over JSON-RPC that is refused with
	// application/json, as the specification says and its test kit expects; by default
	// clients that ask for a stream get the error as its only event, since most read
	// nothing else.
	PlainRefusals bool `yaml:"plain_refusals"`
	// V03Blocking says whether a message of A2A v0.3 that does not say whether to wait for
	// the answer is waited for; by default it is.
	V03Blocking *bool `yaml:"v03_blocking"`
}

// contextKeyFile has the key by which users' own context ids mean threads, in the data
// folder.
const contextKeyFile = "context.key"

// contextKey is the key in that file.
func (n *node) contextKey() ([]byte, error) {
	return keyfile.LoadOrCreateSecret(filepath.Join(n.cfg.Data, contextKeyFile))
}

// on reports whether a choice is made that is the default.
func on(choice *bool) bool { return choice == nil || *choice }

// capabilities are those of the mesh, as all its cards have them. The extended card is
// for who proved who they are (A2A v1.0 §13.3).
func (n *node) capabilities() *a2apb.AgentCapabilities {
	required := n.cfg.A2A.RequiredExtensions
	extensions := []*a2apb.AgentExtension{{Uri: mesh.ExtensionURI, Required: slices.Contains(required, mesh.ExtensionURI),
		Description: "Cursors to resume streams from, progress of the agents at work, and handoffs."}}
	for _, uri := range distinct(required) {
		if uri != mesh.ExtensionURI {
			extensions = append(extensions, &a2apb.AgentExtension{Uri: uri, Required: true})
		}
	}
	return &a2apb.AgentCapabilities{
		Streaming: proto.Bool(on(n.cfg.A2A.Streaming)), PushNotifications: proto.Bool(on(n.cfg.A2A.Push)),
		ExtendedAgentCard: proto.Bool(n.cfg.Auth != authNone), Extensions: extensions,
	}
}

// a2aOptions are the operator's choices of the A2A surface.
func (n *node) a2aOptions() (opts []a2a.Option) {
	opts = append(opts, a2a.WithContextNames(), a2a.WithWhole(func(task string) string { return n.publicHTTP() + "/tasks/" + task }))
	if n.cfg.A2A.StrictVersion {
		opts = append(opts, a2a.WithStrictVersion())
	}
	if on(n.cfg.A2A.Push) {
		opts = append(opts, a2a.WithPusher(n.push))
	}
	return opts
}

// errorTable is the operator's table of A2A errors. Fill has checked it.
func (c *Config) errorTable() rpc.ErrorTable {
	table, _ := rpc.ParseErrorTable(c.A2A.ErrorTable)
	return table
}

func (c *Config) fillA2A() error {
	if c.A2A.ErrorTable == "" {
		c.A2A.ErrorTable = "1.0.1"
	}
	if _, err := rpc.ParseErrorTable(c.A2A.ErrorTable); err != nil {
		return mesh.InvalidField("node.Config", "a2a.error_table", "must be 1.0.1 or 1.0.0, and is %q", c.A2A.ErrorTable)
	}
	for _, uri := range c.A2A.RequiredExtensions {
		if u, err := url.Parse(uri); err != nil || u.Scheme == "" || len(uri) > rpc.MaxExtension {
			return invalid("a2a.required_extensions", "must have URIs of extensions, of at most %d bytes, and has %q", rpc.MaxExtension, mesh.Clip(uri, 48))
		}
	}
	return c.fillStreams()
}

// fillStreams sets defaults and checks the rest.
func (c *Config) fillStreams() error {
	if c.Streams.PerUser < 0 {
		return mesh.InvalidField("node.Config", "streams.per_user", "must not be negative, and is %d; leave it out for the default", c.Streams.PerUser)
	}
	if c.Streams.Total < 0 {
		return mesh.InvalidField("node.Config", "streams.total", "must not be negative, and is %d; leave it out for 20000", c.Streams.Total)
	}
	if c.Streams.Total == 0 {
		c.Streams.Total = max(20_000, c.Streams.PerUser)
	}
	if c.Streams.PerUser > c.Streams.Total {
		return mesh.InvalidField("node.Config", "streams.per_user", "is %d, more than streams.total, %d; make it smaller, or that one larger", c.Streams.PerUser, c.Streams.Total)
	}
	if c.Streams.PerUser == 0 && c.Auth != authNone {
		c.Streams.PerUser = min(1_000, c.Streams.Total)
	}
	return nil
}
