package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh/rpc/rpctest"
)

// A reader follows a page of docs/tutorials word by word, in an empty folder, with mesh on
// the path. What the page shows is what there must be:
//
//   - a block after "<!-- examples/NAME/FILE -->" is saved as FILE in the folder where the
//     reader is, and is that file of docs/examples;
//   - a block of console has commands behind "$ ", and all that they print. There "..." is
//     any text, alone on a line any lines. Ids, times and unknown addresses are any of their
//     form, and what agents do comes in any order. Later commands have the ids that were printed;
//   - "<!-- stays -->" before it: its command runs from there on, in a terminal of its own,
//     until a block that begins with ^C;
//   - "<!-- chat -->": what is behind a prompt, as "you › ", is typed;
//   - "<!-- exit 7 -->": its last command ends so, and all others with 0;
//   - "<!-- soon -->": its last command prints that in a moment, and is entered until then.
//
// What the page calls 127.0.0.1:PORT is a free address of this machine.
type reader struct {
	t     *testing.T
	home  string // with bin/mesh
	env   []string
	state string   // the file with the folder and the variables of the shell
	swaps []string // of what the page says, and what that is here
	stay  []*process
}

var (
	pageBlock   = regexp.MustCompile("(?ms)^(?:<!-- ([^\n]*) -->\n)?```(\\w+)\n(.*?)^```$")
	pageExit    = regexp.MustCompile(`exit (\d)`)
	pagePrompt  = regexp.MustCompile(`(?s)^(you(?: → \S+)? › )(.*)`)
	pageDeed    = regexp.MustCompile(`^ *[·✓] `)
	pageAddress = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	// what differs from run to run: ids of threads and tasks, addresses, times, columns.
	pageVaries = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}-[0-9a-f]{16}|127(?:\.\d+){3}:\d+|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?|\bt-[a-z0-9]{5}\b|\b[0-9a-f]{64}\b|\.\.\.| +`)
)

// follow reads the page to its end. says has what the page calls otherwise than it is here,
// in pairs, and env more variables of the reader's shell; PATH comes first in that of the test.
func follow(t *testing.T, page string, says, env []string) *reader {
	t.Helper()
	home := t.TempDir()
	text := readFile(t, "../../docs/tutorials/"+page+".md")
	r := &reader{t: t, home: home, state: filepath.Join(home, "state"), swaps: slices.Clone(says)}
	here := func(address string) string {
		if !slices.Contains(r.swaps, address) {
			r.swaps = append(r.swaps, address, rpctest.Free(t))
		}
		return r.swap(address)
	}
	grpc, http := here("127.0.0.1:7420"), here("127.0.0.1:7480")
	r.shell(home, grpc, http, env)
	for _, block := range pageBlock.FindAllStringSubmatch(text, -1) {
		mark, kind, what := block[1], block[2], block[3]
		if kind != "console" {
			for _, address := range pageAddress.FindAllString(what, -1) {
				here(address)
			}
		}
		switch file, is := strings.CutPrefix(mark, "examples/"); {
		case is:
			r.save(file[strings.Index(file, "/")+1:], what)
		case kind == "console":
			r.enterAll(mark, what)
		}
	}
	return r
}

// leave ends what the reader has not ended.
func (r *reader) leave() {
	r.t.Helper()
	for _, p := range slices.Backward(r.stay) {
		r.stop(p)
	}
}

// shell makes the reader's folder and shell, in which mesh is the command and serves at those
// addresses unless it is told others. A chat is had with this binary, which takes a pipe for a
// person.
func (r *reader) shell(home, grpc, http string, env []string) {
	r.t.Helper()
	terminal, err := os.Executable()
	self := terminal
	if err == nil && raced {
		self, err = unraced()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	program := filepath.Join(home, "bin", "mesh")
	writeFile(r.t, program, fmt.Sprintf(`#!/usr/bin/env bash
case "${1-}" in
chat) exec %[1]q "$@" ;;
up) shift; exec %[2]q up --grpc %[3]s --http %[4]s "$@" ;;
*) exec %[2]q "$@" ;;
esac
`, terminal, self, grpc, http))
	docs := filepath.Join(home, "few")
	writeFile(r.t, filepath.Join(docs, "mesh.md"), "# The mesh\n\nA user talks to one endpoint.\n") // see fewDocs
	if err := errors.Join(os.Chmod(program, 0o700), os.Mkdir(filepath.Join(home, "work"), 0o700)); err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Dir(program) + string(os.PathListSeparator)
	for _, value := range env {
		if folder, is := strings.CutPrefix(value, "PATH="); is {
			path += folder + string(os.PathListSeparator)
		}
	}
	r.env = append(commandEnv("mesh", env...), "MESH_ADDR="+grpc, "MESH_DOCS="+docs, "MESH_HISTORY=off", "GOFLAGS=-trimpath -ldflags=-w",
		"STATE="+r.state, "PATH="+path+os.Getenv("PATH"))
	writeFile(r.t, r.state, "cd "+filepath.Join(home, "work")+"\n")
}

// swap returns what the page says as it is here.
func (r *reader) swap(text string) string { return strings.NewReplacer(r.swaps...).Replace(text) }

// folder is where the reader is.
func (r *reader) folder() string { return strings.TrimSpace(r.run("pwd").stdout.String()) }

// save writes the file where the reader is.
func (r *reader) save(name, text string) {
	r.t.Helper()
	writeFile(r.t, filepath.Join(r.folder(), filepath.FromSlash(name)), r.swap(text))
}

// command is a run of a command in the reader's shell.
func (r *reader) command(script string) *exec.Cmd {
	cmd := exec.CommandContext(r.t.Context(), "bash", "-c", `. "$STATE"; `+script)
	cmd.Env = r.env
	return cmd
}

// run runs a command to its end.
func (r *reader) run(command string) *process {
	r.t.Helper()
	p := startProcess(r.t, r.command(command+"\ncode=$?; { export -p; printf 'cd %q\\n' \"$PWD\"; } >\"$STATE\"; exit $code"))
	_ = p.stdin.Close()
	p.wait()
	noRace(r.t, p.stderr.String())
	return p
}

// enterAll does what is in a block of console.
func (r *reader) enterAll(mark, block string) {
	r.t.Helper()
	if rest, is := strings.CutPrefix(block, "^C\n"); is {
		last := r.stay[len(r.stay)-1]
		r.stay = r.stay[:len(r.stay)-1]
		at := last.stdout.len()
		r.stop(last)
		if said := last.stdout.String()[at:]; !r.match(pageLines(rest), pageLines(said)) {
			r.t.Errorf("^C: the page shows\n%s\nand it printed\n%s", rest, said)
		}
		return
	}
	steps := strings.Split("\n"+block, "\n$ ")[1:]
	for i, step := range steps {
		command, shown, _ := strings.Cut(step, "\n")
		for strings.HasSuffix(command, "\\") {
			var more string
			more, shown, _ = strings.Cut(shown, "\n")
			command += "\n" + more
		}
		if shown = strings.TrimSuffix(shown, "\n"); shown != "" {
			shown += "\n"
		}
		last, exit := i == len(steps)-1, 0
		if code := pageExit.FindStringSubmatch(mark); code != nil && last {
			exit = int(code[1][0] - '0')
		}
		switch command = r.swap(command); {
		case mark == "chat":
			r.chat(command, shown)
		case mark == "stays" && last:
			r.begin(command, shown)
		default:
			p := r.run(command)
			for begun := time.Now(); last && strings.HasPrefix(mark, "soon") && !r.matches(shown, p) && time.Since(begun) < testTime; {
				p = r.run(command)
			}
			if got := p.wait(); got != exit {
				r.t.Fatalf("%s: exit code %d, want %d\n%s%s", command, got, exit, p.stdout.String(), p.stderr.String())
			}
			r.compare(command, shown, p)
		}
	}
}

// begin starts a command that stays, and waits for all that it shows.
func (r *reader) begin(command, shown string) {
	r.t.Helper()
	if shown == "" {
		r.t.Fatalf("%s: the page does not say when it is ready", command)
	}
	p := startProcess(r.t, r.command("exec 2>&1; "+regexp.MustCompile(`^(\w+=\S+ )*`).ReplaceAllString(command, "${0}exec ")))
	at, skip := 0, ""
	for line := range strings.Lines(shown) {
		at, skip = r.await(p, at, skip, line)
	}
	r.stay = append(r.stay, p)
}

// await waits for the line that the page shows next, behind what was skipped, and returns where
// it ends, and what is to be skipped behind it.
func (r *reader) await(p *process, at int, skip, line string) (next int, skipped string) {
	r.t.Helper()
	if line == "...\n" {
		return at, `(?:.*\n)*?`
	}
	pattern, names := r.pattern(line)
	found, at := p.await(&p.stdout, at, "^"+skip+pattern)
	r.learn(names, found[1:])
	return at, ""
}

// stop ends a command that stays, as Ctrl-C does.
func (r *reader) stop(p *process) {
	r.t.Helper()
	p.signal(os.Interrupt)
	p.wait()
	noRace(r.t, p.stdout.String())
}

// chat has the conversation that is shown, as a person at a terminal has it.
func (r *reader) chat(command, shown string) {
	r.t.Helper()
	p := startProcess(r.t, r.command("exec 2>&1; "+asCommand+"=mesh-terminal exec "+command))
	at, skip := 0, ""
	for line := range strings.Lines(shown) {
		if said := pagePrompt.FindStringSubmatch(line); said != nil {
			_, at = p.await(&p.stdout, at, "^"+skip+said[1])
			p.enter(r.swap(said[2]))
			skip = ""
			continue
		}
		at, skip = r.await(p, at, skip, line)
	}
	_ = p.stdin.Close()
	if code := p.wait(); code != exitOK {
		r.t.Fatalf("%s: exit code %d\n%s", command, code, p.stdout.String())
	}
}

// compare fails the test unless the process printed what the page shows.
func (r *reader) compare(command, shown string, p *process) {
	r.t.Helper()
	if !r.matches(shown, p) {
		r.t.Errorf("%s: the page shows\n%s\nand it printed\n%s%s", command, r.swap(shown), p.stderr.String(), p.stdout.String())
	}
}

// matches reports whether what is shown is all that the process printed, line by line: both
// outputs, in whatever order they came.
func (r *reader) matches(shown string, p *process) bool {
	return r.match(pageLines(shown), pageLines(p.stdout.String()), pageLines(p.stderr.String()))
}

// pageLines are the lines of the text. Those that follow one another and tell what agents do
// are sorted, for several tell of it at once.
func pageLines(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	for from := 0; from < len(lines); from++ {
		to := from
		for to < len(lines) && pageDeed.MatchString(lines[to]) {
			to++
		}
		slices.Sort(lines[from:to])
		from = max(from, to-1)
	}
	return lines
}

// match reports whether the lines shown are those printed, and learns the ids in them.
func (r *reader) match(shown []string, printed ...[]string) bool {
	for len(shown) > 0 && shown[0] == "" {
		shown = shown[1:]
	}
	if len(shown) == 0 {
		return !slices.ContainsFunc(printed, func(lines []string) bool { return strings.Join(lines, "") != "" })
	}
	anything := shown[0] == "...\n"
	if anything && r.match(shown[1:], printed...) {
		return true
	}
	for i, lines := range printed {
		if len(lines) == 0 || lines[0] == "" {
			continue
		}
		rest, line := slices.Clone(printed), strings.TrimRight(lines[0], " \n")+"\n"
		rest[i] = lines[1:]
		if anything {
			if r.match(shown, rest...) {
				return true
			}
			continue
		}
		pattern, names := r.pattern(shown[0])
		if found := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(line); found != nil {
			known := len(r.swaps)
			r.learn(names, found[1:])
			if r.match(shown[1:], rest...) {
				return true
			}
			r.swaps = r.swaps[:known]
		}
	}
	return false
}

// pattern is what matches the line that the page shows, with a group for each id in it that
// was not met before.
func (r *reader) pattern(shown string) (pattern string, names []string) {
	line, at := strings.TrimRight(r.swap(shown), " \n"), 0
	for _, m := range pageVaries.FindAllStringIndex(line, -1) {
		word := line[m[0]:m[1]]
		pattern += regexp.QuoteMeta(line[at:m[0]])
		at = m[1]
		switch {
		case word[0] == ' ':
			pattern += " +"
		case word == "...":
			pattern += ".*"
		case slices.Contains(r.swaps, word):
			pattern += regexp.QuoteMeta(word)
		case strings.HasPrefix(word, "127.") || strings.HasPrefix(word, "20"):
			pattern += regexp.MustCompile(`\d+`).ReplaceAllString(regexp.QuoteMeta(word), `\d+`)
		default:
			pattern += "(" + regexp.MustCompile(`[a-z0-9]+`).ReplaceAllString(word, `[a-z0-9]+`) + ")"
			names = append(names, word)
		}
	}
	return pattern + regexp.QuoteMeta(line[at:]) + " *\n", names
}

// learn takes in what the ids of the page are here.
func (r *reader) learn(names, ids []string) {
	for i, name := range names {
		r.swaps = append(r.swaps, name, ids[i])
	}
}
