package openai_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/llm/openai"
)

// What is sloppy but clear is read as it is meant.
func TestGenerate_readsSloppyStreams(t *testing.T) {
	const one, two = `{"choices":[{"index":0,"delta":{"content":"one "}}]}`, `{"choices":[{"delta":{"content":"two"},"finish_reason":"stop"}]}`
	tests := map[string]string{
		"as it should be":             "data: " + one + "\n\ndata: " + two + "\n\ndata: [DONE]\n\n",
		"with CRLF":                   "data: " + one + "\r\n\r\ndata: " + two + "\r\n\r\ndata: [DONE]\r\n\r\n",
		"with a BOM":                  "\ufeffdata: " + one + "\n\ndata: " + two + "\n\n",
		"without spaces":              "data:" + one + "\n\ndata:" + two + "\n\ndata:[DONE]\n\n",
		"without blank lines":         "data: " + one + "\ndata: " + two + "\ndata: [DONE]\n",
		"without an end of line":      "data: " + one + "\n\ndata: " + two,
		"an event of many lines":      "data: {\"choices\":\ndata: [{\"delta\":\ndata: {\"content\":\"one \"}}]}\n\ndata: " + two + "\n\n",
		"an empty event":              "data:" + "\n\ndata: " + one + "\n\ndata: " + "\n\ndata: " + two + "\n\n",
		"fields that nobody knows":    "hello: you\ndata: " + one + "\nwhatever\n\ndata: " + two + "\n\n",
		"comments of many kinds":      ":\n: x\n:data: {\n\ndata: " + one + "\n: " + strings.Repeat("x", 1<<16) + "\ndata: " + two + "\n\n",
		"NUL in a comment":            ": \x00\n\ndata: " + one + "\n\ndata: " + two + "\n\n",
		"empty choices":               "data: {\"choices\":[]}\n\ndata: {\"choices\":null}\n\ndata: {}\n\ndata: " + one + "\n\ndata: " + two + "\n\ndata: {\"choices\":[],\"usage\":null}\n\n",
		"an answer beside the first":  "data: " + one + "\n\ndata: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"},\"finish_reason\":\"length\"}]}\n\ndata: " + two + "\n\n",
		"fields of the wrong type":    "data: {\"id\":7,\"created\":1.5,\"object\":null,\"choices\":[{\"delta\":{\"content\":\"one \",\"role\":1}}]}\n\ndata: " + two + "\n\n",
		"nulls":                       "data: {\"model\":null,\"error\":null,\"choices\":[{\"delta\":{\"content\":\"one \",\"tool_calls\":null},\"finish_reason\":null}]}\n\ndata: " + two + "\n\n",
		"usage that cannot be read":   "data: " + one + "\n\ndata: " + two + "\n\ndata: {\"usage\":\"much\"}\n\n",
		"garbage after the end":       "data: " + one + "\n\ndata: " + two + "\n\ndata: <html>\n\n",
		"an error after the end":      "data: " + one + "\n\ndata: " + two + "\n\ndata: {\"error\":{\"message\":\"late\"}}\n\n",
		"thoughts before the answer":  "data: {\"choices\":[{\"delta\":{\"reasoning\":\"hm\"}}]}\n\ndata: " + one + "\n\ndata: " + two + "\n\n",
		"more after the marked end":   "data: " + one + "\n\ndata: " + two + "\n\ndata: [DONE]\n\ndata: " + one + "\n\n",
		"a tab before, spaces behind": "data:\t" + one + "  \n\ndata: " + two + "\t\n\n",
	}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(s stream) { s.raw(body) })
			texts, _, done, err := generate(t.Context(), c, hello())
			if got := strings.Join(texts, ""); err != nil || got != "one two" || done == nil || done.Finish != "stop" {
				t.Errorf("got %q, %v, %v", got, done, err)
			}
		})
	}
}

// What is no reply is an error, soon and within bounds, however long it goes on.
func TestGenerate_refusesNonsense(t *testing.T) {
	const foreign = "not the OpenAI protocol"
	forever := func(piece string) func(s stream) {
		return func(s stream) {
			for s.r.Context().Err() == nil {
				s.raw(piece)
			}
		}
	}
	tests := map[string]struct {
		reply  func(s stream)
		detail string
	}{
		"a web page":          {func(s stream) { s.raw("<!DOCTYPE html>\n<html><body>Sign in</body></html>\n") }, foreign},
		"a web page, CRLF":    {func(s stream) { s.raw("<html>\r\n\r\n") }, foreign},
		"a web page for ever": {forever("<p>more</p>\n"), foreign},
		"a line for ever":     {forever(strings.Repeat("x", 1<<16)), foreign},
		"an event for ever":   {forever("data: {\n"), foreign},
		"too many lines": {func(s stream) {
			s.raw("data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}\n" + strings.Repeat("data:\n", 100) + "data: ]}\n\n")
		}, foreign},
		"a huge event":           {func(s stream) { s.raw("data: \"" + strings.Repeat("x", 5<<20) + "\"\n\n") }, foreign},
		"half an event":          {func(s stream) { s.raw("data: {\"choices\":[{\"delta\":{\"content\":\"x\n\n") }, foreign},
		"half an event, cut":     {func(s stream) { s.raw("data: {\"choices\":[{\"delta\":{\"content\":\"x") }, "cut off"},
		"a number for text":      {func(s stream) { s.event(`{"content":7}`, "stop") }, foreign},
		"a text for choices":     {func(s stream) { s.raw("data: {\"choices\":\"hi\"}\n\n") }, foreign},
		"a list":                 {func(s stream) { s.raw("data: [1]\n\n") }, foreign},
		"a NUL in an event":      {func(s stream) { s.event("{\"content\":\"\x00\"}", "stop") }, foreign},
		"NULs":                   {func(s stream) { s.raw(strings.Repeat("\x00", 100)) }, foreign},
		"a reply without stream": {func(s stream) { s.raw(`{"choices":[{"message":{"content":"hi"}}]}`) }, foreign},
		"an error without":       {func(s stream) { s.raw("{\n \"error\": {\"message\": \"no such thing\",\n \"code\": 400}\n}") }, "refused the request: no such thing"},
		"nothing":                {func(stream) {}, "cut off"},
		"only the mark":          {func(s stream) { s.raw("data: [DONE]\n\n") }, "cut off"},
		"no choices at all":      {func(s stream) { s.raw("data: {\"choices\":[]}\n\ndata: [DONE]\n\n") }, "cut off"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serveConfig(t, openai.Config{Key: key, Model: "big", MaxRetries: -1}, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				tt.reply(stream{w, r})
			})
			texts, calls, done, err := generate(t.Context(), c, hello())
			if !strings.Contains(mesh.DetailOf(err), tt.detail) {
				t.Errorf("error %v, want %q", err, tt.detail)
			}
			if done != nil || len(texts)+len(calls) > 0 {
				t.Errorf("got %q, %v, %v", texts, calls, done)
			}
		})
	}
}

// What a provider says is told on one line, clipped, and without control
// characters, our key or what looks like one, also in what the operator reads.
func TestGenerate_makesProviderTextsSafe(t *testing.T) {
	said := "no\n\tgood \x1b[31mred\u202e " + key + " Bearer abc.def sk-proj-aaaa****bbbb AIza" + strings.Repeat("Z", 35) + " " + strings.Repeat("long ", 200)
	tests := map[string]func(s stream){
		"inside a stream":   func(s stream) { s.raw(fmt.Sprintf("data: {\"error\":{\"message\":%s}}\n\n", jsonText(said))) },
		"as the body":       func(s stream) { fail(s, 400, fmt.Sprintf(`{"error":{"message":%s}}`, jsonText(said))) },
		"as a text":         func(s stream) { fail(s, 500, fmt.Sprintf(`{"error":%s}`, jsonText(said))) },
		"as a detail":       func(s stream) { fail(s, 422, fmt.Sprintf(`{"detail":[{"msg":%s}]}`, jsonText(said))) },
		"as a message":      func(s stream) { fail(s, 401, fmt.Sprintf(`{"message":%s}`, jsonText(said))) },
		"instead of events": func(s stream) { s.raw("no " + key + "\n") },
	}
	for name, reply := range tests {
		t.Run(name, func(t *testing.T) {
			c := serveConfig(t, openai.Config{Key: key, Model: "big", MaxRetries: -1}, func(w http.ResponseWriter, r *http.Request) { reply(stream{w, r}) })
			_, _, _, err := generate(t.Context(), c, hello())
			detail := mesh.DetailOf(err)
			if all := fmt.Sprint(err); !strings.Contains(all, "no") || !strings.Contains(all, "[key]") {
				t.Errorf("the text is lost: %q", all)
			}
			for _, secret := range []string{key, "abc.def", "aaaa", "ZZZ", "\n", "\t", "\x1b", "\u202e"} {
				if strings.Contains(fmt.Sprint(err), secret) {
					t.Errorf("%q is in %q", secret, err)
				}
			}
			if n := len([]rune(detail)); n > 500 {
				t.Errorf("detail of %d characters", n)
			}
			for e := errors.Unwrap(err); e != nil; e = errors.Unwrap(e) {
				if strings.Contains(e.Error(), key) {
					t.Errorf("the key is in the cause %q", e)
				}
			}
		})
	}
}

// Whatever a server sends, the reply ends with Done or an error of the mesh,
// and nothing after it.
func FuzzGenerate(f *testing.F) {
	for _, seed := range []string{
		"data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\n",
		"data: {\"error\":{\"message\":\"" + key + "\",\"code\":\"x\"}}\r\n\r\n",
		"\ufeff: x\ndata: {\"choices\":\ndata: [{}]}\n\ndata: [DONE]",
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-3,\"id\":\"a\"},{\"function\":{\"name\":\"b\"}}]},\"finish_reason\":\"x\"}],\"usage\":{\"cost\":-1,\"prompt_tokens\":1e300}}\n",
		"event: error\ndata: {\"type\":\"error\",\"code\":7,\"message\":\"m\"}\n\n",
		"data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":1}}}\n\n",
		"data: {\"type\":\"response.incomplete\",\"response\":{\"output\":[{\"type\":\"function_call\"}]}}\n\n", "<html>", "{\"error\":[1]}",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, responses bool) {
		config := openai.Config{BaseURL: "http://fuzz/v1", Key: key, Model: "m", MaxRetries: -1, Transport: always(body)}
		if responses {
			config.API = openai.APIResponses
		}
		c, err := openai.New(config)
		if err != nil {
			t.Fatal(err)
		}
		ended := false
		for chunk, err := range c.Generate(t.Context(), hello()) {
			if ended {
				t.Fatal("something came after the end")
			}
			ended = err != nil || chunk.Done != nil
			var e *mesh.Error
			if err != nil && (!errors.As(err, &e) || e.Detail == "" || strings.Contains(e.Error(), key)) {
				t.Errorf("error %v", err)
			}
			if chunk.Done != nil {
				if u := chunk.Done.Usage; u.Prompt < 0 || u.Completion < 0 || u.Cached < 0 || u.CacheWrite < 0 || !(u.Cost >= 0) {
					t.Errorf("usage %+v", u)
				}
			}
		}
		if !ended {
			t.Error("the reply does not end")
		}
	})
}

// always is a transport that answers with these bytes.
type always []byte

func (b always) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: io.NopCloser(bytes.NewReader(b)), Header: http.Header{}, Request: r}, nil
}

// A network cuts where it likes, also inside of a character: what arrives is
// whole.
func TestGenerate_charactersThatArriveInParts(t *testing.T) {
	const want = "é – 会話 🙂 \u0000"
	c := serve(t, func(s stream) {
		body := "data: {\"choices\":[{\"delta\":{\"content\":\"é – 会話 🙂 \\u0000\",\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"a\",\"arguments\":\"{\\\"q\\\":\\\"会話\\\"}\"}}]},\"finish_reason\":\"stop\"}]}\n\n"
		for i := range len(body) {
			s.raw(body[i : i+1])
		}
	})
	texts, calls, _, err := generate(t.Context(), c, hello())
	if got := strings.Join(texts, ""); err != nil || got != want || len(calls) != 1 || calls[0].Arguments != `{"q":"会話"}` {
		t.Errorf("got %q, %+v, %v", got, calls, err)
	}
}
