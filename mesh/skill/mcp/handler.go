package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

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
	maxRequest      = 1 << 20 // of a request, in bytes
	maxKey          = 128     // of an idempotency key, in bytes
	fresh           = 60_000  // for how many milliseconds a listing may be believed
)

// A Backend is the mesh for one caller: who it is, is in the context, as the
// request's context had it. It is called concurrently.
type Backend interface {
	// List returns the skills that the caller may call. They are shared and not
	// changed, and may lack their schemas; the slice is the handler's.
	List(ctx context.Context) ([]*skill.Skill, error)
	// Complete returns those of the named skills that the caller may call, in any
	// order, with the schemas that they have of their own.
	Complete(ctx context.Context, names []string) ([]*skill.Skill, error)
	// Run calls a skill and waits for it. Calls of the same caller with the
	// same request id, which is never empty, have one effect, and all get what
	// came of it. NotFound says that there is no such skill for the caller; of
	// any error the Detail is told to the caller.
	Run(ctx context.Context, name string, args map[string]any, requestID string) (*Outcome, error)
}

// An Outcome is what a run of a skill came to.
type Outcome struct {
	// Text is what the skill said.
	Text string
	// Files are names of files that it made.
	Files []string
	// Metadata is what it said for programs; it has a JSON form.
	Metadata map[string]any
	// Failed says that it had no success.
	Failed bool
	// Asks is what the user is asked before the skill runs, or "". The answer
	// is given to Task, which then goes on.
	Asks string
	Task string
}

// HandlerOptions are the choices of [NewHandler]. Zero values are defaults.
type HandlerOptions struct {
	// Version of the mesh is told to clients. The default is "dev".
	Version string
	// PageSize is how many tools a page of a listing has at most. The default
	// is DefaultPageSize.
	PageSize int
	// Logger is for the operator. The default discards.
	Logger *slog.Logger
}

// MetaResult is the key in the _meta of a result under which Files and Metadata
// of an [Outcome] are.
const MetaResult = "agentmesh/result"

const instructions = "The tools are the skills of an agentmesh. A tool that needs the user's approval answers with the question, and runs when the user has agreed."

// NewHandler returns an MCP server over streamable HTTP that offers the skills
// of the backend as tools, named as [command.ToolName] says: at most 64 letters,
// digits, '_' and '-', which is what all clients accept. A tool whose name had to
// be shortened for that has the skill's name as its title.
//
// It authenticates nobody and refuses no web site: mount it behind what does,
// and have that put the identity into the request's context. There are no
// sessions. Each request is served for itself, under its own identity, by
// whichever process gets it, and no client is told when skills change: a listing
// says for how long it may be believed. A client of a version since 2026-07-28
// that goes away cancels its call; a call of an older one ends when the backend
// ends it. To another mesh, tools of MCP servers are not offered: two meshes that
// use each other would offer each other their own skills without end.
func NewHandler(b Backend, o HandlerOptions) http.Handler {
	h := &handler{backend: b, pageSize: cmp.Or(max(o.PageSize, 0), DefaultPageSize), logger: o.Logger}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	server := sdk.NewServer(&sdk.Implementation{Name: clientName, Version: cmp.Or(o.Version, "dev")}, &sdk.ServerOptions{
		Instructions: instructions,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	// The SDK's own list of tools is one for all; here each caller has its own.
	server.AddReceivingMiddleware(h.intercept)
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxRequest, PropagateRequestCancellation: true,
	})
}

type handler struct {
	backend  Backend
	pageSize int
	logger   *slog.Logger
}

// intercept answers what is about tools, and leaves the rest to the SDK.
func (h *handler) intercept(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (res sdk.Result, err error) {
		defer func() {
			// A panic on a goroutine of the SDK would end the mesh.
			if p := recover(); p != nil {
				h.logger.ErrorContext(ctx, "mcp request panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
				res, err = nil, internal()
			}
		}()
		switch req := req.(type) {
		case *sdk.ListToolsRequest:
			return result(h.list(ctx, req))
		case *sdk.CallToolRequest:
			return result(h.call(ctx, req.Params))
		}
		return next(ctx, method, req)
	}
}

// result keeps a nil pointer from being a result.
func result[R sdk.Result](res R, err error) (sdk.Result, error) {
	if err != nil {
		return nil, err
	}
	return res, nil
}

func internal() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
}

func invalidParams(message string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}

// failure is the error of the protocol for one of the mesh.
func (h *handler) failure(ctx context.Context, err error) error {
	if detail := mesh.DetailOf(err); detail != "" {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: detail}
	}
	h.logger.ErrorContext(ctx, "mcp request failed", "err", err)
	return internal()
}

// list returns a page of the tools, by name. The cursor is the name of the last
// skill before the page, so that changes between two pages neither repeat nor
// hide any other.
func (h *handler) list(ctx context.Context, req *sdk.ListToolsRequest) (*sdk.ListToolsResult, error) {
	after := ""
	if req.Params != nil && req.Params.Cursor != "" {
		name, err := base64.RawURLEncoding.DecodeString(req.Params.Cursor)
		if err != nil {
			return nil, invalidParams("the cursor is none of this server's; list from the beginning")
		}
		after = string(name)
	}
	skills, err := h.backend.List(ctx)
	if err != nil {
		return nil, h.failure(ctx, err)
	}
	if client := req.ClientInfo(); client != nil && client.Name == clientName {
		skills = slices.DeleteFunc(skills, func(s *skill.Skill) bool { return strings.HasPrefix(s.Handler, handlerPrefix) })
	}
	slices.SortFunc(skills, func(a, b *skill.Skill) int { return strings.Compare(a.Name, b.Name) })
	from, found := slices.BinarySearchFunc(skills, after, func(s *skill.Skill, name string) int { return strings.Compare(s.Name, name) })
	if found {
		from++
	}
	schemas, err := h.schemas(ctx, skills[from:min(from+h.pageSize, len(skills))])
	if err != nil {
		return nil, h.failure(ctx, err)
	}
	res := &sdk.ListToolsResult{Tools: []*sdk.Tool{}, Cacheable: sdk.Cacheable{TTLMs: fresh, CacheScope: "private"}}
	size := 0
	for i, s := range skills[from:] {
		schema, own := schemas[s.Name]
		if !own {
			schema = command.Schema(s)
		}
		size += len(schema) + len(s.Description) + len(s.Name)
		if i > 0 && (i == h.pageSize || size > maxPage) {
			res.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(skills[from+i-1].Name))
			break
		}
		tool := &sdk.Tool{Name: command.ToolName(s.Name), Description: s.Description, InputSchema: schema, Annotations: annotations(s)}
		if command.SkillName(tool.Name) == "" { // the name was shortened
			tool.Title = s.Name
		}
		res.Tools = append(res.Tools, tool)
	}
	return res, nil
}

// schemas returns the schemas of those skills that have one of their own, which
// tools of MCP servers do.
func (h *handler) schemas(ctx context.Context, page []*skill.Skill) (map[string]json.RawMessage, error) {
	var names []string
	for _, s := range page {
		if strings.HasPrefix(s.Handler, handlerPrefix) && len(s.Schema) == 0 {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	whole, err := h.backend.Complete(ctx, names)
	if err != nil {
		return nil, err
	}
	schemas := make(map[string]json.RawMessage, len(whole))
	for _, s := range whole {
		schemas[s.Name] = command.Schema(s)
	}
	return schemas, nil
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
