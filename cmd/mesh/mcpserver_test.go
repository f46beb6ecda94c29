package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// asMCP makes the test binary an MCP server on its standard streams.
const asMCP = "mcp"

// tellTest tells the server of the test, and returns what it says.
func tellTest(what string) string {
	resp, err := http.Post(os.Getenv("MCP_TELL"), "text/plain", bytes.NewBufferString(what))
	if err != nil {
		return ""
	}
	said, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return string(said)
}

// sizes is what the tool draw says for programs.
type sizes struct {
	Width int `json:"width"`
}

// addRich adds tools that give all kinds of content, tell how far they are, want the
// user's approval, and do not keep to what they promise.
func addRich(server *mcpsdk.Server) {
	type none struct{}
	draw := func(context.Context, *mcpsdk.CallToolRequest, none) (*mcpsdk.CallToolResult, sizes, error) {
		return &mcpsdk.CallToolResult{Content: []mcpsdk.Content{
			&mcpsdk.TextContent{Text: "A chart."},
			&mcpsdk.ImageContent{MIMEType: "image/png", Data: []byte("a picture")},
			&mcpsdk.AudioContent{MIMEType: "audio/wav", Data: []byte("a sound")},
			&mcpsdk.ResourceLink{URI: "https://example.com/chart", Name: "chart", MIMEType: "text/html"},
			&mcpsdk.EmbeddedResource{Resource: &mcpsdk.ResourceContents{URI: "x://note", MIMEType: "text/plain", Text: "a note"}},
			&mcpsdk.EmbeddedResource{Resource: &mcpsdk.ResourceContents{URI: "x://blob", MIMEType: "application/zip", Blob: []byte("a zip")}},
		}}, sizes{Width: 2}, nil
	}
	mcpsdk.AddTool(server, &mcpsdk.Tool{Name: "draw", Description: "Draws a chart."}, draw)
	type in struct {
		Word string `json:"word"`
	}
	mcpsdk.AddTool(server, &mcpsdk.Tool{Name: "count", Description: "Counts until somebody has heard of it."},
		func(ctx context.Context, req *mcpsdk.CallToolRequest, args in) (*mcpsdk.CallToolResult, any, error) {
			for n := 1; tellTest("step "+args.Word) != "enough" && ctx.Err() == nil; n++ {
				if token := req.Params.GetProgressToken(); token != nil {
					_ = req.Session.NotifyProgress(ctx, &mcpsdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(n), Message: "counting"})
				}
				time.Sleep(20 * time.Millisecond)
			}
			return &mcpsdk.CallToolResult{Content: []mcpsdk.Content{&mcpsdk.TextContent{Text: "Enough."}}}, nil, nil
		})
	yes := true
	mcpsdk.AddTool(server, &mcpsdk.Tool{Name: "erase", Description: "Erases a word.", Annotations: &mcpsdk.ToolAnnotations{DestructiveHint: &yes}},
		func(_ context.Context, _ *mcpsdk.CallToolRequest, args in) (*mcpsdk.CallToolResult, any, error) {
			tellTest("erased " + args.Word)
			return &mcpsdk.CallToolResult{Content: []mcpsdk.Content{&mcpsdk.TextContent{Text: "Erased " + args.Word + "."}}}, nil, nil
		})
	object := map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}, "required": []any{"n"}}
	server.AddTool(&mcpsdk.Tool{Name: "lie", Description: "Breaks its promise.", InputSchema: map[string]any{"type": "object"}, OutputSchema: object},
		func(context.Context, *mcpsdk.CallToolRequest) (*mcpsdk.CallToolResult, error) {
			return &mcpsdk.CallToolResult{Content: []mcpsdk.Content{&mcpsdk.TextContent{Text: "Done."}}, StructuredContent: map[string]any{"n": "x"}}, nil
		})
	server.AddTool(&mcpsdk.Tool{Name: "huge", Description: "Draws too much.", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *mcpsdk.CallToolRequest) (*mcpsdk.CallToolResult, error) {
			return &mcpsdk.CallToolResult{Content: []mcpsdk.Content{&mcpsdk.ImageContent{MIMEType: "image/png", Data: make([]byte, 3<<20)}}}, nil
		})
}

// runMCP serves tools: one that looks up, one that always fails, and one
// that tells a server of the test that it began, and then does not end. What
// is in MCP_POISON is part of what it says, everywhere; MCP_TOKEN is refused: it is on its
// standard error, among its messages and in what fails.
func runMCP() int {
	poison, token := os.Getenv("MCP_POISON"), os.Getenv("MCP_TOKEN")
	if token != "" {
		fmt.Fprintln(os.Stderr, "the token", token, "is refused")
		fmt.Println("no message:", token)
	}
	type in struct {
		Word string `json:"word" jsonschema:"the word to look up"`
	}
	text := func(s string) *mcpsdk.CallToolResult {
		return &mcpsdk.CallToolResult{Content: []mcpsdk.Content{&mcpsdk.TextContent{Text: s}}}
	}
	server := mcpsdk.NewServer(&mcpsdk.Implementation{Name: "words", Version: "1"}, nil)
	mcpsdk.AddTool(server, &mcpsdk.Tool{Name: "lookUp", Description: "Looks up a word in the glossary.\n" + poison,
		Annotations: &mcpsdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcpsdk.CallToolRequest, args in) (*mcpsdk.CallToolResult, any, error) {
			return text("The word " + args.Word + " means harbour. " + poison), nil, nil
		})
	mcpsdk.AddTool(server, &mcpsdk.Tool{Name: "break", Description: "Always fails."},
		func(context.Context, *mcpsdk.CallToolRequest, struct{}) (*mcpsdk.CallToolResult, any, error) {
			return nil, nil, fmt.Errorf("the glossary is broken%s", token)
		})
	mcpsdk.AddTool(server, &mcpsdk.Tool{Name: "print", Description: "Prints a word on paper, slowly."},
		func(ctx context.Context, _ *mcpsdk.CallToolRequest, args in) (*mcpsdk.CallToolResult, any, error) {
			tellTest(args.Word)
			<-ctx.Done()
			if os.Getenv("MCP_TELL_ALL") != "" {
				tellTest("no more " + args.Word)
			}
			return text("printed"), nil, nil
		})
	addRich(server)
	if err := server.Run(context.Background(), &mcpsdk.StdioTransport{}); err != nil {
		return exitFailure
	}
	return exitOK
}

// mcpYAML configures this binary as the MCP server words, with more
// environment.
func mcpYAML(t *testing.T, env map[string]string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprintf("mcp:\n  servers:\n    words:\n      command: [%q]\n      env:\n        %s: %s\n        GORACE: %q\n", self, asCommand, asMCP, raceOptions())
	for k, v := range env {
		out += fmt.Sprintf("        %s: %q\n", k, v)
	}
	return out
}
