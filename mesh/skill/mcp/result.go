package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// Structured is the key of a result's metadata that has the structured content
// of a tool's result.
const Structured = "structured"

// maxTold bounds what is told of a server's error, in bytes.
const maxTold = 500

// result is what a tool's answer means for the mesh.
func (r *remote) result(res *sdk.CallToolResult, promise *output) (*skill.Result, error) {
	if res.NeedsInput() {
		return nil, mesh.Errorf(mesh.Unsupported, "mcp.Execute",
			"the MCP server '%s' asks for input while its tool runs, which is not possible here", r.name)
	}
	out := &skill.Result{Status: skill.StatusOK}
	if res.IsError {
		out.Status = skill.StatusError
	}
	content, parts, whole := contentOf(res.Content, r.maxResult)
	if res.IsError { // which may say what was refused
		content = r.hide.Replace(content)
	}
	out.Content, out.Parts = content, parts
	if res.StructuredContent != nil {
		data, err := json.Marshal(res.StructuredContent)
		switch {
		case err != nil:
			return nil, mesh.Errorf(mesh.Unknown, "mcp.Execute", "the MCP server '%s' sent a result that cannot be read: %w", r.name, err)
		case len(data) <= r.maxResult:
			out.Metadata = map[string]any{Structured: res.StructuredContent}
		}
		if strings.TrimSpace(out.Content) == "" {
			out.Content, whole = clean(mesh.Clip(string(data), r.maxResult)), len(data) <= r.maxResult
		}
	}
	if !whole {
		out.Content += "\n[The result is longer; the rest was dropped.]"
	}
	if strings.TrimSpace(out.Content) == "" {
		out.Content = "The tool returned no content."
	}
	if !res.IsError && (!promise.holds(res.StructuredContent) || promise != nil && out.Metadata == nil) {
		// Whoever reads it by the schema would fail, and call again.
		out.Status, out.Metadata = skill.StatusError, nil
		out.Content += "\n[The tool did its work; do not call it again for this. The MCP server '" + r.name +
			"' gave no structured result of the form that it promises, or one that is too long.]"
	}
	return out, nil
}

// contentOf returns the content as text of about so many bytes at most, what of it
// is passed on as it is, and whether the text is all of it.
func contentOf(content []sdk.Content, most int) (text string, passed []*a2apb.Part, whole bool) {
	var parts []string
	room := maxParts
	for _, c := range content {
		if most <= 0 {
			return strings.Join(parts, "\n"), passed, false
		}
		p := partOf(c)
		if n := proto.Size(p); p != nil && n <= maxPart && n <= room {
			passed, room = append(passed, p), room-n
		} else {
			p = nil
		}
		part, rest := describe(c, p != nil), ""
		switch c := c.(type) {
		case *sdk.TextContent:
			rest = c.Text
		case *sdk.EmbeddedResource:
			if c.Resource != nil {
				rest = c.Resource.Text
			}
		}
		if part != "" {
			parts = append(parts, part)
		}
		if rest != "" {
			part = clean(mesh.Clip(rest, most))
			parts = append(parts, part)
		}
		if len(rest) > most {
			return strings.Join(parts, "\n"), passed, false
		}
		most -= len(part)
	}
	return strings.Join(parts, "\n"), passed, true
}

// describe returns in one line what a piece of content is, and whether it is passed
// on, or "" for text.
func describe(c sdk.Content, passed bool) string {
	end := "; too long to be passed on]"
	if passed {
		end = "]"
	}
	switch c := c.(type) {
	case *sdk.TextContent:
		return ""
	case *sdk.ImageContent:
		return fmt.Sprintf("[image, %s, %d bytes%s", line(c.MIMEType, 100), len(c.Data), end)
	case *sdk.AudioContent:
		return fmt.Sprintf("[audio, %s, %d bytes%s", line(c.MIMEType, 100), len(c.Data), end)
	case *sdk.ResourceLink:
		return fmt.Sprintf("[link to %s: %s]", line(c.URI, 1000), line(c.Name+" "+c.Description, 500))
	case *sdk.EmbeddedResource:
		switch r := c.Resource; {
		case r == nil:
			return "[an empty resource]"
		case r.Text != "":
			return "[resource " + line(r.URI, 1000) + "]"
		default:
			return fmt.Sprintf("[resource %s, %s, %d bytes%s", line(r.URI, 1000), line(r.MIMEType, 100), len(r.Blob), end)
		}
	}
	return "[content of a kind that is not known here]"
}

// Codes of errors that the SDK makes itself.
const (
	codeClientClosing = -32003
	codeServerClosing = -32004
	codeNotSent       = -32005
)

// explain makes an error of the mesh of what went wrong with a call, and says
// whether it casts doubt on the connection or on what is known of the tools.
func (r *remote) explain(err error) (doubt bool, explained error) {
	const op = "mcp.Execute"
	if errors.Is(err, errSlow) {
		return true, mesh.Errorf(mesh.Timeout, op, "the MCP server '%s' did not answer within %v, and it is unknown whether the call had an effect: %w",
			r.name, r.dialer.server.Timeout, err)
	}
	var answer *jsonrpc.Error
	if errors.As(err, &answer) {
		err = errors.New(r.hide.Replace(err.Error()))
		told := line(r.hide.Replace(answer.Message), maxTold)
		switch answer.Code {
		case codeClientClosing, codeServerClosing, codeNotSent:
		case jsonrpc.CodeInvalidParams:
			return true, mesh.Errorf(mesh.Invalid, op, "the MCP server '%s' refused the call: %s: %w", r.name, told, err)
		case jsonrpc.CodeMethodNotFound:
			return true, mesh.Errorf(mesh.Unsupported, op, "the MCP server '%s' does not do that: %s: %w", r.name, told, err)
		default:
			return false, mesh.Errorf(mesh.Unknown, op, "the MCP server '%s' failed to make the call: %s (code %d): %w", r.name, told, answer.Code, err)
		}
	}
	return true, mesh.Errorf(mesh.Unavailable, op, "the connection to the MCP server '%s' failed, and it is unknown whether the call had an effect: %w", r.name, err)
}
