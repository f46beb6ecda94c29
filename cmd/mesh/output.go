package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

// Formats of what is printed.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// structured gives the command --output, and --json, which is short for one of
// its values; wanted is set where the command is to print data, with printAll,
// and no text for people.
func (a *app) structured(cmd *cobra.Command, wanted *bool, usage string) {
	cmd.Flags().BoolVar(wanted, "json", false, usage)
	cmd.Flags().VarP(&format{a, wanted}, "output", "o", "how to print: table, json (as --json) or yaml")
	cmd.MarkFlagsMutuallyExclusive("json", "output")
	fixed(cmd, "output", []string{formatTable, formatJSON, formatYAML})
}

// format is the value of --output.
type format struct {
	app    *app
	wanted *bool
}

func (f *format) String() string { return "" }
func (f *format) Type() string   { return "format" }

// Set refuses what is no format.
func (f *format) Set(s string) error {
	switch s {
	case formatTable, formatJSON, formatYAML:
		*f.wanted, f.app.yaml = s != formatTable, s == formatYAML
		return nil
	}
	return fmt.Errorf("must be %s, %s or %s", formatTable, formatJSON, formatYAML)
}

// printAll prints each message as one line of JSON or, where that is wanted, as
// a document of YAML with the same fields.
func printAll[M proto.Message](a *app, messages ...M) error {
	for _, m := range messages {
		line, err := jsonLine(m)
		if err != nil {
			return err
		}
		if a.yaml {
			line, err = yamlDocument(line)
			if err != nil {
				return err
			}
		}
		a.printf("%s\n", line)
	}
	return nil
}

// notInYAML is what JSON has in strings as it is, and YAML refuses or takes for the end of a line.
var notInYAML = regexp.MustCompile(`[\x{7f}-\x{9f}\x{2028}\x{2029}\x{feff}\x{fffe}\x{ffff}]`)

// yamlDocument returns JSON, which is YAML already, as people write it.
func yamlDocument(line string) (string, error) {
	line = notInYAML.ReplaceAllStringFunc(line, func(s string) string { return fmt.Sprintf(`\u%04x`, []rune(s)[0]) })
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(line), &doc); err != nil {
		return "", mesh.Errorf(mesh.Unknown, "mesh.yaml", "the answer cannot be written as YAML: %w", err)
	}
	block(&doc)
	data, err := yaml.Marshal(&doc)
	if err != nil {
		return "", mesh.Errorf(mesh.Unknown, "mesh.yaml", "the answer cannot be written as YAML: %w", err)
	}
	return "---\n" + string(bytes.TrimRight(data, "\n")), nil
}

// block has what is below the node written in lines; strings stay what they are.
func block(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode {
		n.Style = 0
	}
	for _, child := range n.Content {
		block(child)
	}
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		n.Content[i].Style = 0 // names of fields; the encoder quotes what needs it
	}
}

// jsonLine returns m as JSON on one line, always the same for the same m.
func jsonLine(m proto.Message) (string, error) {
	data, err := protojson.Marshal(m)
	if err != nil {
		return "", mesh.Errorf(mesh.Unknown, "mesh.json", "the answer cannot be written as JSON: %w", err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return "", mesh.Errorf(mesh.Unknown, "mesh.json", "the answer cannot be written as JSON: %w", err)
	}
	return b.String(), nil
}
