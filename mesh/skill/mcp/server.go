package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
)

// Bounds of what is served.
const (
	// DefaultPageSize is large because clients exist that read one page.
	DefaultPageSize = 500
	maxPage         = 1 << 20 // about how many bytes of tools a page has at most
	maxKey          = 128     // of an idempotency key, in bytes
	fresh           = 60_000  // for how many milliseconds a listing may be believed
)

// HandlerOptions are the choices of a server. Zero values are defaults.
type HandlerOptions struct {
	// Version of the mesh is told to clients. The default is "dev".
	Version string
	// PageSize is how many tools a page of a listing has at most. The default
	// is DefaultPageSize.
	PageSize int
	// Logger is for the operator. The default discards.
	Logger *slog.Logger
}

// MetaResult is the key in the _meta of a result under which the task and Files of
// an [Outcome] are.
const MetaResult = "agentmesh/result"

const instructions = "The tools are the skills of an agentmesh. A tool that needs the user's approval asks for it, or answers with the question, and runs when the user has agreed."

// A server offers the skills of a backend as tools, named as [command.ToolName]
// says: at most 64 letters, digits, '_' and '-', which is what all clients accept.
// A tool whose name had to be shortened for that has the skill's name as its title.
//
// No client is told when skills change: a listing says for how long it may be
// believed. To another mesh, tools of MCP servers are not offered: two meshes that
// use each other would offer each other their own skills without end.
type server struct {
	backend  Backend
	version  string
	pageSize int
	logger   *slog.Logger
	running  sync.WaitGroup // calls of tools
}

func newServer(b Backend, o HandlerOptions) *server {
	s := &server{backend: b, version: cmp.Or(o.Version, "dev"), pageSize: cmp.Or(max(o.PageSize, 0), DefaultPageSize), logger: o.Logger}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	return s
}

// Serve is the server over one connection, as over the standard streams of a
// process, until in ends or ctx does. ctx says who the caller is.
func Serve(ctx context.Context, b Backend, in io.ReadCloser, out io.WriteCloser, o HandlerOptions) error {
	s := newServer(b, o)
	err := s.sdk().Run(ctx, &sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: maxMessage})
	s.running.Wait()
	return mesh.Wrap("mcp.Serve", err)
}

// anyTool is the one tool that the SDK knows of: each caller has tools of its own,
// and they change.
const anyTool = "tool"

// sdk returns a server of the SDK.
func (s *server) sdk() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: clientName, Version: s.version}, &sdk.ServerOptions{
		Instructions: instructions,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	server.AddTool(&sdk.Tool{Name: anyTool, InputSchema: json.RawMessage(`{"type":"object"}`)}, s.call)
	server.AddReceivingMiddleware(s.intercept)
	return server
}

// intercept lists the caller's tools, and has the SDK call any of them as its one
// tool: what the versions of the protocol want around the answer, and how they ask
// for input, is the SDK's.
func (s *server) intercept(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (res sdk.Result, err error) {
		defer func() {
			// A panic on a goroutine of the SDK would end the mesh.
			if p := recover(); p != nil {
				s.logger.ErrorContext(ctx, "mcp request panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
				res, err = nil, internal()
			}
		}()
		switch req := req.(type) {
		case *sdk.ListToolsRequest:
			ctx, cancel := as(ctx, req.Extra)
			defer cancel()
			list, err := s.list(ctx, req)
			if err != nil {
				return nil, err // and no nil pointer that is a result
			}
			return list, nil
		case *sdk.CallToolRequest:
			s.running.Add(1)
			defer s.running.Done()
			c := &calling{tool: req.Params.Name}
			params := *req.Params
			params.Name = anyTool
			res, err = next(context.WithValue(ctx, callingKey{}, c), method, &sdk.CallToolRequest{Session: req.Session, Params: &params, Extra: req.Extra})
			if err != nil && c.asked != nil && ctx.Err() == nil { // the client of an older version could not ask
				s.logger.WarnContext(ctx, "an mcp client could not ask its user", "err", err)
				return c.asked, nil
			}
			return res, err
		}
		return next(ctx, method, req)
	}
}

func internal() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
}

func invalidParams(message string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}

// failure is the error of the protocol for one of the mesh.
func (s *server) failure(ctx context.Context, err error) error {
	if detail := mesh.DetailOf(err); detail != "" {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: detail}
	}
	s.logger.ErrorContext(ctx, "mcp request failed", "err", err)
	return internal()
}

// list returns a page of the tools, by name. The cursor is the name of the last
// skill before the page, so that changes between two pages neither repeat nor
// hide any other.
func (s *server) list(ctx context.Context, req *sdk.ListToolsRequest) (*sdk.ListToolsResult, error) {
	after := ""
	if req.Params != nil && req.Params.Cursor != "" {
		name, err := base64.RawURLEncoding.DecodeString(req.Params.Cursor)
		if err != nil {
			return nil, invalidParams("the cursor is none of this server's; list from the beginning")
		}
		after = string(name)
	}
	skills, err := s.backend.List(ctx)
	if err != nil {
		return nil, s.failure(ctx, err)
	}
	if client := req.ClientInfo(); client != nil && client.Name == clientName {
		skills = slices.DeleteFunc(skills, func(s *skill.Skill) bool { return strings.HasPrefix(s.Handler, handlerPrefix) })
	}
	slices.SortFunc(skills, func(a, b *skill.Skill) int { return strings.Compare(a.Name, b.Name) })
	from, found := slices.BinarySearchFunc(skills, after, func(s *skill.Skill, name string) int { return strings.Compare(s.Name, name) })
	if found {
		from++
	}
	schemas, err := s.schemas(ctx, skills[from:min(from+s.pageSize, len(skills))])
	if err != nil {
		return nil, s.failure(ctx, err)
	}
	res := &sdk.ListToolsResult{Tools: []*sdk.Tool{}, Cacheable: sdk.Cacheable{TTLMs: fresh, CacheScope: "private"}}
	size := 0
	for i, one := range skills[from:] {
		if whole := schemas[one.Name]; whole != nil {
			one = whole
		}
		tool := toolOf(one)
		size += len(tool.InputSchema.(json.RawMessage)) + len(one.Output) + len(one.Description) + len(one.Name)
		if i > 0 && (i == s.pageSize || size > maxPage) {
			res.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(skills[from+i-1].Name))
			break
		}
		res.Tools = append(res.Tools, tool)
	}
	return res, nil
}

// schemas returns those skills, as they are whole, that have a schema of their own,
// which tools of MCP servers do.
func (s *server) schemas(ctx context.Context, page []*skill.Skill) (map[string]*skill.Skill, error) {
	var names []string
	for _, s := range page {
		if strings.HasPrefix(s.Handler, handlerPrefix) && len(s.Schema) == 0 {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	whole, err := s.backend.Complete(ctx, names)
	if err != nil {
		return nil, err
	}
	out := make(map[string]*skill.Skill, len(whole))
	for _, s := range whole {
		out[s.Name] = s
	}
	return out, nil
}

// toolOf tells of a skill as of a tool.
func toolOf(s *skill.Skill) *sdk.Tool {
	t := &sdk.Tool{Name: command.ToolName(s.Name), Description: s.Description, InputSchema: command.Schema(s), Annotations: annotations(s)}
	if command.SkillName(t.Name) == "" { // the name was shortened
		t.Title = s.Name
	}
	if len(s.Output) > 0 {
		t.OutputSchema = s.Output
	}
	return t
}

// annotations says what is known of the effects. A skill that writes may
// destroy something, which is what clients assume of it.
func annotations(s *skill.Skill) *sdk.ToolAnnotations {
	a := &sdk.ToolAnnotations{ReadOnlyHint: s.Access == skill.AccessRead}
	switch destroys := s.RequiresApproval; {
	case a.ReadOnlyHint:
		destroys = false
		a.DestructiveHint = &destroys
	case destroys:
		a.DestructiveHint = &destroys
	}
	return a
}
