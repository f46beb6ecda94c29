package openai_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/openai"
)

// speaker is a client of an endpoint of the audio API that answers so.
func speaker(t *testing.T, reply http.HandlerFunc) *openai.Client {
	t.Helper()
	srv := httptest.NewServer(reply)
	c, err := openai.New(openai.Config{BaseURL: srv.URL + "/v1", Key: key, Model: "whisper-1", Language: "de", Settings: openai.Settings{URL: "the.url", Key: "the.key", Model: "the.name"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); srv.Close() })
	return c
}

// Audio goes as a file whose name tells its format, and what the endpoint charges for is told in
// tokens or in seconds, as it says it.
func TestTranscribeReturnsTheWords(t *testing.T) {
	for name, tt := range map[string]struct {
		mediaType, file, answer string
		want                    llm.Transcript
	}{
		"by the second": {"audio/x-wav", "audio.wav", `{"text":" Guten Tag. ","usage":{"type":"duration","seconds":3}}`, llm.Transcript{Text: "Guten Tag.", Seconds: 3}},
		"by the token":  {"audio/MPEG", "audio.mp3", `{"text":"a","usage":{"type":"tokens","input_tokens":14,"output_tokens":2}}`, llm.Transcript{Text: "a", Usage: mesh.Usage{Prompt: 14, Completion: 2}}},
		"by nothing":    {"audio/ogg; codecs=opus", "audio.ogg", `{"text":""}`, llm.Transcript{}},
		"verbosely":     {"audio/mp4", "audio.m4a", `{"text":"a","duration":2.5,"usage":"much"}`, llm.Transcript{Text: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := speaker(t, func(w http.ResponseWriter, r *http.Request) {
				file, head, err := r.FormFile("file")
				if err != nil {
					t.Error(err)
					return
				}
				data, err := io.ReadAll(file)
				if err != nil || string(data) != "RIFF" || head.Filename != tt.file || r.URL.Path != "/v1/audio/transcriptions" || r.FormValue("model") != "whisper-1" ||
					r.FormValue("language") != "de" || r.Header.Get("Authorization") != "Bearer "+key {
					t.Errorf("asked %s with %s, %q, %v, %v", r.URL.Path, head.Filename, data, r.Form, err)
				}
				_, _ = io.WriteString(w, tt.answer)
			})
			got, err := c.Transcribe(t.Context(), llm.Audio{MediaType: tt.mediaType, Data: []byte("RIFF")})
			if err != nil || got.Text != tt.want.Text || got.Usage != tt.want.Usage || tt.want.Seconds != 0 && got.Seconds != tt.want.Seconds {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// What goes wrong is told by whose fault it is, without the key.
func TestTranscribeTellsWhatWentWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		code   mesh.Code
	}{
		"a format that it does not take": {http.StatusBadRequest, `{"error":{"message":"Invalid file format. ` + key + `"}}`, mesh.Invalid},
		"a wrong key":                    {http.StatusUnauthorized, `{"error":{"message":"no ` + key + `"}}`, mesh.Unauthenticated},
		"too much":                       {http.StatusTooManyRequests, `{"error":"slow down"}`, mesh.Exhausted},
		"away":                           {http.StatusBadGateway, `oh dear`, mesh.Unavailable},
		"no JSON":                        {http.StatusOK, `hello`, mesh.Unavailable},
		"endless":                        {http.StatusOK, `{"text":"` + strings.Repeat("x", 4<<20) + `"}`, mesh.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			c := speaker(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			got, err := c.Transcribe(t.Context(), llm.Audio{MediaType: "audio/wav", Data: []byte("RIFF")})
			if !mesh.IsCode(err, tt.code) || strings.Contains(err.Error(), key) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// S3-151: text is spoken in a voice and a format by an endpoint that can be any of those that speak
// the protocol, or it is said what went wrong.
func TestSynthesizeSpeaks(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		code   mesh.Code
	}{
		"spoken":  {http.StatusOK, "ID3", mesh.Unknown},
		"nothing": {http.StatusOK, "", mesh.Unavailable},
		"refused": {http.StatusBadRequest, `{"error":{"message":"no such voice ` + key + `"}}`, mesh.Invalid},
		"away":    {http.StatusBadGateway, "oh dear", mesh.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			var asked, path string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				asked, path = string(body), r.URL.Path
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			c, err := openai.New(openai.Config{BaseURL: srv.URL + "/v1", Key: key, Model: "tts-1", Voice: "alloy", Format: "mp3"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close(); srv.Close() })
			got, err := c.Synthesize(t.Context(), "Good day.")
			if path != "/v1/audio/speech" || asked != `{"model":"tts-1","input":"Good day.","voice":"alloy","response_format":"mp3"}` {
				t.Errorf("asked %s for %s", path, asked)
			}
			if tt.code == mesh.Unknown {
				if err != nil || got.MediaType != "audio/mpeg" || string(got.Data) != tt.body {
					t.Errorf("got %v, %v", got, err)
				}
			} else if !mesh.IsCode(err, tt.code) || strings.Contains(err.Error(), key) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
