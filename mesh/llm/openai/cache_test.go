package openai_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/openai"
)

const claude = "anthropic/claude-sonnet-4.5"

// bodies makes the requests one after the other and returns what was sent.
func bodies(t *testing.T, c openai.Config, requests ...*llm.Request) []string {
	t.Helper()
	var out []string
	client := serveConfig(t, c, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		out = append(out, string(body))
		s := stream{w, r}
		if strings.HasSuffix(r.URL.Path, "/responses") {
			s.raw(`data: {"type":"response.completed","response":{}}` + "\n\n")
		} else {
			answer(s)
		}
	})
	for _, req := range requests {
		if _, _, _, err := generate(t.Context(), client, req); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// turn is a request of a turn that began after two messages, at its nth call.
func turn(call int) *llm.Request {
	req := &llm.Request{
		System:  "You are ann's agent.\nToday is Monday. She is in Oslo.",
		Context: "Open tasks: none.",
		Messages: []llm.Message{
			{Role: llm.RoleUser, Text: "hello"},
			{Role: llm.RoleAssistant, Text: "Hello, Ann."},
			{Role: llm.RoleUser, Text: "What is due?"},
		},
		Settled: 2,
		Fresh:   fmt.Sprintf("It is 10:0%d.", call),
		Tools:   []llm.Tool{{Name: "b", Description: "B"}, {Name: "a", Parameters: json.RawMessage(`{"type": "object", "properties": {"z": {}, "y": {}}}`)}},
	}
	for i := range call {
		id := fmt.Sprint("c", i)
		req.Messages = append(req.Messages,
			llm.Message{Role: llm.RoleAssistant, Tools: []mesh.ToolUse{{ID: id, Name: "a"}}},
			llm.Message{Role: llm.RoleTool, ToolID: id, Name: "a", Text: "one <task>"})
	}
	return req
}

const (
	hour    = `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
	minutes = `,"cache_control":{"type":"ephemeral"}`
)

// part is a content part.
type part struct {
	Text  string            `json:"text"`
	Cache map[string]string `json:"cache_control"`
}

// parse reads the messages of a request body.
func parse(t *testing.T, body string) (messages []struct {
	Role    string `json:"role"`
	Content []part `json:"content"`
}) {
	t.Helper()
	var o struct{ Messages json.RawMessage }
	if err := json.Unmarshal([]byte(body), &o); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(o.Messages, &messages); err != nil {
		t.Fatalf("%v in %s", err, o.Messages)
	}
	return messages
}

// S3-058, S3-059, S3-060, S3-061, S3-062, S3-063, S3-064, S3-069: two breakpoints, one for an hour after the system
// prompt, and one for minutes after context and history; none on tools, and
// none on what is new.
func TestGenerate_marksWhatAnthropicIsToCache(t *testing.T) {
	ephemeral := map[string]string{"type": "ephemeral"}
	long := map[string]string{"type": "ephemeral", "ttl": "1h"}
	system, context := turn(0).System, turn(0).Context
	tests := map[string]struct {
		change func(r *llm.Request)
		want   [][]part
	}{
		"after the history": {func(*llm.Request) {}, [][]part{
			{{system, long}, {context, nil}}, {{"hello", nil}}, {{"Hello, Ann.", ephemeral}},
			{{"What is due?", nil}, {"It is 10:01.", nil}}, nil, {{"one <task>", nil}},
		}},
		"after the context, in a new conversation": {func(r *llm.Request) { r.Messages, r.Settled = r.Messages[2:3], 0 }, [][]part{
			{{system, long}, {context, ephemeral}}, {{"What is due?", nil}, {"It is 10:01.", nil}},
		}},
		"without context": {func(r *llm.Request) { r.Context, r.Messages, r.Settled = "", r.Messages[2:3], 0 }, [][]part{
			{{system, long}}, {{"What is due?", nil}, {"It is 10:01.", nil}},
		}},
		"without system": {func(r *llm.Request) { r.System, r.Messages, r.Settled, r.Fresh = "", r.Messages[2:3], 0, "" }, [][]part{
			{{context, ephemeral}}, {{"What is due?", nil}},
		}},
		"with nothing but messages": {func(r *llm.Request) {
			r.System, r.Context, r.Messages, r.Settled, r.Fresh = "", "", r.Messages[2:3], 0, ""
		}, [][]part{
			{{"What is due?", nil}},
		}},
		"when nobody has spoken": {func(r *llm.Request) { r.Messages, r.Settled = r.Messages[1:2], 1 }, [][]part{
			{{system, long}, {context, nil}}, {{"Hello, Ann.", ephemeral}}, {{"It is 10:01.", nil}},
		}},
		"after a settled result": {func(r *llm.Request) { r.Settled, r.Fresh = 5, "" }, [][]part{
			{{system, long}, {context, nil}}, {{"hello", nil}}, {{"Hello, Ann.", nil}}, {{"What is due?", nil}}, nil, {{"one <task>", ephemeral}},
		}},
		"before a call without text": {func(r *llm.Request) { r.Settled, r.Messages, r.Fresh = 4, r.Messages[:4], "" }, [][]part{
			{{system, long}, {context, nil}}, {{"hello", nil}}, {{"Hello, Ann.", nil}}, {{"What is due?", ephemeral}}, nil,
		}},
		"before what changes, even if it is called settled": {func(r *llm.Request) { r.Settled = 99 }, [][]part{
			{{system, long}, {context, nil}}, {{"hello", nil}}, {{"Hello, Ann.", ephemeral}},
			{{"What is due?", nil}, {"It is 10:01.", nil}}, nil, {{"one <task>", nil}},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req := turn(1)
			tt.change(req)
			body := bodies(t, openai.Config{Model: claude}, req)[0]
			var got [][]part
			for _, m := range parse(t, body) {
				got = append(got, m.Content)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			_, tools, _ := strings.Cut(body, `"tools":`)
			if strings.Contains(tools, "cache_control") || strings.Count(body, "cache_control") > 4 {
				t.Errorf("breakpoints in %s", body)
			}
		})
	}
}

// S3-058, S3-059, S3-063: the requests of a turn are the same bytes up to the
// last breakpoint, and the same tools; the next turn's are so but for the
// breakpoint, which has moved on.
func TestGenerate_prefixesAreTheSameBytes(t *testing.T) {
	next := turn(1)
	next.Messages = append(next.Messages, llm.Message{Role: llm.RoleAssistant, Text: "Nothing."}, llm.Message{Role: llm.RoleUser, Text: "Thanks"})
	next.Settled = 6
	slices.Reverse(next.Tools)
	sent := bodies(t, openai.Config{Model: claude, Extra: map[string]any{"provider": map[string]any{"sort": "price", "order": []string{"a"}}}}, turn(0), turn(1), turn(2), next)

	at := strings.LastIndex(sent[0], minutes)
	if !strings.HasPrefix(sent[0], `{"messages":`) || strings.Count(sent[0][:at], hour) != 1 {
		t.Fatalf("body %s", sent[0])
	}
	settled := sent[0][:at+len(minutes)]
	for i, body := range sent[1:3] {
		if !strings.HasPrefix(body, settled) || strings.Contains(body[len(settled):], "cache_control") {
			t.Errorf("call %d differs before the breakpoint:\n%s\n%s", i+2, settled, body)
		}
	}
	unmarked := strings.ReplaceAll(settled, minutes, "")
	if !strings.HasPrefix(strings.ReplaceAll(sent[3], minutes, ""), unmarked) {
		t.Errorf("the next turn differs:\n%s\n%s", unmarked, sent[3])
	}
	_, tools, _ := strings.Cut(sent[0], `"model":`)
	for _, body := range sent[1:] {
		if _, other, _ := strings.Cut(body, `"model":`); other != tools {
			t.Errorf("tools and settings differ:\n%s\n%s", tools, other)
		}
	}
	if a, b := strings.Index(tools, `"name":"a"`), strings.Index(tools, `"name":"b"`); a < 0 || b < a {
		t.Errorf("tools are not sorted: %s", tools)
	}
}

// Providers that cache by themselves are sent plain text, and the same bytes
// before what is new too.
func TestGenerate_sendsPlainTextToOthers(t *testing.T) {
	plain := map[string]openai.Config{
		"auto":      {Model: "openai/gpt-4.1"},
		"none":      {Model: claude, Cache: openai.CacheNone},
		"responses": {Model: claude, API: openai.APIResponses},
	}
	for name, c := range plain {
		t.Run(name, func(t *testing.T) {
			sent := bodies(t, c, turn(0), turn(1))
			for _, body := range sent {
				if strings.Contains(body, "cache_control") || !strings.Contains(body, `Oslo.\n\nOpen tasks: none."`) {
					t.Errorf("body %s", body)
				}
			}
			if c.API != "" {
				return
			}
			_, first, _ := strings.Cut(sent[0], `"messages":`)
			_, second, _ := strings.Cut(sent[1], `"messages":`)
			settled, _, ok := strings.Cut(first, `It is 10:00.`)
			if !ok || !strings.HasPrefix(second, settled) {
				t.Errorf("the prefix differs:\n%s\n%s", first, second)
			}
			if !strings.Contains(first, `{"role":"user","content":"What is due?\n\nIt is 10:00."}`) {
				t.Errorf("what is fresh is not at the end of the last message, in one text: %s", first)
			}
		})
	}
	for name, c := range map[string]openai.Config{
		"told to":   {Model: "my-own", Cache: openai.CacheAnthropic},
		"by name":   {Model: "bedrock/Claude-3"},
		"by vendor": {Model: "anthropic/whatever"},
	} {
		if body := bodies(t, c, turn(0))[0]; strings.Count(body, "cache_control") != 2 {
			t.Errorf("%s: %s", name, body)
		}
	}
	// The model that counts is the request's own (S3-064).
	req := turn(0)
	req.Model = "claude-haiku"
	if body := bodies(t, openai.Config{Model: "big"}, req)[0]; !strings.Contains(body, "cache_control") || !strings.Contains(body, `"model":"claude-haiku"`) {
		t.Errorf("body %s", body)
	}
}

// promptCache is a provider that caches prefixes as Anthropic does: it keeps
// what comes before each breakpoint, and reads the longest that it has. A word
// counts as a token.
type promptCache map[[32]byte]int

func (c promptCache) use(t *testing.T, body string) (prompt, cached, written int) {
	var o struct{ Tools json.RawMessage }
	if err := json.Unmarshal([]byte(body), &o); err != nil {
		t.Error(err)
	}
	prefix, marks := string(o.Tools), []string(nil)
	for _, m := range parse(t, body) {
		prefix += " " + m.Role
		for _, p := range m.Content {
			prefix += " " + p.Text
			if p.Cache != nil {
				marks = append(marks, prefix)
			}
		}
	}
	for _, at := range slices.Backward(marks) {
		if n := c[sha256.Sum256([]byte(at))]; n > 0 {
			cached = n
			break
		}
	}
	for _, at := range marks {
		n := len(strings.Fields(at))
		written = max(written, n-cached)
		c[sha256.Sum256([]byte(at))] = n
	}
	return len(strings.Fields(prefix)), cached, max(written, 0)
}

// S3-065, S3-066, S3-067: the first call of a turn writes the context, all
// later ones read it and the system prompt; another conversation reads the
// system prompt. The figures come with each reply.
func TestGenerate_laterCallsReadWhatTheFirstWrote(t *testing.T) {
	cache := promptCache{}
	c := serveConfig(t, openai.Config{Model: claude}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		prompt, cached, written := cache.use(t, string(body))
		s := stream{w, r}
		s.event(`{"content":"hi"}`, "stop")
		s.raw(fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d}}}`+"\n\n", prompt, cached, written))
	})
	use := func(req *llm.Request) mesh.Usage {
		_, _, done, err := generate(t.Context(), c, req)
		if err != nil {
			t.Fatal(err)
		}
		return done.Usage
	}
	first := use(turn(0))
	if first.Cached != 0 || first.CacheWrite == 0 || first.Prompt <= first.CacheWrite {
		t.Errorf("the first call used %+v", first)
	}
	for call := 1; call < 3; call++ {
		if u := use(turn(call)); u.Cached != first.CacheWrite || u.CacheWrite != 0 {
			t.Errorf("call %d used %+v after %+v", call+1, u, first)
		}
	}
	other := turn(0)
	other.Context = "Open tasks: one."
	system := int64(len(strings.Fields(`[{"function"...}] system ` + other.System)))
	if u := use(other); u.Cached < system || u.Cached >= first.CacheWrite || u.CacheWrite == 0 {
		t.Errorf("another conversation used %+v", u)
	}
}
