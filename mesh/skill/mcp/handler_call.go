package mcp

import (
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill/command"
)

// call runs a skill. What a model can mend or has to know is a result; the
// protocol's errors are for clients.
func (h *handler) call(ctx context.Context, params *sdk.CallToolParamsRaw) (*sdk.CallToolResult, error) {
	args := map[string]any{}
	if len(params.Arguments) > 0 {
		if err := json.Unmarshal(params.Arguments, &args); err != nil {
			return nil, invalidParams("arguments must be an object")
		}
	}
	key, err := keyOf(params.Meta)
	if err != nil {
		return nil, err
	}
	name, err := h.skillOf(ctx, params.Name)
	if err != nil {
		return nil, h.failure(ctx, err)
	}
	out, err := h.backend.Run(ctx, name, args, key)
	switch {
	case mesh.IsCode(err, mesh.NotFound):
		return nil, invalidParams("unknown tool '" + line(params.Name, maxTitle) + "'; list the tools")
	case err != nil && mesh.DetailOf(err) == "":
		return nil, h.failure(ctx, err)
	case err != nil:
		told := mesh.DetailOf(err)
		if field := mesh.FieldOf(err); field != "" {
			told = field + ": " + told
		}
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: told}}}, nil
	}
	return answer(out), nil
}

// skillOf returns the skill that the tool is named for. Of a name that was
// shortened it is one of those that the caller may call; where there is none, the
// name itself is returned, which is no skill's.
func (h *handler) skillOf(ctx context.Context, tool string) (string, error) {
	if name := command.SkillName(tool); name != "" {
		return name, nil
	}
	skills, err := h.backend.List(ctx)
	if err != nil {
		return "", err
	}
	for _, s := range skills {
		if command.ToolName(s.Name) == tool {
			return s.Name, nil
		}
	}
	return tool, nil
}

// keyOf returns the client's idempotency key, or a new one.
func keyOf(meta sdk.Meta) (string, error) {
	raw, has := meta[MetaKey]
	if !has {
		return mesh.NewEventID(), nil
	}
	key, ok := raw.(string)
	printable := func(r rune) bool { return r > ' ' && r <= '~' }
	if !ok || key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return !printable(r) }) {
		return "", invalidParams("_meta['" + MetaKey + "'] must be 1 to 128 printable characters of ASCII without spaces")
	}
	return key, nil
}

// answer tells what came of a run.
func answer(out *Outcome) *sdk.CallToolResult {
	text, about := out.Text, map[string]any{}
	if out.Asks != "" {
		text = question(out)
	}
	if len(out.Files) > 0 {
		text = strings.TrimSpace(text + "\n\nFiles: " + strings.Join(out.Files, ", "))
		about["files"] = out.Files
	}
	if len(out.Metadata) > 0 {
		about["metadata"] = out.Metadata
	}
	if out.Task != "" {
		about["task"] = out.Task
	}
	res := &sdk.CallToolResult{IsError: out.Failed || out.Asks != "", Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	if len(about) > 0 {
		res.Meta = sdk.Meta{MetaResult: about}
	}
	return res
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
