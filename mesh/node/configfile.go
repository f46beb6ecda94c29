package node

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// A file is where settings were read from: which of its lines has which of them.
type file struct {
	name  string
	root  *yaml.Node        // its fields by the names of Config; nil for an empty file
	lines map[string]int    // by the path of a field, as agents.worker.mcp or notify[0].on
	over  map[string]string // what has set fields since, as --grpc, by their paths
}

// LoadConfig reads a file. The error names the line and the field of all that cannot be
// read.
func LoadConfig(path string) (Config, error) {
	c, problems := readConfig(path)
	if len(problems) == 0 {
		return c, nil
	}
	if len(problems) == 1 {
		return c, problems[0]
	}
	var words []string
	for _, p := range problems {
		words = append(words, mesh.DetailOf(p))
	}
	return c, mesh.Errorf(mesh.Invalid, "node.LoadConfig", "%s", strings.Join(words, "; "))
}

// readConfig is LoadConfig with each problem by itself.
func readConfig(path string) (c Config, problems []error) {
	const op = "node.LoadConfig"
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return c, []error{mesh.Errorf(mesh.NotFound, op, "there is no configuration file %s; name another with --config, or leave it out", path)}
	}
	if err != nil {
		return c, []error{mesh.Errorf(mesh.Invalid, op, "%s cannot be read; check its permissions: %w", path, err)}
	}
	f := &file{name: path, over: map[string]string{}}
	c, problems = f.decode(data)
	for _, p := range []*string{&c.Data, &c.Skills, &c.Docs, &c.Tokens, &c.Policies, &c.Cards.Trust, &c.TenantSkills, &c.TLS.Cert, &c.TLS.Key, &c.TLS.ClientCA, &c.TLS.CA, &c.Audit.Checkpoints} {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(filepath.Dir(path), *p)
		}
	}
	return c, problems
}

// decode reads the file's text.
func (f *file) decode(data []byte) (c Config, problems []error) {
	var doc yaml.Node
	switch err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&doc); {
	case errors.Is(err, io.EOF): // it is empty
		return Config{file: f}, nil
	case err != nil:
		return Config{file: f}, f.unreadable(err)
	}
	if len(doc.Content) > 0 {
		f.root = doc.Content[0]
	}
	problems = append(f.unique(f.root, "", 0), f.canonical()...)
	f.lines = map[string]int{}
	f.index(f.root, "", f.lines, 0)
	if err := f.root.Load(&c, yaml.WithKnownFields()); err != nil {
		problems = append(problems, f.unreadable(err)...)
	}
	c.file = f
	return c, problems
}

// unique takes fields out that their group has already, and tells them. For the decoder they
// would spoil the whole group, and what names something of it would be wrong as well.
func (f *file) unique(n *yaml.Node, path string, depth int) (problems []error) {
	if n == nil || depth > maxDepthOfFile {
		return nil
	}
	lines := map[string]int{} // of the fields that are there
	for i := 0; i < len(n.Content); i++ {
		child, at := n.Content[i], fmt.Sprintf("%s[%d]", path, i)
		if n.Kind == yaml.MappingNode {
			at = strings.TrimPrefix(path+"."+child.Value, ".")
			if first, ok := lines[child.Value]; ok && child.Kind == yaml.ScalarNode {
				problems = append(problems, f.problem(child.Line, at, fmt.Sprintf("is in line %d already; leave one of them out", first)))
				n.Content = slices.Delete(n.Content, i, i+2)
				i--
				continue
			}
			lines[child.Value] = child.Line
			i++
		}
		problems = append(problems, f.unique(n.Content[i], at, depth+1)...)
	}
	return problems
}

// maxDepthOfFile bounds how deep a file is looked into for lines: aliases may nest.
const maxDepthOfFile = 12

// index notes the lines of all fields below n.
func (f *file) index(n *yaml.Node, path string, lines map[string]int, depth int) {
	if n == nil || depth > maxDepthOfFile {
		return
	}
	switch n.Kind {
	case yaml.AliasNode:
		f.index(n.Alias, path, lines, depth+1)
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			at := strings.TrimPrefix(path+"."+n.Content[i].Value, ".")
			lines[at] = n.Content[i].Line
			f.index(n.Content[i+1], at, lines, depth+1)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			lines[at] = item.Line
			f.index(item, at, lines, depth+1)
		}
	}
}

// pathAt is the path of what begins at that place of the file: a field by its name or by
// its value; "" for nothing.
func (f *file) pathAt(n *yaml.Node, path string, line, column, depth int) string {
	if n == nil || depth > maxDepthOfFile {
		return ""
	}
	// A group begins where its first field does, which is looked for first.
	for i, child := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if n.Kind == yaml.MappingNode {
			at = strings.TrimPrefix(path+"."+n.Content[i-i%2].Value, ".")
		}
		if found := f.pathAt(child, at, line, column, depth+1); found != "" {
			return found
		}
	}
	if n.Line == line && n.Column == column {
		return path
	}
	return ""
}

// unreadable are the problems of a decoder, in words of ours, and without what is in the
// file but names of fields: the line may be that of a secret.
func (f *file) unreadable(err error) (problems []error) {
	var several *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &several):
	case errors.As(err, &one):
		several = &yaml.LoadErrors{Errors: []*yaml.LoadError{one}}
	default:
		return []error{mesh.Errorf(mesh.Invalid, "node.LoadConfig", "%s cannot be read as YAML", f.name)}
	}
	for _, e := range several.Errors {
		path := f.pathAt(f.root, "", e.Mark.Line, e.Mark.Column, 0)
		problems = append(problems, f.problem(e.Mark.Line, path, f.words(e.Message, path)))
	}
	return problems
}

// problem says what is wrong with a field, and where that is.
func (f *file) problem(line int, field, words string) error {
	at := f.name
	if line > 0 {
		at = fmt.Sprintf("%s:%d", f.name, line)
	}
	if !showable(field) {
		field = ""
	}
	if field != "" {
		words = field + " " + words
	}
	return &mesh.Error{Code: mesh.Invalid, Op: "node.Config", Field: field, Detail: at + ": " + words}
}

var (
	pathPart = regexp.MustCompile(`^[A-Za-z0-9_/-]{1,64}$`)
	perAgent = regexp.MustCompile(`^(agents|chains|defaults)\.`)
	intoType = regexp.MustCompile(` into (\S+)$`)
)

// words are what a decoder says of the field.
func (f *file) words(message, path string) string {
	if m := unknownField.FindStringSubmatch(message); m != nil {
		name := path[strings.LastIndex(path, ".")+1:]
		if path == "" || !showable(path) {
			return withoutValues(message)
		}
		words := "is not known"
		if name == "limits" && perAgent.MatchString(path) {
			return words + "; the limits of an agent are max_iterations, max_tool_calls, max_tokens, max_cost and timeout, without a group"
		}
		if near := skill.Closest(name, fieldsOf(parentOf(path))); near != "" {
			words += "; did you mean " + near + "?"
		}
		return words
	}
	into := intoType.FindStringSubmatch(message)
	if path == "" || into == nil || !showable(path) {
		return withoutValues(message)
	}
	switch kind := into[1]; {
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "float"), strings.HasPrefix(kind, "uint"):
		return "must be a number"
	case kind == "bool":
		return "must be true or false"
	case kind == "time.Duration":
		return "must be a duration such as 30s"
	case kind == "string", kind == "node.Modes":
		return "must be a text"
	case strings.HasPrefix(kind, "[]"):
		return "must be a list"
	}
	return "must be a group of fields"
}

// parentOf is the path of what a field is in.
func parentOf(path string) string {
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return ""
}

// Problems are all mistakes of a file, each with its line and field, in the order of the
// lines; none for a file that is as it should be. more finds those that are beyond this
// package. Where a check stops at a mistake, what is wrong is taken out and the rest looked
// at again.
func Problems(path string, more func(*Config) []error) (Config, []error) {
	c, problems := readConfig(path)
	if c.file == nil {
		return c, problems
	}
	told := map[string]bool{}
	tell := func(found []error) {
		for _, p := range found {
			if field := mesh.FieldOf(p); field == "" || !told[field] {
				told[field] = true
				problems = append(problems, p)
			}
		}
	}
	for _, p := range problems {
		told[mesh.FieldOf(p)] = true
	}
	again := c
	tell(again.problems())
	for _, p := range more(&again) {
		tell([]error{again.Located(p)})
	}
	tell(c.file.hidden())
	slices.SortStableFunc(problems, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	return c, problems
}

// hidden returns mistakes that others hide, by taking these out. What is said of agents is
// checked as a whole, and would miss what is gone.
func (f *file) hidden() (problems []error) {
	root := clone(f.root)
	for range maxProblems {
		again := Config{}
		if root != nil {
			_ = root.Load(&again, yaml.WithKnownFields()) // what is wrong with that is told
		}
		again.file = f
		first := split(again.fill())
		gone := false
		for _, p := range first {
			problems = append(problems, again.Located(p))
			gone = root != nil && remove(root, mesh.FieldOf(p)) || gone
		}
		if !gone {
			break
		}
	}
	return problems
}

// maxProblems is after how many rounds nobody would read on.
const maxProblems = 100

var lineIn = regexp.MustCompile(`^[^\n]*?:(\d+): `)

func lineOf(err error) (line int) {
	if m := lineIn.FindStringSubmatch(mesh.DetailOf(err)); m != nil {
		_, _ = fmt.Sscan(m[1], &line)
	}
	return line
}

func clone(n *yaml.Node) *yaml.Node {
	if n == nil {
		return nil
	}
	out := *n
	out.Content = nil
	for _, child := range n.Content {
		out.Content = append(out.Content, clone(child))
	}
	return &out
}

// remove takes the field of that path out, or the nearest thing that it would be in, and
// reports whether there was one.
func remove(n *yaml.Node, path string) bool {
	for ; path != ""; path = parentOf(path) {
		if removeExactly(n, "", path) {
			return true
		}
	}
	return false
}

func removeExactly(n *yaml.Node, at, path string) bool {
	for i := 0; i < len(n.Content); i++ {
		switch n.Kind {
		case yaml.MappingNode:
			name := strings.TrimPrefix(at+"."+n.Content[i].Value, ".")
			if name == path {
				n.Content = slices.Delete(n.Content, i, i+2)
				return true
			}
			i++
			if removeExactly(n.Content[i], name, path) {
				return true
			}
		case yaml.SequenceNode:
			if removeExactly(n.Content[i], fmt.Sprintf("%s[%d]", at, i), path) {
				return true
			}
		}
	}
	return false
}
