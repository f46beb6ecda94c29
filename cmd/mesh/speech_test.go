package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"agentmesh/mesh"
)

// S3-150, S3-151: an answer is spoken into a file, of whatever size, if that is wished for; where it
// cannot be, the answer is there, and what helps is said.
func TestAnAnswerIsSpokenIntoAFile(t *testing.T) {
	t.Parallel()
	var size atomic.Int64 // of what is spoken; 0 where the endpoint does not work
	speaker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if size.Load() == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "audio/mpeg")
		_, _ = w.Write([]byte(strings.Repeat("la ", int(size.Load())/3)))
	}))
	defer speaker.Close()
	model := startScripted(t, func(*modelRequest) modelReply { return modelReply{text: "Here you are."} })
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "tool_mode: single_loop\nvoice: {speech: {url: \""+speaker.URL+"/v1\", name: tts-1, voice: alloy, format: mp3}}\n")
	m := upWith(t, dir, model.env())
	file := filepath.Join(dir, "answer.mp3")
	for _, n := range []int64{3_000, 3 << 20} { // within the answer, and a large file
		for _, args := range [][]string{nil, {"--no-stream"}} {
			size.Store(n)
			m.mesh(append([]string{"send", "--thread", mesh.NewThreadID(), "--speak", file, "Hello"}, args...)...).want(t, exitOK, "Here you are.")
			if is, err := os.ReadFile(file); err != nil || string(is) != strings.Repeat("la ", int(n)/3) {
				t.Errorf("%d bytes, %v: in the file are %d, %v", n, args, len(is), err)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	size.Store(0)
	f := m.mesh("send", "--thread", mesh.NewThreadID(), "--speak", file, "Hello")
	if _, err := os.Stat(file); f.code != exitOK || !os.IsNotExist(err) || !strings.Contains(f.stdout, "Here you are.") || !strings.Contains(f.stderr, "voice.speech") {
		t.Errorf("where nothing speaks: %d, %q, %q, %v", f.code, f.stdout, f.stderr, err)
	}
	m.mesh("send", "--thread", mesh.NewThreadID(), "--speak", filepath.Join(dir, "nowhere", "x"), "Hello").want(t, exitUsage, "--speak: there is no folder")
	m.mesh("send", "--task", "t", "--resume", "1", "--speak", file).want(t, exitUsage, "leave --speak away")
}
