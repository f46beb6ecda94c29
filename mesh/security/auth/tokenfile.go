package auth

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"

	"go.yaml.in/yaml/v4"
)

// The fields of an entry, all required.
var fields = []string{"name", "hash", "tenant", "user", "permissions"}

// A tokenFile reads entries from the nodes of a file, so that its errors can
// say where.
type tokenFile struct {
	path string
	// entry says which entry is being read, as "entry 2 (alice-laptop)".
	entry string
}

func (f *tokenFile) errorf(n *yaml.Node, field, format string, args ...any) error {
	where := f.path
	if n != nil && n.Line > 0 {
		where += fmt.Sprintf(":%d", n.Line)
	}
	if f.entry != "" {
		where += ": " + f.entry
	}
	if field != "" {
		where += ": " + field
	}
	return &mesh.Error{Code: mesh.Invalid, Op: "auth.LoadTokens", Field: field,
		Detail: where + ": " + fmt.Sprintf(format, args...)}
}

const noTokens = "has no tokens, so that nobody could call; add an entry"

// document returns the one thing that the file holds.
func (f *tokenFile) document(data []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, f.errorf(nil, "", "cannot be read as YAML: %v", err)
	}
	var doc, more yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		return nil, f.errorf(nil, "", noTokens)
	case err != nil:
		return nil, f.errorf(nil, "", "is not YAML or JSON: %v", err)
	}
	if err := loader.Load(&more); !errors.Is(err, io.EOF) {
		return nil, f.errorf(&doc, "", "must be one document, and goes on after it")
	}
	return doc.Content[0], nil
}

// parseTokens reads the entries of a token file; path is for its errors.
func parseTokens(path string, data []byte) ([]entry, error) {
	f := &tokenFile{path: path}
	list, err := f.document(data)
	if err != nil {
		return nil, err
	}
	if list.Kind != yaml.SequenceNode {
		return nil, f.errorf(list, "", "must be a list of entries, each with %s", strings.Join(fields, ", "))
	}
	if len(list.Content) == 0 {
		return nil, f.errorf(list, "", noTokens)
	}
	var all []entry
	for i, n := range list.Content {
		f.entry = fmt.Sprintf("entry %d", i+1)
		e, err := f.parseEntry(n)
		if err != nil {
			return nil, err
		}
		for j, other := range all {
			if other.name == e.name {
				return nil, f.errorf(n, "name", "must be unique, and is that of entry %d too", j+1)
			}
			if other.hash == e.hash {
				return nil, f.errorf(n, "hash", "must be unique, and is that of entry %d (%s) too", j+1, other.name)
			}
		}
		all = append(all, e)
	}
	return all, nil
}

func (f *tokenFile) parseEntry(n *yaml.Node) (entry, error) {
	values, err := f.values(n)
	if err != nil {
		return entry{}, err
	}
	var e entry
	if e.name, err = f.text(values, "name"); err != nil {
		return entry{}, err
	}
	f.entry += " (" + e.name + ")"
	if err := f.hash(values, &e); err != nil {
		return entry{}, err
	}
	tenant, err := f.text(values, "tenant")
	if err != nil {
		return entry{}, err
	}
	e.principal.Tenant = mesh.TenantID(tenant)
	if err := e.principal.Tenant.Validate(); err != nil {
		return entry{}, f.errorf(values["tenant"], "tenant", "%s", mesh.DetailOf(err))
	}
	if e.principal.User, err = f.text(values, "user"); err != nil {
		return entry{}, err
	}
	if err := rpc.CheckUser(e.principal.User); err != nil {
		return entry{}, f.errorf(values["user"], "user", "%s", mesh.DetailOf(err))
	}
	e.principal.Permissions, err = f.permissions(values["permissions"])
	return e, err
}

// values returns the entry's fields by name: all of them, each once, and no
// others.
func (f *tokenFile) values(n *yaml.Node) (map[string]*yaml.Node, error) {
	if n.Kind != yaml.MappingNode {
		return nil, f.errorf(n, "", "must have the fields %s", strings.Join(fields, ", "))
	}
	values := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		switch {
		case !slices.Contains(fields, key):
			return nil, f.errorf(n.Content[i], key, "is not a field of an entry; the fields are %s", strings.Join(fields, ", "))
		case values[key] != nil:
			return nil, f.errorf(n.Content[i], key, "must be set once, and is set again")
		}
		values[key] = n.Content[i+1]
	}
	for _, key := range fields {
		if values[key] == nil {
			return nil, f.errorf(n, key, "is missing")
		}
	}
	return values, nil
}

func (f *tokenFile) text(values map[string]*yaml.Node, field string) (string, error) {
	n := values[field]
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		return "", f.errorf(n, field, "must be a text that is not empty")
	}
	return n.Value, nil
}

func (f *tokenFile) hash(values map[string]*yaml.Node, e *entry) error {
	text, err := f.text(values, "hash")
	if err != nil {
		return err
	}
	digits, ok := strings.CutPrefix(text, hashPrefix)
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != len(e.hash) {
		return f.errorf(values["hash"], "hash",
			"must be %q and the %d hexadecimal digits of the token's hash; the token itself does not belong here",
			hashPrefix, 2*len(e.hash))
	}
	copy(e.hash[:], raw)
	return nil
}

func (f *tokenFile) permissions(n *yaml.Node) ([]mesh.Permission, error) {
	known := mesh.Permissions()
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, f.errorf(n, "permissions", "must be a list of at least one of %v", known)
	}
	var all []mesh.Permission
	for _, item := range n.Content {
		p := mesh.Permission(item.Value)
		if item.Kind != yaml.ScalarNode || !slices.Contains(known, p) {
			return nil, f.errorf(item, "permissions", "has %.40q, which is none of %v", item.Value, known)
		}
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all, nil
}
