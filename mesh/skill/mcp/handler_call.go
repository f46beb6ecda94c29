package mcp

import (
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
)

// A calling is a call on its way through the SDK.
type calling struct {
	tool string
	// asked is what a client is told that is not able to ask its user; nil as long as
	// none is to.
	asked *sdk.CallToolResult
}

type callingKey struct{}

// call runs a skill. What a model can mend or has to know is a result; the
// protocol's errors are for clients.
func (s *server) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	of := ctx.Value(callingKey{}).(*calling)
	call, err := callOf(req.Params)
	if err != nil {
		return nil, err
	}
	if token := req.Params.GetProgressToken(); token != nil {
		call.Progress = progressTo(ctx, req.Session, token)
	}
	ctx, cancel := as(ctx, req.Extra)
	defer cancel()
	if call.Skill, err = s.skillOf(ctx, of.tool); err != nil {
		return nil, s.failure(ctx, err)
	}
	out, err := s.backend.Run(ctx, call)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, ctx.Err()
	case mesh.IsCode(err, mesh.NotFound):
		return nil, invalidParams("unknown tool '" + line(of.tool, maxTitle) + "'; list the tools")
	case err != nil && mesh.DetailOf(err) == "":
		return nil, s.failure(ctx, err)
	case err != nil:
		told := mesh.DetailOf(err)
		if field := mesh.FieldOf(err); field != "" {
			told = field + ": " + told
		}
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: told}}}, nil
	}
	told := answer(out, versionOf(req.Session))
	if out.Asks != "" && asksUsers(req) {
		of.asked = told
		return elicit(out, call.RequestID), nil
	}
	return told, nil
}

// callOf reads what is asked for, but for the tool's name.
func callOf(params *sdk.CallToolParamsRaw) (*Call, error) {
	call := &Call{Args: map[string]any{}}
	if len(params.Arguments) > 0 {
		if err := json.Unmarshal(params.Arguments, &call.Args); err != nil {
			return nil, invalidParams("arguments must be an object")
		}
	}
	key, has := params.Meta[MetaKey]
	if params.RequestState != "" {
		var state string
		state, call.ReplyTo, _ = strings.Cut(params.RequestState, " ")
		key, has = state, true
		call.Reply = replyOf(params.InputResponses)
	}
	if !has {
		call.RequestID = mesh.NewEventID()
		return call, nil
	}
	id, ok := key.(string)
	printable := func(r rune) bool { return r > ' ' && r <= '~' }
	if !ok || id == "" || len(id) > maxKey || strings.ContainsFunc(id, func(r rune) bool { return !printable(r) }) {
		return nil, invalidParams("_meta['" + MetaKey + "'] must be 1 to 128 printable characters of ASCII without spaces")
	}
	call.RequestID = id
	return call, nil
}

// progressTo tells a client of progress: the numbers grow, as the protocol wants it.
func progressTo(ctx context.Context, session *sdk.ServerSession, token any) func(skill.Progress) {
	last := 0.0
	return func(p skill.Progress) {
		params := &sdk.ProgressNotificationParams{ProgressToken: token, Message: p.Text, Progress: p.Done, Total: p.Total}
		if params.Progress <= last {
			params.Progress = last + 1
		}
		if params.Total < params.Progress {
			params.Total = 0 // not known
		}
		last = params.Progress
		_ = session.NotifyProgress(ctx, params) // who went away hears nothing
	}
}

// skillOf returns the skill that the tool is named for. Of a name that was
// shortened it is one of those that the caller may call; where there is none, the
// name itself is returned, which is no skill's.
func (s *server) skillOf(ctx context.Context, tool string) (string, error) {
	if name := command.SkillName(tool); name != "" {
		return name, nil
	}
	skills, err := s.backend.List(ctx)
	if err != nil {
		return "", err
	}
	for _, one := range skills {
		if command.ToolName(one.Name) == tool {
			return one.Name, nil
		}
	}
	return tool, nil
}

// versionOf is the version of the protocol that a session speaks.
func versionOf(session *sdk.ServerSession) string {
	if p := session.InitializeParams(); p != nil {
		return p.ProtocolVersion
	}
	return ""
}

// answer tells what came of a run.
func answer(out *Outcome, version string) *sdk.CallToolResult {
	text, about := out.Text, map[string]any{}
	if out.Asks != "" {
		text = question(out)
	}
	if len(out.Files) > 0 {
		text = strings.TrimSpace(text + "\n\nFiles: " + strings.Join(out.Files, ", "))
		about["files"] = out.Files
	}
	if out.Task != "" {
		about["task"] = out.Task
	}
	res := &sdk.CallToolResult{IsError: out.Failed || out.Asks != "", Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	for _, p := range out.Parts {
		if c := contentFrom(p); c != nil {
			res.Content = append(res.Content, c)
		}
	}
	res.StructuredContent = structured(out.Metadata, version)
	if len(about) > 0 {
		res.Meta = sdk.Meta{MetaResult: about}
	}
	return res
}

// structured is what a skill says for programs; of a tool of an MCP server, what that
// said so. Versions before 2026-07-28 have objects alone.
func structured(metadata map[string]any, version string) any {
	if len(metadata) == 0 {
		return nil
	}
	value, own := metadata[Structured]
	if !own || len(metadata) > 1 {
		return metadata
	}
	if _, object := value.(map[string]any); !object && version < stateless {
		return nil
	}
	return value
}

// question tells a model that its call waits for the user, and for what.
func question(out *Outcome) string {
	text := "Not done yet: the user has to approve it first. The question is:\n" + out.Asks
	if out.Task != "" {
		text += "\n\nThe user's answer goes to task " + out.Task + ", as by: mesh send --task " + out.Task +
			" \"Yes\". The skill then runs as it was called; do not call it again for that."
	}
	return text
}
