package openai_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/llm/openai"
)

// embedder is a client of an endpoint that answers so.
func embedder(t *testing.T, reply http.HandlerFunc) *openai.Client {
	t.Helper()
	server := httptest.NewServer(reply)
	t.Cleanup(server.Close)
	c, err := openai.New(openai.Config{BaseURL: server.URL + "/v1", Key: key, Model: "small"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// S0-140: each text has its vector, in whichever order they come.
func TestEmbedReturnsAVectorForEachText(t *testing.T) {
	c := embedder(t, func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Model, EncodingFormat string
			Input                 []string
		}
		err := json.NewDecoder(r.Body).Decode(&req)
		if err != nil || r.URL.Path != "/v1/embeddings" || req.Model != "small" || !slices.Equal(req.Input, []string{"a", "b"}) || r.Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("asked %s for %+v, %v", r.URL.Path, req, err)
		}
		_, _ = io.WriteString(w, `{"object":"list","data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[1,0.5]}],"model":"small"}`)
	})
	got, err := c.Embed(t.Context(), []string{"a", "b"})
	if err != nil || len(got) != 2 || !slices.Equal(got[0], []float32{1, 0.5}) || !slices.Equal(got[1], []float32{0, 1}) {
		t.Errorf("got %v, %v", got, err)
	}
	if !strings.HasSuffix(c.Space(), " small") {
		t.Errorf("the space is %q", c.Space())
	}
}

// Whatever comes instead is an error of the kind that it is, without the key in it.
func TestEmbedTellsWhatWentWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		code   mesh.Code
	}{
		"a wrong key":       {http.StatusUnauthorized, `{"error":{"message":"no ` + key + `","code":"invalid_api_key"}}`, mesh.Unauthenticated},
		"no such model":     {http.StatusNotFound, `{"error":{"message":"what?"}}`, mesh.NotFound},
		"too much":          {http.StatusTooManyRequests, `{"error":"slow down"}`, mesh.Exhausted},
		"an error in words": {http.StatusBadGateway, `oh dear ` + key, mesh.Unavailable},
		"no JSON":           {http.StatusOK, `hello`, mesh.Unavailable},
		"too few":           {http.StatusOK, `{"data":[{"index":0,"embedding":[1]}]}`, mesh.Unavailable},
		"twice the same":    {http.StatusOK, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`, mesh.Unavailable},
		"one too many":      {http.StatusOK, `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1]},{"index":2,"embedding":[1]}]}`, mesh.Unavailable},
		"of two lengths":    {http.StatusOK, `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`, mesh.Unavailable},
		"an empty one":      {http.StatusOK, `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`, mesh.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			c := embedder(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			got, err := c.Embed(t.Context(), []string{"a", "b"})
			if !mesh.IsCode(err, tt.code) || strings.Contains(err.Error(), key) || mesh.DetailOf(err) == "" {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	stopped, stop := context.WithCancel(t.Context())
	c := embedder(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client goes
		stop()
		<-r.Context().Done()
	})
	if got, err := c.Embed(stopped, []string{"a"}); !mesh.IsCode(err, mesh.Canceled) {
		t.Errorf("stopped: %v, %v", got, err)
	}
}
