package tokens_test

import (
	"encoding/base64"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tiktoken-go/tokenizer"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/tokens"
)

func TestText_isCountedWithO200k(t *testing.T) {
	var c tokens.Counter
	for text, want := range map[string]int{
		"":                          0,
		"hello world":               2,
		"The quick brown fox jumps": 5,
		"漢字":                        2,
	} {
		if got := c.Text(text); got != want {
			t.Errorf("%q has %d tokens, want %d", text, got, want)
		}
	}
}

// Texts that are too long to count are estimated: never below, by much, and
// not far above for what people and programs write.
func TestText_hugeTextsAreEstimatedFromAbove(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 66_000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	prose := strings.Repeat("Every conversation is a log, and everything else reads it. ", 1200)
	json := strings.Repeat(`{"id":"c1f0","title":"Renew the certificate","due":"2026-03-01","tags":["ops","tls"]},`, 800)
	encoded := base64.StdEncoding.EncodeToString(noise)
	var c tokens.Counter
	for name, tt := range map[string]struct {
		text  string
		above float64
	}{
		"prose":            {prose, 1.3},
		"JSON":             {json, 1.3},
		"base64":           {encoded, 1.3},
		"wide characters":  {strings.Repeat("会話は記録であり、他はすべてそれを読む。", 1200), 1.3},
		"bytes":            {string(noise), 1.3},
		"prose, then data": {prose + encoded, 4},
		"one letter":       {strings.Repeat("a", 66_000), 1.3},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := codec.Count(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := float64(c.Text(tt.text)); got < 0.99*float64(want) || got > tt.above*float64(want) || got > float64(len(tt.text)) {
				t.Errorf("estimated %v tokens, there are %d in %d bytes", got, want, len(tt.text))
			}
		})
	}
}

// A text never has more tokens than bytes.
func TestText_isBoundedByItsBytes(t *testing.T) {
	var c tokens.Counter
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		if n := c.Text(s); n > len(s) {
			t.Errorf("%q has %d tokens", s, n)
		}
	})
}

// Everything that a request sends is counted: each part makes it larger.
func TestRequest_countsEverything(t *testing.T) {
	var c tokens.Counter
	use := mesh.ToolUse{ID: "call-1", Name: "mail.send", Arguments: `{"to":"bob"}`}
	full := func() *llm.Request {
		return &llm.Request{
			System: "You are an agent.", Context: "Open tasks: 3", Fresh: "It is noon.",
			Messages: []llm.Message{
				{Role: llm.RoleUser, Text: "send it", Name: "ann"}, {Role: llm.RoleAssistant, Text: "yes", Tools: []mesh.ToolUse{use}},
				{Role: llm.RoleTool, ToolID: "call-1", Name: "mail.send", Text: "sent"},
			},
			Tools: []llm.Tool{{Name: "mail.send", Description: "Sends mail.", Parameters: []byte(`{"type":"object"}`)}},
		}
	}
	whole := c.Request(full())
	for name, without := range map[string]func(*llm.Request){
		"system":      func(r *llm.Request) { r.System = "" },
		"context":     func(r *llm.Request) { r.Context = "" },
		"fresh":       func(r *llm.Request) { r.Fresh = "" },
		"a message":   func(r *llm.Request) { r.Messages = r.Messages[:2] },
		"a text":      func(r *llm.Request) { r.Messages[0].Text = "" },
		"a name":      func(r *llm.Request) { r.Messages[0].Name = "" },
		"a call":      func(r *llm.Request) { r.Messages[1].Tools = nil },
		"arguments":   func(r *llm.Request) { r.Messages[1].Tools = []mesh.ToolUse{{ID: "call-1", Name: "mail.send"}} },
		"a tool":      func(r *llm.Request) { r.Tools = nil },
		"parameters":  func(r *llm.Request) { r.Tools[0].Parameters = nil },
		"description": func(r *llm.Request) { r.Tools[0].Description = "" },
	} {
		r := full()
		without(r)
		if n := c.Request(r); n >= whole {
			t.Errorf("without %s there are %d tokens, with it %d", name, n, whole)
		}
	}
	if n := c.Request(&llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: "hello world"}}}); n != 3+4+2 {
		t.Errorf("a small request has %d tokens", n)
	}
}

// One counter serves many goroutines; the first who comes loads it.
func TestCounter_isSafeForConcurrentUse(t *testing.T) {
	var c tokens.Counter
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if n := c.Text("hello world"); n != 2 {
				t.Errorf("counted %d", n)
			}
		})
	}
	all.Wait()
}

// A conversation is counted anew for each request: what was counted before costs
// next to nothing, and counts the same.
func TestText_isRemembered(t *testing.T) {
	var c tokens.Counter
	text := strings.Repeat("Every conversation is a log, and everything else reads it. ", 1000)
	first := c.Text(text)
	if n := testing.AllocsPerRun(10, func() { c.Text(text) }); n > 0 {
		t.Errorf("counting again takes %v allocations", n)
	}
	if n := c.Text(text); n != first {
		t.Errorf("counted %d, and then %d", first, n)
	}
	for i := range 8_300 { // more than it remembers
		if n, want := c.Text(strings.Repeat("-", 64)+strconv.Itoa(i)), 2; n < want {
			t.Fatalf("counted %d, want %d or more", n, want)
		}
	}
	if n := c.Text(text); n != first {
		t.Errorf("counted %d, and then %d", first, n)
	}
}

func BenchmarkText(b *testing.B) {
	var c tokens.Counter
	text := strings.Repeat("Every conversation is a log, and everything else reads it. ", 170)
	for name, s := range map[string]string{"10KiB": text, "1MiB": strings.Repeat(text, 100)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for i := 0; b.Loop(); i++ {
				c.Text(s + strconv.Itoa(i)) // a text that it does not know
			}
		})
	}
}
