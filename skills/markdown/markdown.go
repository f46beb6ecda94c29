// Package markdown has the skills of the domain markdown: a vault of notes per
// tenant, each a markdown file with YAML front matter.
//
// The files are the truth, and other programs may work on them at any time: an
// editor, a synchronisation, version control. The index of a vault is a
// projection of its files. Each search first looks for those that changed, by
// their time and size and then by their content, and indexes them; the index
// may be deleted at any time and comes back.
//
// A note changes as a whole or not at all, once per key, and not if it is
// another version than the caller read (package tenantdir, which also says how
// many keys are remembered). Handlers may be called concurrently.
//
// It deletes and renames no note, and it does not change front matter that is
// there.
package markdown

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/edit"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/tenantdir"
	"agentmesh/skills/internal/textindex"
)

// Bounds.
const (
	maxContent = 512 << 10 // bytes of what a call brings
	maxTitle   = 200       // bytes
	maxTags    = 30
	maxTag     = 64 // bytes
	maxShown   = 60 // bytes of what was given, in messages
)

// Vaults has the vaults of all tenants. Use [Open].
type Vaults struct {
	dir  *tenantdir.Dir
	pool *textindex.Pool
}

// Open returns the vaults, which are the folders of the tenants' names below
// dir; the indexes are in the hidden folder .index beside them. Folders are made
// when they are needed. The caller closes the Vaults.
func Open(dir string) *Vaults {
	// A name says more about a note than a word of its text.
	return &Vaults{dir: tenantdir.New(dir), pool: textindex.NewPool(filepath.Join(dir, ".index"),
		textindex.Column{Name: "title", Weight: 1}, textindex.Column{Name: "content", Weight: 0.4}, textindex.Column{Name: "tags", Weight: 0.4})}
}

// Close closes the indexes. No call may be running.
func (v *Vaults) Close() error { return v.pool.Close() }

// Handlers returns the handlers of the domain, by what skill files name.
func Handlers(v *Vaults) map[string]skill.Handler {
	return map[string]skill.Handler{
		"markdown.create": v.open(create), "markdown.read": v.open(read), "markdown.edit": v.open(change),
		"markdown.search": v.open(v.search),
	}
}

// An action works in the vault of the call's tenant.
type action func(ctx context.Context, call *skill.Call, env *skill.Env, root *tenantdir.Root) (*skill.Result, error)

func (v *Vaults) open(do action) skill.Handler {
	return skill.HandlerFunc(func(ctx context.Context, call *skill.Call, env *skill.Env) (_ *skill.Result, err error) {
		root, err := v.dir.Open(env.Owner())
		if err != nil {
			return nil, mesh.Wrap(call.Skill, err)
		}
		defer func() { err = mesh.Wrap(call.Skill, errors.Join(err, root.Close())) }()
		return do(ctx, call, env, root)
	})
}

// noteOf reads the flag note: the path of a note, with or without its suffix.
func noteOf(call *skill.Call) (string, error) {
	if err := flags.Require(call, "note"); err != nil {
		return "", err
	}
	name, err := tenantdir.Clean(call.Skill, "note", flags.Text(call, "note"))
	switch {
	case err != nil:
		return "", err
	case name == ".":
		return "", mesh.InvalidField(call.Skill, "note", "is the vault itself; name a note")
	case isNote(name):
		return name, nil
	}
	return name + ".md", nil
}

func isNote(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".md" || ext == ".markdown"
}

func read(_ context.Context, call *skill.Call, _ *skill.Env, root *tenantdir.Root) (*skill.Result, error) {
	name, err := noteOf(call)
	if err != nil {
		return nil, err
	}
	data, err := root.Read(name, tenantdir.MaxFile)
	if err != nil {
		return nil, err
	}
	if !edit.IsText(data) {
		return nil, notText(call, name)
	}
	return edit.Show(call, name, data)
}

func notText(call *skill.Call, name string) error {
	return mesh.Errorf(mesh.Invalid, call.Skill, "%s is not UTF-8 text; convert it", mesh.Clip(name, maxShown))
}

func create(ctx context.Context, call *skill.Call, env *skill.Env, root *tenantdir.Root) (*skill.Result, error) {
	n, err := draft(call, env.Now())
	if err != nil {
		return nil, err
	}
	done, err := root.Change(ctx, tenantdir.Change{Name: n.path, Key: call.Key, Edit: func(_ []byte, exists bool) ([]byte, error) {
		if exists {
			return nil, mesh.Errorf(mesh.Precondition, call.Skill, "There is a note %s already; change it with markdown.edit, or choose another title or folder", mesh.Clip(n.path, maxShown))
		}
		return n.encode()
	}})
	if err != nil {
		return nil, err
	}
	return told("Created", done), nil
}

func change(ctx context.Context, call *skill.Call, _ *skill.Env, root *tenantdir.Root) (*skill.Result, error) {
	name, err := noteOf(call)
	if err != nil {
		return nil, err
	}
	mode := flags.Text(call, "mode")
	if mode == "" {
		mode = "append"
	}
	if err := flags.Enum(call, "mode", []string{mode}, "append", "replace", "section", "text"); err != nil {
		return nil, err
	}
	if mode != "text" { // which also takes text away
		if err := flags.Require(call, "content"); err != nil {
			return nil, err
		}
	}
	text := lineEnds.Replace(flags.Text(call, "content"))
	if len(text) > maxContent || !edit.IsText([]byte(text)) {
		return nil, mesh.InvalidField(call.Skill, "content", "must be text of at most %d bytes, in UTF-8", maxContent)
	}
	done, err := root.Change(ctx, tenantdir.Change{
		Name: name, Key: call.Key, Version: strings.TrimSpace(flags.Text(call, "version")),
		Edit: func(old []byte, exists bool) ([]byte, error) {
			switch {
			case !exists:
				return nil, mesh.Errorf(mesh.NotFound, call.Skill, "There is no note %s; find its path with markdown.search, or create it with markdown.create", mesh.Clip(name, maxShown))
			case !edit.IsText(old):
				return nil, notText(call, name)
			}
			text, err := edited(call, mode, string(old), text)
			return []byte(text), err
		},
	})
	if err != nil {
		return nil, err
	}
	return told("Changed", done), nil
}

func told(verb string, done tenantdir.Done) *skill.Result {
	return &skill.Result{
		Content:  fmt.Sprintf("%s the note %s, version %s.", verb, done.Name, done.Version),
		Files:    []string{done.Name},
		Metadata: map[string]any{"path": done.Name, "version": done.Version, "bytes": done.Size},
	}
}
