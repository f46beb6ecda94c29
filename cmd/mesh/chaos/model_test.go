//go:build unix

package chaos_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// What a user says is a plan: a name and the steps, each an effect whose words
// are the name and its number, as "plan p7 of f3: task mail file".
var planned = regexp.MustCompile(`plan (\S+) of (\S+):((?: \w+)*)`)

// A step's word is in the effect that it has, once.
func word(plan string, step int) string { return fmt.Sprintf("%sx%d", plan, step) }

// serveModel serves a model that carries out plans: one call for each step, one
// after the other, and then some words. It answers neither at once nor evenly.
func serveModel(t *testing.T) string {
	t.Helper()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Messages []struct {
				Role    string
				Content json.RawMessage
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var plan []string
		done := 0
		for _, m := range req.Messages {
			switch found := planned.FindStringSubmatch(string(m.Content)); {
			case m.Role == "user" && found != nil:
				plan, done = found, 0
			case m.Role == "tool":
				done++
			}
		}
		if plan == nil {
			http.Error(w, "there is no plan", http.StatusBadRequest)
			return
		}
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) // models think
		w.Header().Set("Content-Type", "text/event-stream")
		chunk := func(delta map[string]any, finish any) {
			data, err := json.Marshal(map[string]any{"id": "1", "object": "chat.completion.chunk", "model": "m",
				"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
			if err != nil {
				panic(err) // it has a JSON form
			}
			_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
			_ = http.NewResponseController(w).Flush()
		}
		if steps := strings.Fields(plan[3]); done < len(steps) {
			args, err := json.Marshal(map[string]any{"skill": skillOf[steps[done]], "arguments": arguments(steps[done], word(plan[1], done), plan[2])})
			if err != nil {
				panic(err)
			}
			chunk(map[string]any{"content": fmt.Sprintf("Step %d. ", done)}, nil)
			chunk(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": fmt.Sprintf("c%d", calls.Add(1)), "type": "function",
				"function": map[string]any{"name": "use_skill", "arguments": string(args)}}}}, nil)
			chunk(map[string]any{}, "tool_calls")
		} else {
			for i := range 3 + rand.IntN(12) {
				chunk(map[string]any{"content": fmt.Sprintf("word %d of %s, ", i, plan[1])}, nil)
				time.Sleep(time.Duration(rand.IntN(25)) * time.Millisecond)
			}
			chunk(map[string]any{}, "stop")
		}
		_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

var skillOf = map[string]string{"task": "tasks.create", "mail": "mail.send", "file": "files.update", "memory": "memory.save", "event": "calendar.create"}

func arguments(step, word, file string) map[string]any {
	switch step {
	case "task":
		return map[string]any{"title": "Do " + word}
	case "mail": // which asks the user first
		return map[string]any{"to": []string{"bob@example.com"}, "subject": word, "body": "All is well"}
	case "file": // adds a line, so that it could be seen twice
		return map[string]any{"path": file + ".txt", "content": word}
	case "memory":
		return map[string]any{"content": "The user likes " + word}
	}
	return map[string]any{"title": word, "start": "2027-01-04T10:00:00Z"}
}
