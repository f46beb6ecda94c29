package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
)

// flagName is what may stand between "--" and "=", as in the command language.
var flagName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

// skillFlags reads the words after a skill's name as package command does the
// rest of a line: --k v, --k=v, --k a b c for several values, --k alone for
// true; of equal flags the last one counts, and '-' and '_' are the same. The
// shell has taken the quotes off, so that a value that begins with "--" must be
// written --k=--v. A word of no flag, which means nothing to a model's command,
// is refused: a person would wait in vain for what it was meant to do.
func skillFlags(words []string) (map[string]any, error) {
	flags, current := map[string]any{}, ""
	for _, word := range words {
		name, isFlag := strings.CutPrefix(word, "--")
		switch {
		case isFlag:
			name, value, given := strings.Cut(name, "=")
			if !flagName.MatchString(name) {
				return nil, fmt.Errorf("%q is not a flag: after -- comes its name; a value that begins with -- is written --name=VALUE", mesh.Clip(word, 60))
			}
			name = command.FlagName(name)
			if current = name; given {
				current = ""
				flags[name] = value
			} else {
				flags[name] = true
			}
		case current != "":
			flags[current] = command.AddValue(flags[current], word)
		case word != "":
			return nil, fmt.Errorf("%q belongs to no flag; write --name VALUE, and put values with spaces into quotes", mesh.Clip(word, 60))
		}
	}
	return flags, nil
}

// ownFlags are the flags of 'mesh skills run' that may follow the skill's name
// too, and what takes their values.
func (o *runOptions) ownFlags(a *app) map[string]func(value any) error {
	return map[string]func(any) error{
		"yes":  func(v any) error { return setBool("yes", v, &o.yes) },
		"json": func(v any) error { return setBool("json", v, &o.json) },
		"request_id": func(v any) error {
			return setText("request-id", v, func(s string) error { o.request = s; return nil })
		},
		"thread": func(v any) error {
			return setText("thread", v, func(s string) (err error) { a.flags.thread, err = parseThread("--thread", s); return err })
		},
		"timeout": func(v any) error {
			return setText("timeout", v, func(s string) (err error) {
				if a.flags.timeout, err = time.ParseDuration(s); err != nil || a.flags.timeout < 0 {
					return fmt.Errorf("--timeout must be a time such as 90s, and is %q", s)
				}
				return nil
			})
		},
	}
}

func setBool(name string, value any, to *bool) error {
	switch value {
	case true, "true":
		*to = true
	case "false":
		*to = false
	default:
		return fmt.Errorf("--%s takes no value; if the value belongs to another flag, write it right after that one", name)
	}
	return nil
}

func setText(name string, value any, set func(string) error) error {
	text, ok := value.(string)
	if !ok || text == "" {
		return fmt.Errorf("--%s needs one value", name)
	}
	return set(text)
}

// take takes out of the flags what is for mesh rather than for the skill: its
// own flags, where the skill has no parameter of that name. Other flags of mesh
// cannot stand there: it must know them before it knows the skill.
func (o *runOptions) take(a *app, flags map[string]any, s *skill.Skill) error {
	taken := takenBy(s)
	own := o.ownFlags(a)
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		set, ours := own[name]
		switch {
		case taken[name]:
		case ours:
			if err := set(flags[name]); err != nil {
				return usage(err)
			}
			delete(flags, name)
		case o.global(name):
			return usage(fmt.Errorf("--%s is a flag of mesh; write it before the skill's name", strings.ReplaceAll(name, "_", "-")))
		}
	}
	return nil
}

// takenBy returns the names of the skill's parameters.
func takenBy(s *skill.Skill) map[string]bool {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	names := map[string]bool{}
	if json.Unmarshal(command.Schema(s), &schema) == nil {
		for name := range schema.Properties {
			names[command.FlagName(name)] = true
		}
	}
	return names
}

// usage makes an error about the command line one that ends with its exit code.
func usage(err error) error { return mesh.Errorf(mesh.Invalid, "mesh.run", "%v", err) }

// skillArguments are the flags as the arguments of a call of the skill.
func skillArguments(flags map[string]any, s *skill.Skill) (*structpb.Struct, error) {
	args := command.Args(flags, s)
	for name, value := range args {
		if list, ok := value.([]string); ok { // of a flag that the skill does not declare
			all := make([]any, len(list))
			for i := range list {
				all[i] = list[i]
			}
			args[name] = all
		}
	}
	out, err := structpb.NewStruct(args)
	if err != nil {
		return nil, usage(fmt.Errorf("the values cannot be sent: %w; they must be UTF-8 text", err))
	}
	return out, nil
}
