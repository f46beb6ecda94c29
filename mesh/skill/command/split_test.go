package command_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill/command"
)

// replies are what models may write, with the text for the user, the lines and
// whether a block is left open. Every one of them is also cut into pieces, and
// is a seed of the fuzzer.
var replies = map[string]struct {
	reply string
	text  string
	lines []command.Line
	open  bool
}{
	"nothing":   {"", "", nil, false},
	"only text": {"  Just text.\n", "Just text.", nil, false},
	"one block": {
		"I will look.\n\n```cmd\ntasks.search --status overdue\n```\n\nOne moment.",
		"I will look.\n\nOne moment.", []command.Line{{Raw: "tasks.search --status overdue", At: 4}}, false,
	},
	"only a block": {"```cmd\ntasks.get --recent\n```", "", []command.Line{{Raw: "tasks.get --recent", At: 2}}, false},
	"several blocks": {
		"A\n```cmd\na.b\n\n  c.d  \n```\nB\n```cmd\ne.f\n```\nC",
		"A\n\nB\n\nC", []command.Line{{Raw: "a.b", At: 3}, {Raw: "c.d", At: 5}, {Raw: "e.f", At: 9}}, false,
	},
	"blocks that touch":     {"```cmd\na.b\n```\n```cmd\nc.d\n```", "", []command.Line{{Raw: "a.b", At: 2}, {Raw: "c.d", At: 5}}, false},
	"an empty block":        {"A\n```cmd\n\n```\nB", "A\n\nB", nil, false},
	"white space in fences": {"  ```cmd \t\n  a.b\n ```  \nB", "B", []command.Line{{Raw: "a.b", At: 2}}, false},
	"empty lines collapse":  {"\n\nA\n\n\n\nB\n \n\n\nC\n\n", "A\n\nB\n \n\nC", nil, false},

	// What is no block of commands.
	"another language":     {"```bash\nrm -rf x\n```", "```bash\nrm -rf x\n```", nil, false},
	"another word":         {"```cmdx\na.b\n```", "```cmdx\na.b\n```", nil, false},
	"more than the word":   {"```cmd a.b\nc.d\n```", "```cmd a.b\nc.d\n```", nil, false},
	"code within a line":   {"Write ```cmd a.b``` or `cmd`.", "Write ```cmd a.b``` or `cmd`.", nil, false},
	"backticks after it":   {"```cmd```\na.b", "```cmd```\na.b", nil, false},
	"two backticks":        {"``cmd\na.b\n``", "``cmd\na.b\n``", nil, false},
	"tildes":               {"~~~cmd\na.b\n~~~", "~~~cmd\na.b\n~~~", nil, false},
	"within a wider fence": {"````\n```cmd\na.b\n```\n````\nB", "````\n```cmd\na.b\n```\n````\nB", nil, false},
	"within tildes":        {"~~~md\n```cmd\na.b\n```\n~~~", "~~~md\n```cmd\na.b\n```\n~~~", nil, false},
	"after an open fence":  {"```go\nx\n```cmd\na.b\n```", "```go\nx\n```cmd\na.b\n```", nil, false},
	"within a block quote": {"> ```cmd\n> a.b\n> ```", "> ```cmd\n> a.b\n> ```", nil, false},
	"indented code":        {"As:\n\n    ```cmd\n    a.b\n    ```", "As:\n\n    ```cmd\n    a.b\n    ```", nil, false},
	"indented by a tab":    {"As\n\t```cmd\n\ta.b\n\t```", "As\n\t```cmd\n\ta.b\n\t```", nil, false},
	"within a fence in a list": {
		"- ```\n  ```cmd\n  a.b\n  ```\n", "- ```\n  ```cmd\n  a.b\n  ```", nil, false,
	},
	"behind a list marker": {"1. ```cmd\n   a.b\n   ```", "1. ```cmd\n   a.b\n   ```", nil, false},

	// What is one after all.
	"after a fence that closed": {"```go\nx\n```\n```cmd\na.b\n```", "```go\nx\n```", []command.Line{{Raw: "a.b", At: 5}}, false},
	"after the list item of a fence": {
		"- ```\n```cmd\na.b\n```", "- ```", []command.Line{{Raw: "a.b", At: 3}}, false,
	},
	"indented in a list": {"1. So:\n   ```cmd\n   a.b --x \"1\n   2\"\n   ```", "1. So:", []command.Line{{Raw: "a.b --x \"1\n2\"", At: 3}}, false},
	"after a quoted one": {"> ```\n```cmd\na.b\n```", "> ```", []command.Line{{Raw: "a.b", At: 3}}, false},
	"wider than three":   {"`````cmd\na.b --x \"\n```\n\"\n`````", "", []command.Line{{Raw: "a.b --x \"\n```\n\"", At: 2}}, false},
	"closed by more":     {"```cmd\na.b\n`````\nB", "B", []command.Line{{Raw: "a.b", At: 2}}, false},

	// Line ends.
	"CRLF":     {"A\r\n\r\n\r\n```cmd\r\na.b\r\n```\r\nB\r\n", "A\n\nB", []command.Line{{Raw: "a.b", At: 5}}, false},
	"CR alone": {"A\r```cmd\ra.b\r```\rB", "A\n\nB", []command.Line{{Raw: "a.b", At: 3}}, false},

	// Quotes that go on, and such that do not.
	"a quote over lines": {
		"```cmd\nmail.send --body \"Hi,\n\n  you\" --to a\nc.d\n```", "",
		[]command.Line{{Raw: "mail.send --body \"Hi,\n\n  you\" --to a", At: 2}, {Raw: "c.d", At: 5}}, false,
	},
	"a quote that never ends hides what follows it": {
		"```cmd\na.b\nc.d --x \"y\ntasks.delete --id 1\n```\nB", "B",
		[]command.Line{{Raw: "a.b", At: 2}, {Raw: "c.d --x \"y\ntasks.delete --id 1", At: 3}}, false,
	},
	"a quote within a word ends with its line": {
		"```cmd\na.b --x 5\"\nc.d --x 6\"\n```", "", []command.Line{{Raw: "a.b --x 5\"", At: 2}, {Raw: "c.d --x 6\"", At: 3}}, false,
	},
	"apostrophes open nothing": {
		"```cmd\na.b --x don't\nc.d --x can't\n```", "", []command.Line{{Raw: "a.b --x don't", At: 2}, {Raw: "c.d --x can't", At: 3}}, false,
	},
	"a fence in a quote closes": {"```cmd\na.b --x \"\n```\ny\"", "y\"", []command.Line{{Raw: "a.b --x \"", At: 2}}, false},

	// Blocks that are not closed.
	"open":                     {"A\n```cmd\na.b\n", "A", nil, true},
	"open at its first line":   {"A\n\n```cmd", "A", nil, true},
	"open after a closed one":  {"```cmd\na.b\n```\nB\n```cmd\nc.d\n``", "B", []command.Line{{Raw: "a.b", At: 2}}, true},
	"a block within a block":   {"```cmd\na.b\n```cmd\nc.d\n```", "", []command.Line{{Raw: "a.b", At: 2}, {Raw: "```cmd", At: 3}, {Raw: "c.d", At: 4}}, false},
	"less than it opened with": {"````cmd\na.b\n```\nB", "", nil, true},
	"almost a block":           {"A\n\n```cm", "A\n\n```cm", nil, false},
}

// S3-011, S3-123: the extractor. S3-155, S3-156: several lines of a block are
// several commands, in their order.
func TestSplit_separatesTextAndCommands(t *testing.T) {
	for name, tt := range replies {
		t.Run(name, func(t *testing.T) {
			text, lines, problem := command.Split(tt.reply)
			if text != tt.text {
				t.Errorf("text is %q, want %q", text, tt.text)
			}
			if diff := cmp.Diff(tt.lines, lines); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if (problem != nil) != tt.open {
				t.Errorf("problem is %v, want one: %v", problem, tt.open)
			}
		})
	}
}

func TestSplitter_givesTheSameForAllPieces(t *testing.T) {
	for name, tt := range replies {
		t.Run(name, func(t *testing.T) {
			for at := range len(tt.reply) + 1 {
				samePieces(t, tt.reply, []string{tt.reply[:at], tt.reply[at:]})
			}
			samePieces(t, tt.reply, strings.Split(tt.reply, ""))
		})
	}
}

// samePieces compares the reply in pieces with the whole.
func samePieces(t *testing.T, reply string, pieces []string) {
	t.Helper()
	text, lines, problem := command.Split(reply)
	var s command.Splitter
	var got strings.Builder
	for _, p := range pieces {
		got.WriteString(s.Write(p))
	}
	end, gotLines, gotProblem := s.Close()
	got.WriteString(end)
	if got.String() != text || !cmp.Equal(lines, gotLines) || mesh.DetailOf(problem) != mesh.DetailOf(gotProblem) {
		t.Errorf("as %q: %q, %v, %v; whole: %q, %v, %v", pieces, got.String(), gotLines, gotProblem, text, lines, problem)
	}
}

func TestSplitter_showsTextAsSoonAsItIsCertain(t *testing.T) {
	var s command.Splitter
	for i, step := range []struct{ piece, text string }{
		{"I will", "I will"},
		{" look", " look"},
		{".\n", "."},
		{"\n  ", ""},
		{"``", ""},
		{"` ", "\n\n  ```"}, // a fence, but not of commands
		{"go\n```cmd", " go\n```cmd"},
		{"\n```", "\n```"}, // within the other fence everything is text
		{"\n", ""},
		{"```c", ""},
		{"md", ""},
		{"\ntasks.get\n", ""},
		{"```", ""},
		{"\nFound", "\n\nFound"},
		{"\n`x`", "\n`x`"},
	} {
		if got := s.Write(step.piece); got != step.text {
			t.Fatalf("step %d, %q: shows %q, want %q", i, step.piece, got, step.text)
		}
	}
	if text, lines, problem := s.Close(); text != "" || len(lines) != 1 || problem != nil {
		t.Errorf("at the end %q, %v, %v", text, lines, problem)
	}
}

// S3-087: what is wrong with a block is told so that it can be put right.
func TestSplit_saysHowToCloseABlock(t *testing.T) {
	_, _, problem := command.Split("A\n````cmd\na.b\n")
	for _, want := range []string{"line 2", "not closed", "nothing in it was run", "````cmd\ntasks.search --status overdue\n````"} {
		if !strings.Contains(mesh.DetailOf(problem), want) {
			t.Errorf("%q does not say %q", mesh.DetailOf(problem), want)
		}
	}
	if !mesh.IsCode(problem, mesh.Invalid) {
		t.Errorf("%v is not Invalid", problem)
	}
}

func TestLine_Parse_saysWhereInTheReplyAnErrorIs(t *testing.T) {
	_, lines, _ := command.Split("Now:\n```cmd\ntasks.get --recent\ntasks get\n```")
	if _, err := lines[0].Parse(); err != nil {
		t.Errorf("a good line gives %v", err)
	}
	_, err := lines[1].Parse()
	if !strings.HasPrefix(mesh.DetailOf(err), "Line 4 of your reply: In `tasks get`: ") {
		t.Errorf("%v does not say where", err)
	}
}

// A reply costs what it is long, however it arrives.
func BenchmarkSplitter(b *testing.B) {
	reply := strings.Repeat("Some words of a reply, \"quoted\" and not.\n", 500) +
		"```cmd\n" + strings.Repeat("tasks.create --title \"Call Ann\" --tags a b\n", 500) + "```\n" + strings.Repeat("`", 10_000)
	b.SetBytes(int64(len(reply)))
	for b.Loop() {
		var s command.Splitter
		for at := 0; at < len(reply); at += 4 {
			s.Write(reply[at:min(at+4, len(reply))])
		}
		if _, lines, _ := s.Close(); len(lines) != 500 {
			b.Fatal(len(lines))
		}
	}
}
