//go:build linux

package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// consults is how many agents the main agent asks at once before it answers, where the user's
// words begin with consultWord.
const (
	consults    = 3
	consultWord = "ask others: "
)

// firstWords measures how long a user waits for the first word of the mesh's own main agent
// that asks others before it answers, beside one that answers at once. Its model, in both, says
// what it has to say at once.
func (b *bench) firstWords(ctx context.Context, r round, _ int) error {
	t := &cleanups{}
	defer t.run()
	at, err := b.help(t, b.self("model", ""))
	if err != nil {
		return err
	}
	m, err := b.startMesh(ctx, t, "mesh", "model", "MESH_LLM_URL=http://"+at[2]+"/v1", "MESH_LLM_KEY=none", "MESH_LLM_MODEL=scripted", "MESH_MODEL_PROBE=false")
	if err != nil {
		return err
	}
	to, asked := as(ctx, "default", "main"), question{chunks: 1}.String()
	took, both := map[string][]float64{}, map[string]string{"mesh plain": asked, "mesh orchestrated": consultWord + asked}
	for i := range max(b.alone, 20) + 1 {
		for name, words := range both {
			one, err := m.doors["grpc"].first(to, words)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if i > 0 { // the first one warms up
				took[name] = append(took[name], one)
			}
		}
	}
	for name, words := range both {
		r[name] = median(took[name])
		ask := func(int) error { _, err := m.doors["grpc"].first(to, words); return err }
		if err := b.count(r, m, counted{name, 1, b.alone, ask}); err != nil {
			return err
		}
	}
	r["mesh orchestrated p95"] = quantile(took["mesh orchestrated"], 0.95)
	r["mesh orchestrated p95 of 3 s"] = r["mesh orchestrated p95"] / us(3*time.Second)
	return nil
}

// first is how many µs it takes from a message to the first word of the answer, of which all
// must come.
func (d door) first(ctx context.Context, words string) (took float64, err error) {
	begin, text := time.Now(), ""
	err = d(ctx, words, func(s string) error {
		if text == "" {
			took = us(time.Since(begin))
		}
		text += s
		return nil
	})
	if n, bad := numberOf(text); err == nil && (bad != nil || n != 0 || len(text) != smallest) {
		err = fmt.Errorf("the answer is %q", text)
	}
	return took, err
}

// serveModel is a model, behind the chat completions protocol, that has others asked where it is
// told to, and answers when all of them have.
func serveModel(string) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: http.HandlerFunc(complete), ReadHeaderTimeout: patient}
	go func() { // ends with the server
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Close()
	}()
	fmt.Printf("ready %s\n", l.Addr())
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// complete answers a request of a chat completion.
func complete(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model    string
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	heard, words := 0, ""
	for _, m := range req.Messages {
		switch {
		case m.Role == "user":
			words = string(m.Content)
		case m.Role == "tool" && strings.Contains(string(m.Content), `completed`):
			heard++
		}
	}
	q, err := questionOf(words)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	switch consult := strings.Contains(words, consultWord); {
	case !consult || heard == consults:
		for text := range q.texts() {
			event(w, req.Model, map[string]any{"content": text}, nil)
		}
		event(w, req.Model, map[string]any{}, "stop")
	case heard == 0:
		for i := range consults {
			event(w, req.Model, map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": fmt.Sprint("call_", i), "type": "function",
				"function": map[string]any{"name": "consult_agent", "arguments": fmt.Sprintf(`{"agent":"bench","task":%q}`, q)}}}}, nil)
		}
		event(w, req.Model, map[string]any{}, "tool_calls")
	} // else one has failed, and the model says nothing
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n") // whoever asked may be gone
}

// event is one of a completion that is streamed.
func event(w http.ResponseWriter, model string, delta map[string]any, finish any) {
	data, err := json.Marshal(map[string]any{"id": "1", "object": "chat.completion.chunk", "model": model,
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	if err != nil {
		panic(err) // nothing of it has no JSON form
	}
	_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
	_ = http.NewResponseController(w).Flush()
}
