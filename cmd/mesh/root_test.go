package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"agentmesh/mesh"
)

func quietApp() *app {
	return &app{now: time.Now, stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{},
		getenv: func(string) string { return "" }, interrupts: make(chan os.Signal), uninstall: func() {}}
}

// walk calls f for each command of ours.
func walk(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, c := range cmd.Commands() {
		walk(c, f)
	}
}

// Every command says what it does and has examples that its own flags and
// arguments accept.
func TestEveryExampleIsACommandLineThatWorks(t *testing.T) {
	quotes := regexp.MustCompile(`'[^']*'|"[^"]*"`)
	seen := 0
	walk(quietApp().rootCommand(), func(cmd *cobra.Command) {
		if cmd.Short == "" {
			t.Errorf("%s has no short description", cmd.CommandPath())
		}
		if !cmd.Runnable() || cmd.Hidden {
			return // a page of help, or a part of the mesh
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			_, line, found := strings.Cut(quotes.ReplaceAllString(line, "quoted"), "mesh ")
			if !found {
				t.Errorf("%s: example %q does not run mesh", cmd.CommandPath(), line)
			}
			line, _, _ = strings.Cut(line, " <")
			line, _, _ = strings.Cut(line, " >")
			args := strings.Fields(line)
			if !strings.HasPrefix("mesh "+strings.Join(args, " "), cmd.CommandPath()) && cmd.HasParent() {
				t.Errorf("%s: example %q is of another command", cmd.CommandPath(), line)
			}
			seen++
			tryExample(t, args)
		}
	})
	if seen < 20 {
		t.Errorf("only %d examples were tried", seen)
	}
}

// tryExample runs all of a command line but its action.
func tryExample(t *testing.T, args []string) {
	t.Helper()
	a := quietApp()
	root := a.rootCommand()
	walk(root, func(c *cobra.Command) {
		if c.RunE != nil {
			c.RunE = func(*cobra.Command, []string) error { return nil }
		}
	})
	root.SetArgs(args)
	if err := root.ExecuteContext(context.Background()); err != nil {
		t.Errorf("mesh %s: %v", strings.Join(args, " "), err)
	}
}

// Every code of the mesh has an exit code that the help explains, and says in
// one line what to do.
func TestFailuresHaveAnExitCodeAndOneLine(t *testing.T) {
	explained := map[int]bool{}
	for _, c := range exitCodes {
		explained[c.code] = true
	}
	for code := range mesh.DataLoss + 1 {
		err := mesh.Wrap("outer", mesh.Errorf(code, "op", "it broke;\nmend\x1b it: %w", errors.New("secret")))
		if got := exitCode(err); !explained[got] || got == exitOK {
			t.Errorf("%v: exit code %d", code, got)
		}
		line := explain(err, "host:1")
		if line == "" || strings.ContainsAny(line, "\n\x1b") || strings.Contains(line, "secret") {
			t.Errorf("%v: explained as %q", code, line)
		}
	}
	tests := map[string]struct {
		err  error
		code int
		line string
	}{
		"invalid": {mesh.InvalidField("op", "text", "is empty"), exitUsage, "text: is empty"},
		"unknown thread": {mesh.ThreadNotFound("op"), exitNotFound,
			"thread_id: Thread not found for tenant; check the thread id or start a new conversation"},
		"no token":    {mesh.Errorf(mesh.Unauthenticated, "op", "who are you"), exitDenied, "who are you; give a token with MESH_TOKEN or --token"},
		"too slow":    {context.DeadlineExceeded, exitUnavailable, "host:1 did not answer in time; try again, or allow more with --timeout"},
		"plain error": {errors.New("disk full"), exitFailure, "disk full"},
		"task failed": {errTaskFailed, exitFailure, ""},
		"interrupted": {errInterrupted, exitInterrupted, ""},
	}
	for name, tt := range tests {
		if got := exitCode(tt.err); got != tt.code {
			t.Errorf("%s: exit code %d, want %d", name, got, tt.code)
		}
		if got := explain(tt.err, "host:1"); got != tt.line {
			t.Errorf("%s: %q, want %q", name, got, tt.line)
		}
	}
}

func TestVersionNamesTheRevisionAndTheProtocols(t *testing.T) {
	got := versionText(&debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.0"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}},
		Deps:     []*debug.Module{{Path: "google.golang.org/grpc", Version: "v1.85.0"}, {Path: "example.com/x", Version: "v1.0.0"}}})
	if !strings.HasPrefix(got, "mesh v1.2.0 0123456789ab with changes\ngo1.26.8 ") ||
		!strings.HasSuffix(got, "\ngoogle.golang.org/grpc v1.85.0\n") {
		t.Errorf("got %q", got)
	}
	if got := versionText(nil); !strings.HasPrefix(got, "mesh (devel)\ngo") {
		t.Errorf("without build info: %q", got)
	}
}

// Text that no message can carry is refused before anything is sent.
func TestTextThatNoMessageCanCarryIsRefused(t *testing.T) {
	for name, text := range map[string]string{"empty": " \n", "not UTF-8": "caf\xe9", "too long": strings.Repeat("x", maxText+1)} {
		if err := checkText(text); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
	if err := checkText(strings.Repeat("x", maxText)); err != nil {
		t.Errorf("the longest text: %v", err)
	}
}

// fullDisk takes nothing, as a disk that is full.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// What cannot be written to stdout fails the command: an export to a full disk
// must not pass for a whole one.
func TestOutputThatIsLostFailsTheCommand(t *testing.T) {
	a := quietApp()
	var stderr bytes.Buffer
	a.stdout, a.stderr = fullDisk{}, &stderr
	if code := a.execute(t.Context(), []string{"version"}); code != exitFailure || !strings.Contains(stderr.String(), "stdout cannot be written") ||
		!strings.Contains(stderr.String(), "no space left on device") {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}
