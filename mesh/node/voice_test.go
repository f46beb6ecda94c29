package node_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/node"
)

// heardBy is a configuration in which what reads the file of a transcription makes it text.
func heardBy(t *testing.T, transcribe func(file io.Reader, name string) string) node.Config {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/audio/transcriptions", func(w http.ResponseWriter, r *http.Request) {
		file, head, err := r.FormFile("file")
		if err != nil || r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprintf(w, `{"text":%q,"usage":{"type":"duration","seconds":1}}`, transcribe(file, head.Filename))
	})
	mux.HandleFunc("POST /v1/audio/speech", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytesOf("spoken", 5*mesh.MaxEvent))
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	cfg := config(t.TempDir())
	cfg.Voice.Transcription = node.Transcription{URL: srv.URL + "/v1", Key: "s3cret", Name: "whisper-1"}
	cfg.Voice.Speech = node.Speech{URL: srv.URL + "/v1", Key: "s3cret", Name: "tts-1"}
	return cfg
}

// spoken is a message of audio alone.
func spoken(thread string, content *a2apb.Part) *a2apb.SendMessageRequest {
	req := with(thread, content)
	req.Message.Parts = req.Message.Parts[1:]
	return req
}

// S3-150 to S3-152, S0-142: audio is made text by an endpoint of the audio API, also when it was
// uploaded; the mesh's card says that it takes audio, and the conversation keeps both. An answer
// that is spoken by such an endpoint is read as a file.
func TestAudioIsMadeTextByAnEndpoint(t *testing.T) {
	cfg := heardBy(t, func(file io.Reader, name string) string {
		n, err := io.Copy(io.Discard, file)
		return fmt.Sprint(name, " has ", n, " bytes", strings.Repeat("!", len(fmt.Sprint(err))-len("<nil>")))
	})
	m := start(t, cfg, map[string]run{"main": echo})
	thread := mesh.NewThreadID()
	song := bytesOf("song", 5*mesh.MaxEvent)
	b, err := uploadTo(in(t, thread), m, t, thread, song, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one refers to what an event has
		stream, err := m.edge().SendStreamingMessage(in(t, thread), spoken(thread, &a2apb.Part{Content: &a2apb.Part_Url{Url: b.GetUrl()}, MediaType: "audio/mpeg"}))
		s := hear(t, stream, err)
		if want := fmt.Sprintf("You said: audio.mp3 has %d bytes", len(song)); s.state != a2apb.TaskState_TASK_STATE_COMPLETED || s.text != want {
			t.Fatalf("%v: %q, want %q", s.state, s.text, want)
		}
		task, err := m.edge().GetTask(plain(t), &a2apb.GetTaskRequest{Id: s.task.GetId()})
		if err != nil {
			t.Fatal(err)
		}
		parts := task.GetHistory()[0].GetParts()
		if len(parts) != 2 || !strings.HasSuffix(parts[0].GetText(), "bytes") || !strings.Contains(parts[1].GetUrl(), b.GetSha256()) {
			t.Errorf("the user said %v", parts)
		}
	}
	loud := say("hello")
	loud.Configuration = &a2apb.SendMessageConfiguration{AcceptedOutputModes: []string{"text/plain", "audio/mpeg"}}
	stream, err := m.edge().SendStreamingMessage(plain(t), loud)
	task, err := m.edge().GetTask(plain(t), &a2apb.GetTaskRequest{Id: hear(t, stream, err).task.GetId()})
	if err != nil || len(task.GetArtifacts()) != 2 || task.GetArtifacts()[1].GetParts()[0].GetMediaType() != "audio/mpeg" {
		t.Fatalf("spoken, it is %v, %v", task.GetArtifacts(), err)
	}
	if _, data := m.get(t, http.MethodGet, task.GetArtifacts()[1].GetParts()[0].GetUrl(), nil); len(data) != 5*mesh.MaxEvent {
		t.Errorf("the speech has %d bytes", len(data))
	}
	if _, card := m.get(t, http.MethodGet, "/.well-known/agent-card.json", nil); !strings.Contains(string(card), `"audio/*"`) {
		t.Errorf("the card is %s", card)
	}
}

// What one program of others says, another one hears: Debian's espeak-ng speaks, and its pocketsphinx
// is behind the audio API.
func TestInteropAudioOfOtherPrograms(t *testing.T) {
	dir := t.TempDir()
	say, heard := filepath.Join(dir, "say.wav"), filepath.Join(dir, "heard.wav")
	output(t, "", "espeak-ng", "-v", "en-us", "-s", "130", "-w", say, "call home")
	program(t, "pocketsphinx_continuous")
	grammar := filepath.Join(dir, "words.gram")
	if err := os.WriteFile(grammar, []byte("#JSGF V1.0;\ngrammar words;\npublic <words> = buy milk | call home | sing a song;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := heardBy(t, func(file io.Reader, _ string) string {
		data, err := io.ReadAll(file)
		if err == nil {
			err = os.WriteFile(heard, data, 0o600)
		}
		if err != nil {
			t.Error(err)
			return ""
		}
		return strings.TrimSpace(string(output(t, "", "pocketsphinx_continuous", "-samprate", "22050", "-nfft", "1024", "-jsgf", grammar, "-infile", heard, "-logfn", os.DevNull)))
	})
	data, err := os.ReadFile(say)
	if err != nil {
		t.Fatal(err)
	}
	m := start(t, cfg, map[string]run{"main": echo})
	thread := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, thread), spoken(thread, &a2apb.Part{Content: &a2apb.Part_Raw{Raw: data}, MediaType: "audio/wav"}))
	if s := hear(t, stream, err); s.text != "You said: call home" {
		t.Errorf("%v: %q", s.state, s.text)
	}
}
