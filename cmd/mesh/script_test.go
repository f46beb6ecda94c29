package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/security/auth"
)

// The scripts run each command, in process, against a small mesh of their own.
// They are txtar archives in the language of testscript, of which they use
// little: env, stdin, exec, stdout, stderr, cmp and cmpenv, and "code N" for
// the exit code.
func TestCommandsDoWhatTheScriptsSay(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := newScript(t, string(data))
			for n, line := range strings.Split(s.text, "\n") {
				s.where = fmt.Sprintf("%s:%d: %s", file, n+1, line)
				if words := s.split(line); len(words) > 0 {
					s.do(words)
				}
			}
		})
	}
}

// A script is a script under way.
type script struct {
	t              *testing.T
	text           string
	files          map[string]string
	env            map[string]string
	where          string
	stdin          string
	stdout, stderr string
	code           int
}

func newScript(t *testing.T, archive string) *script {
	s := &script{t: t, files: map[string]string{}, env: map[string]string{"T": thread}}
	name := ""
	for line := range strings.Lines(archive) {
		if m := regexp.MustCompile(`^-- (\S+) --\n$`).FindStringSubmatch(line); m != nil {
			name = m[1]
			s.files[name] = ""
			continue
		}
		if name == "" {
			s.text += line
		} else {
			s.files[name] += line
		}
	}
	_, s.env["MESH_ADDR"] = startMesh(t, auth.None(nil))
	s.env["DIR"] = t.TempDir()               // has the files too
	if strings.Contains(archive, "$CLERK") { // an agent of somebody, and an address of nobody
		s.env["CLERK"], s.env["DEAD"] = startClerk(t, nil), rpctest.Free(t)
	}
	for name, text := range s.files {
		at := filepath.Join(s.env["DIR"], name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}

	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	entry := "- {name: bob, hash: '" + auth.Hash("bobs-token") + "', tenant: acme, user: bob, roles: [user]}\n"
	if err := os.WriteFile(tokens, []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := auth.LoadTokens(tokens, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, s.env["GUARDED"] = startMesh(t, known)
	return s
}

// split splits a line into words: quotes keep blanks, a doubled quote within
// quotes is one, and $NAME outside of quotes is a variable.
func (s *script) split(line string) []string {
	var words []string
	var word strings.Builder
	in, quoted := false, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\'' && quoted && i+1 < len(line) && line[i+1] == '\'':
			word.WriteByte(c)
			i++
		case c == '\'':
			quoted, in = !quoted, true
		case quoted:
			word.WriteByte(c)
		case c == '#' && !in:
			return words
		case c == ' ':
			if in {
				words = append(words, word.String())
				word.Reset()
			}
			in = false
		case c == '$':
			end := i + 1
			for end < len(line) && (line[end] >= 'A' && line[end] <= 'Z' || line[end] == '_') {
				end++
			}
			word.WriteString(s.env[line[i+1:end]])
			i, in = end-1, true
		default:
			word.WriteByte(c)
			in = true
		}
	}
	if quoted {
		s.t.Fatalf("%s: a quote is open", s.where)
	}
	if in {
		words = append(words, word.String())
	}
	return words
}

func (s *script) do(words []string) {
	s.t.Helper()
	not := words[0] == "!"
	if not {
		words = words[1:]
	}
	switch words[0] {
	case "env":
		name, value, _ := strings.Cut(words[1], "=")
		s.env[name] = value
	case "stdin":
		s.stdin = s.file(words[1])
	case "exec":
		s.exec(not, words[1], words[2:])
	case "code":
		if want, err := strconv.Atoi(words[1]); err != nil || s.code != want {
			s.t.Fatalf("%s\nexit code %d; stderr: %s", s.where, s.code, s.stderr)
		}
	case "stdout":
		s.match(not, s.stdout, words[1:])
	case "stderr":
		s.match(not, s.stderr, words[1:])
	case "cmp", "cmpenv":
		want, got := s.file(words[2]), map[string]string{"stdout": s.stdout, "stderr": s.stderr}[words[1]]
		if words[0] == "cmpenv" {
			want = strings.ReplaceAll(want, "$MESH_ADDR", s.env["MESH_ADDR"])
		}
		if d := cmp.Diff(want, got); d != "" {
			s.t.Fatalf("%s\n-want +got\n%s\nstderr: %s", s.where, d, s.stderr)
		}
	default:
		s.t.Fatalf("%s\nunknown command", s.where)
	}
}

func (s *script) file(name string) string {
	s.t.Helper()
	text, ok := s.files[name]
	if !ok {
		s.t.Fatalf("%s\nno file %s", s.where, name)
	}
	return text
}

// exec runs mesh, or mesh-terminal, which has a person at both ends.
func (s *script) exec(fails bool, name string, args []string) {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	terminal := name == "mesh-terminal"
	a := &app{
		stdin: strings.NewReader(s.stdin), stdout: &stdout, stderr: &stderr, asks: terminal, shows: terminal,
		getenv:     func(name string) string { return s.env[name] },
		interrupts: make(chan os.Signal), uninstall: func() {}, now: time.Now, after: time.After,
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), testTime)
	defer cancel()
	s.code = a.execute(ctx, args)
	s.stdin, s.stdout, s.stderr = "", stdout.String(), stderr.String()
	if (s.code != exitOK) != fails {
		s.t.Fatalf("%s\nexit code %d\nstdout: %s\nstderr: %s", s.where, s.code, s.stdout, s.stderr)
	}
}

// match looks for a pattern, in which ^ and $ are ends of lines.
func (s *script) match(not bool, text string, words []string) {
	s.t.Helper()
	count := -1
	if n, ok := strings.CutPrefix(words[0], "-count="); ok {
		words = words[1:]
		var err error
		if count, err = strconv.Atoi(n); err != nil {
			s.t.Fatalf("%s: %v", s.where, err)
		}
	}
	re, err := regexp.Compile("(?m)" + words[0])
	if err != nil {
		s.t.Fatalf("%s: %v", s.where, err)
	}
	found := len(re.FindAllString(text, -1))
	if count >= 0 && found != count || count < 0 && (found > 0) == not {
		s.t.Fatalf("%s\nfound %d times in:\n%s\nstderr: %s", s.where, found, text, s.stderr)
	}
}
