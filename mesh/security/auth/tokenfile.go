package auth

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"

	"go.yaml.in/yaml/v4"
)

// The fields of an entry. Those that are required come first; of the next two, one is.
var (
	required = []string{"name", "hash", "tenant", "user"}
	fields   = append(slices.Clip(required), "roles", "permissions", "not_before", "expires", "disabled")
)

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
		return nil, f.errorf(nil, "", "cannot be read as YAML")
	}
	var doc, more yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		return nil, f.errorf(nil, "", noTokens)
	case err != nil:
		var at *yaml.LoadError
		if errors.As(err, &at) { // what it says may cite the file
			return nil, f.errorf(&yaml.Node{Line: at.Mark.Line}, "", "is not YAML or JSON")
		}
		return nil, f.errorf(nil, "", "is not YAML or JSON")
	}
	if err := loader.Load(&more); !errors.Is(err, io.EOF) {
		return nil, f.errorf(&doc, "", "must be one document, and goes on after it")
	}
	return doc.Content[0], nil
}

// parseTokens reads the entries of a token file; path is for its errors.
func parseTokens(path string, data []byte) ([]*entry, error) {
	f := &tokenFile{path: path}
	list, err := f.document(data)
	if err != nil {
		return nil, err
	}
	if list.Kind != yaml.SequenceNode {
		return nil, f.errorf(list, "", "must be a list of entries, each with %s", strings.Join(append(slices.Clip(required), "roles"), ", "))
	}
	if len(list.Content) == 0 {
		return nil, f.errorf(list, "", noTokens)
	}
	var all []*entry
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

func (f *tokenFile) parseEntry(n *yaml.Node) (*entry, error) {
	values, err := f.values(n)
	if err != nil {
		return nil, err
	}
	e := new(entry)
	if e.name, err = f.text(values, "name"); err != nil {
		return nil, err
	}
	f.entry += " (" + e.name + ")"
	if err := f.hash(values, e); err != nil {
		return nil, err
	}
	tenant, err := f.text(values, "tenant")
	if err != nil {
		return nil, err
	}
	e.principal.Tenant = mesh.TenantID(tenant)
	if err := e.principal.Tenant.Validate(); err != nil {
		return nil, f.errorf(values["tenant"], "tenant", "%s", mesh.DetailOf(err))
	}
	if e.principal.User, err = f.text(values, "user"); err != nil {
		return nil, err
	}
	if err := rpc.CheckUser(e.principal.User); err != nil {
		return nil, f.errorf(values["user"], "user", "%s", mesh.DetailOf(err))
	}
	field, list := "roles", values["roles"]
	if old := values["permissions"]; list == nil {
		field, list = "permissions", old
	} else if old != nil {
		return nil, f.errorf(old, "permissions", "is what roles were called before; move them to roles")
	}
	if list == nil {
		return nil, f.errorf(n, "roles", "is missing")
	}
	if e.principal.Roles, err = f.roles(list, field); err != nil {
		return nil, err
	}
	return e, f.validity(values, e)
}

// validity reads from when to when the token counts, and whether it does at all.
func (f *tokenFile) validity(values map[string]*yaml.Node, e *entry) (err error) {
	if e.from, err = f.time(values, "not_before"); err != nil {
		return err
	}
	if e.until, err = f.time(values, "expires"); err != nil {
		return err
	}
	if !e.until.IsZero() && !e.from.Before(e.until) {
		return f.errorf(values["expires"], "expires", "must be after not_before")
	}
	if n := values["disabled"]; n != nil {
		if err := n.Decode(&e.disabled); err != nil || n.Tag != "!!bool" {
			return f.errorf(n, "disabled", "must be true or false")
		}
	}
	return nil
}

// time reads a time or a day, which begins at midnight UTC; the zero time if the field
// is not set.
func (f *tokenFile) time(values map[string]*yaml.Node, field string) (time.Time, error) {
	n := values[field]
	if n == nil {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, n.Value); n.Kind == yaml.ScalarNode && err == nil {
			return t, nil
		}
	}
	return time.Time{}, f.errorf(n, field, "must be a time as 2027-01-31T18:00:00Z, or a day as 2027-01-31")
}

// values returns the entry's fields by name: those that are required, each once, and
// no unknown ones.
func (f *tokenFile) values(n *yaml.Node) (map[string]*yaml.Node, error) {
	if n.Kind != yaml.MappingNode {
		return nil, f.errorf(n, "", "must have the fields %s", strings.Join(append(slices.Clip(required), "roles"), ", "))
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
	for _, key := range required {
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

// roles reads the names of roles, or of the permissions that were before there were
// roles.
func (f *tokenFile) roles(n *yaml.Node, field string) ([]mesh.Role, error) {
	known := mesh.Roles()
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, f.errorf(n, field, "must be a list of at least one of %v", known)
	}
	var all []mesh.Role
	for _, item := range n.Content {
		r, ok := mesh.RoleOf(item.Value)
		if item.Kind != yaml.ScalarNode || !ok {
			return nil, f.errorf(item, field, "has %.40q, which is none of %v", item.Value, known)
		}
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	slices.Sort(all)
	return all, nil
}
