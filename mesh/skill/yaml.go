package skill

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// fields says how each field of a mapping is read. A reader gets the field's
// full name and its value.
type fields map[string]func(at string, n *yaml.Node) *Problem

// decode reads a mapping of the front matter. It knows the lines, refuses
// unknown and repeated fields, and takes no anchors: a value means the same
// wherever it stands.
func (f *file) decode(n *yaml.Node, prefix string, known fields) *Problem {
	// The first line of the YAML is the second one of the file.
	if n.Kind != yaml.MappingNode {
		return f.problem(n.Line+1, "%s must be a mapping of fields", prefix).of(prefix)
	}
	f.lines[prefix] = n.Line + 1
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := key.Value
		if prefix != "" {
			at = prefix + "." + key.Value
		}
		read, ok := known[key.Value]
		if !ok || key.Kind != yaml.ScalarNode {
			return f.problem(key.Line+1, "unknown field %q; known are %s",
				clip(at), strings.Join(slices.Sorted(maps.Keys(known)), ", ")).of(clip(at))
		}
		if line, twice := f.lines[at]; twice {
			return f.problem(key.Line+1, "%s is there twice, first on line %d; remove one", at, line).of(at)
		}
		f.lines[at] = key.Line + 1
		if key.Anchor != "" || value.Anchor != "" || value.Kind == yaml.AliasNode {
			return f.problem(value.Line+1, "%s uses a YAML anchor or alias; write the value out", at).of(at)
		}
		if isNull(value) {
			continue
		}
		if bad := read(at, value); bad != nil {
			return bad
		}
	}
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func (f *file) text(to *string) func(string, *yaml.Node) *Problem {
	return func(at string, n *yaml.Node) *Problem {
		if n.Kind != yaml.ScalarNode {
			return f.problem(n.Line+1, "%s must be one text value; put it in quotes if it contains ':' or brackets", at).of(at)
		}
		*to = strings.TrimSpace(n.Value)
		return nil
	}
}

func (f *file) boolean(to *bool) func(string, *yaml.Node) *Problem {
	return func(at string, n *yaml.Node) *Problem {
		if n.Kind != yaml.ScalarNode || (n.Value != "true" && n.Value != "false") {
			return f.problem(n.Line+1, "%s must be true or false", at).of(at)
		}
		*to = n.Value == "true"
		return nil
	}
}

func (f *file) texts(to *[]string) func(string, *yaml.Node) *Problem {
	return func(at string, n *yaml.Node) *Problem {
		if n.Kind != yaml.SequenceNode {
			return f.problem(n.Line+1, "%s must be a list, as [a, b]", at).of(at)
		}
		for i, item := range n.Content {
			name := fmt.Sprintf("%s[%d]", at, i)
			f.lines[name] = item.Line + 1
			if item.Kind != yaml.ScalarNode || isNull(item) || item.Anchor != "" {
				return f.problem(item.Line+1, "%s must be one text value", name).of(name)
			}
			*to = append(*to, strings.TrimSpace(item.Value))
		}
		return nil
	}
}
