package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
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
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "tool_mode: single_loop\nvoice: {speech: {url: \""+speaker.URL+"/v1\", name: tts-1, voice: alloy, format: mp3}}\n")
	m := up(t, dir)
	file := filepath.Join(dir, "answer.mp3")
	for _, n := range []int64{3_000, 3 << 20} { // within the answer, and a large file
		for _, args := range [][]string{nil, {"--no-stream"}} {
			size.Store(n)
			m.mesh(append([]string{"send", "--thread", mesh.NewThreadID(), "--speak", file, "Create a task Call Ann"}, args...)...).want(t, exitOK, "Created task Call Ann")
			if is, err := os.ReadFile(file); err != nil || string(is) != strings.Repeat("la ", int(n)/3) {
				t.Errorf("%d bytes, %v: in the file are %d, %v", n, args, len(is), err)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	id := mesh.NewThreadID()
	size.Store(3_000)
	asked := m.mesh("send", "--thread", id, "--speak", file, "send a mail to ann@example.com with subject hi")
	how := regexp.MustCompile(`--task (\S+) TEXT`).FindStringSubmatch(asked.stderr)
	if asked.code != exitWaits || how == nil || os.Remove(file) != nil {
		t.Fatalf("%d, %s", asked.code, asked.stderr)
	}
	size.Store(0) // what was spoken before is no answer to this
	f := m.mesh("send", "--thread", id, "--task", how[1], "--speak", file, "See you")
	if _, err := os.Stat(file); f.code != exitWaits || !os.IsNotExist(err) || !strings.Contains(f.stderr, "voice.speech") {
		t.Errorf("of another answer: %d, %q, %v", f.code, f.stderr, err)
	}
	f = m.mesh("send", "--thread", mesh.NewThreadID(), "--speak", file, "Create a task Call Ann")
	if _, err := os.Stat(file); f.code != exitOK || !os.IsNotExist(err) || !strings.Contains(f.stdout, "Created task Call Ann") || !strings.Contains(f.stderr, "voice.speech") {
		t.Errorf("where nothing speaks: %d, %q, %q, %v", f.code, f.stdout, f.stderr, err)
	}
	m.mesh("send", "--thread", mesh.NewThreadID(), "--speak", filepath.Join(dir, "nowhere", "x"), "Create a task Call Ann").want(t, exitUsage, "--speak: there is no folder")
	m.mesh("send", "--task", "t", "--resume", "1", "--speak", file).want(t, exitUsage, "leave --speak away")
}
