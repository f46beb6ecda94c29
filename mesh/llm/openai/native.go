package openai

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// natives are the tools that known providers run themselves over the Responses API, each by
// the names by which it may be asked for, with the type by which the provider knows it:
// others have spelled it as Google does (google_search, url_context, code_execution).
//
//   - OpenAI: https://platform.openai.com/docs/guides/tools; its search opens pages too.
//   - OpenRouter: https://openrouter.ai/docs/guides/features/server-tools
//   - xAI: https://docs.x.ai/developers/tools/overview
//
// Google's own OpenAI-compatible endpoint has chat completions alone, and none of these.
var natives = map[string]map[string]string{
	"api.openai.com": {
		"web_search": "web_search", "google_search": "web_search", "url_context": "web_search", "web_fetch": "web_search",
		"code_interpreter": "code_interpreter", "code_execution": "code_interpreter",
	},
	"openrouter.ai": {
		"web_search": "openrouter:web_search", "google_search": "openrouter:web_search",
		"web_fetch": "openrouter:web_fetch", "url_context": "openrouter:web_fetch",
	},
	"api.x.ai": {
		"web_search": "web_search", "google_search": "web_search", "url_context": "web_search", "web_fetch": "web_search",
		"x_search":         "x_search",
		"code_interpreter": "code_interpreter", "code_execution": "code_interpreter",
	},
}

// spellings are the names that stand for one another where the operator says which tools
// an endpoint has.
var spellings = [][]string{
	{"web_search", "google_search"},
	{"web_fetch", "url_context"},
	{"code_interpreter", "code_execution"},
}

// wants are the parameters without which a provider refuses a tool.
var wants = map[string]map[string]any{
	"code_interpreter": {"container": map[string]any{"type": "auto"}},
}

// nativeTools returns the tools of the endpoint by the names by which they may be asked for:
// those that the operator names, or else those of known hosts. Chat completions have none.
func nativeTools(c Config) map[string]string {
	if c.API == APIChat {
		return nil
	}
	if c.NativeTools == nil {
		u, err := url.Parse(c.BaseURL)
		if err != nil {
			return nil
		}
		return natives[strings.TrimPrefix(strings.ToLower(u.Hostname()), "www.")]
	}
	out := map[string]string{}
	for _, name := range c.NativeTools {
		for _, same := range spellings {
			if slices.Contains(same, name) {
				for _, other := range same {
					out[other] = cmp.Or(out[other], name)
				}
			}
		}
	}
	for _, name := range c.NativeTools { // its own name first
		out[name] = name
	}
	return out
}

// Offers reports whether the endpoint has the native tool.
func (c *Client) Offers(tool string) bool { return c.natives[tool] != "" }

// nativesOf returns the tools of the request as the provider knows them, each once and in
// order, so that they are the same bytes each time. What it does not have is left out.
func (c *Client) nativesOf(req *llm.Request) []openai.ResponseTool {
	var types []string
	for _, name := range req.NativeTools {
		if t := c.natives[name]; t != "" {
			types = append(types, t)
		}
	}
	slices.Sort(types)
	var out []openai.ResponseTool
	for _, t := range slices.Compact(types) {
		out = append(out, openai.ResponseTool{Type: openai.ToolType(t), Parameters: wants[t]})
	}
	return out
}

// Bounds of what one reply tells of native tools.
const (
	maxNative  = 64
	maxSources = 20
	maxURL     = 2 << 10 // bytes
	maxTitle   = 200     // bytes
)

// A nativeItem is an item of a reply that a tool of the provider left.
type nativeItem struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Code   string `json:"code"`  // of code_interpreter_call
	Input  string `json:"input"` // of calls that gateways tell of
	Action struct {
		Type    string   `json:"type"` // search, open_page or find_in_page
		Query   string   `json:"query"`
		Queries []string `json:"queries"`
		URL     string   `json:"url"`
		Pattern string   `json:"pattern"`
	} `json:"action"`
	Queries []string `json:"queries"` // of file_search_call
}

// addNative takes in an item of a tool that the provider ran: a type that ends with "_call"
// but is not a call of a function.
func (r *responsesReply) addNative(item outputItem) {
	tool, isCall := strings.CutSuffix(item.Type, "_call")
	var in nativeItem
	if !isCall || json.Unmarshal(item.raw, &in) != nil || r.used == maxNative {
		return
	}
	r.used++
	r.natives = append(r.natives, llm.NativeUse{
		ID: in.ID, Tool: tool, Failed: in.Status == "failed" || in.Status == "incomplete",
		Detail: mesh.Clip(in.detail(), llm.MaxNativeDetail-len("…")),
	})
	r.keep(item.raw) // the thoughts beside it are refused without it
}

func (in nativeItem) detail() string {
	a := in.Action
	what := cmp.Or(a.Query, strings.Join(a.Queries, "; "), strings.Join(in.Queries, "; "), in.Code, in.Input)
	switch {
	case a.Type == "find_in_page" && a.Pattern != "":
		return a.Pattern + " in " + a.URL
	case what == "":
		return a.URL
	}
	return what
}

// An annotation says what a part of the text is based on.
type annotation struct {
	Type  string `json:"type"`
	URL   string `json:"url"`
	Title string `json:"title"`
}

// cite keeps the pages that the text names as its sources, which come one by one or as a
// list. What cannot be read is passed over: the text is there all the same.
func (r *responsesReply) cite(raw json.RawMessage) {
	var one annotation
	var all []annotation
	if json.Unmarshal(raw, &all) != nil && json.Unmarshal(raw, &one) == nil {
		all = []annotation{one}
	}
	for _, a := range all {
		u, err := url.Parse(a.URL)
		known := slices.ContainsFunc(r.done.Sources, func(s llm.Source) bool { return s.URL == a.URL })
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(a.URL) > maxURL || known || len(r.done.Sources) == maxSources {
			continue
		}
		r.done.Sources = append(r.done.Sources, llm.Source{URL: a.URL, Title: mesh.Clip(strings.Join(strings.Fields(a.Title), " "), maxTitle)})
	}
}
