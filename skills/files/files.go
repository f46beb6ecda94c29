// Package files has the skills of the domain files: a drive per tenant, which is
// a folder of the disk.
//
// No path leads out of the tenant's folder, and a file is changed as a whole or
// not at all, once per key (package tenantdir, which also says how many keys are
// remembered). Whoever says which version of a
// file they read does not overwrite a newer one. Other programs may work in the
// folder at the same time. Handlers may be called concurrently.
//
// It deletes nothing, and it reads text only.
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/edit"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/quote"
	"agentmesh/skills/internal/tenantdir"
)

// Bounds.
const (
	maxRead    = 8 << 20 // bytes of a file that is read
	maxContent = 512 << 10
	maxShown   = 60 // bytes of what was given, in messages
)

// Handlers returns the handlers of the domain, by what skill files name. The
// drive of each tenant is the folder of its name below dir.
func Handlers(dir string) map[string]skill.Handler {
	d := drive{tenantdir.New(dir)}
	return map[string]skill.Handler{
		"files.list": d.open(list), "files.read": d.open(read), "files.search": d.open(search),
		"files.write": d.open(write), "files.update": d.open(update),
	}
}

type drive struct{ dir *tenantdir.Dir }

// An action works in the folder of the call's tenant.
type action func(ctx context.Context, call *skill.Call, env *skill.Env, root *tenantdir.Root) (*skill.Result, error)

func (d drive) open(do action) skill.Handler {
	return skill.HandlerFunc(func(ctx context.Context, call *skill.Call, env *skill.Env) (_ *skill.Result, err error) {
		root, err := d.dir.Open(env.Owner())
		if err != nil {
			return nil, mesh.Wrap(call.Skill, err)
		}
		defer func() { err = mesh.Wrap(call.Skill, errors.Join(err, root.Close())) }()
		return do(ctx, call, env, root)
	})
}

// pathOf reads the flag path of a file.
func pathOf(call *skill.Call) (string, error) {
	if err := flags.Require(call, "path"); err != nil {
		return "", err
	}
	name, err := tenantdir.Clean(call.Skill, "path", flags.Text(call, "path"))
	if err == nil && name == "." {
		err = mesh.InvalidField(call.Skill, "path", "is the drive itself; name a file")
	}
	return name, err
}

// A node is one line of a list.
type node struct {
	name string
	info fs.FileInfo
}

func list(ctx context.Context, call *skill.Call, env *skill.Env, root *tenantdir.Root) (*skill.Result, error) {
	under, err := tenantdir.Clean(call.Skill, "path", flags.Text(call, "path"))
	if err != nil {
		return nil, err
	}
	deep, err := flags.Bool(call, "recursive")
	if err != nil {
		return nil, err
	}
	page, err := flags.PageOf(call, 100, 500)
	if err != nil {
		return nil, err
	}
	if info, err := root.Stat(under); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, mesh.InvalidField(call.Skill, "path", "is a file; read it with files.read")
	}
	var nodes []node // of the page
	total, note := 0, ""
	if err := root.Walk(ctx, under, func(name string, d fs.DirEntry) error {
		if total == tenantdir.MaxFiles {
			note = "There are more, which were not looked at; name a folder with --path."
			return fs.SkipAll
		}
		if page.Has(total) {
			info, _ := d.Info() // nil if it is gone meanwhile
			nodes = append(nodes, node{name, info})
		}
		total++
		if d.IsDir() && !deep {
			return fs.SkipDir
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return listed(under, page, nodes, total, note, env.Now().Location()), nil
}

func listed(under string, page flags.Page, nodes []node, total int, note string, loc *time.Location) *skill.Result {
	where := "the drive"
	if under != "." {
		where = quote.Line(under)
	}
	head := fmt.Sprintf("In %s: %d", where, total)
	if total == 0 {
		head = "There are no files in " + where + "."
	}
	part := page.Of(total, func(i int) string { return nodes[i-page.Offset].line(loc) })
	names := make([]string, 0, part.To-part.From)
	for _, n := range nodes[:part.To-part.From] {
		names = append(names, n.name)
	}
	return &skill.Result{Content: part.Under(head, note), Metadata: map[string]any{"count": total, "paths": names}}
}

func (n node) line(loc *time.Location) string {
	name := quote.Line(n.name)
	switch {
	case n.info == nil:
		return name + " (gone meanwhile)"
	case n.info.IsDir():
		return name + "/"
	case n.info.Mode().IsRegular():
		return fmt.Sprintf("%s (%d bytes, changed %s)", name, n.info.Size(), n.info.ModTime().In(loc).Format("2006-01-02 15:04"))
	}
	return name + " (no file: a link or a device)"
}

func read(_ context.Context, call *skill.Call, _ *skill.Env, root *tenantdir.Root) (*skill.Result, error) {
	name, err := pathOf(call)
	if err != nil {
		return nil, err
	}
	data, err := root.Read(name, maxRead)
	if err != nil {
		return nil, err
	}
	if !edit.IsText(data) {
		return &skill.Result{
			Content:  fmt.Sprintf("%s is a binary file of %d bytes; it has no text to show.", name, len(data)),
			Metadata: map[string]any{"path": name, "bytes": len(data), "binary": true, "version": tenantdir.Version(data)},
		}, nil
	}
	return edit.Show(call, name, data)
}

func write(ctx context.Context, call *skill.Call, _ *skill.Env, root *tenantdir.Root) (*skill.Result, error) {
	overwrite, err := flags.Bool(call, "overwrite")
	if err != nil {
		return nil, err
	}
	return change(ctx, call, root, func(_, text string, exists bool) (string, error) {
		if exists && !overwrite && flags.Text(call, "version") == "" {
			return "", mesh.Errorf(mesh.Precondition, call.Skill, "The file is there already; change it with files.update, or replace it with --overwrite")
		}
		return text, nil
	})
}

func update(ctx context.Context, call *skill.Call, _ *skill.Env, root *tenantdir.Root) (*skill.Result, error) {
	mode := cmp.Or(flags.Text(call, "mode"), "append")
	if err := flags.Enum(call, "mode", []string{mode}, "append", "replace", "text"); err != nil {
		return nil, err
	}
	if mode != "text" { // which also takes text away
		if err := flags.Require(call, "content"); err != nil {
			return nil, err
		}
	}
	return change(ctx, call, root, func(old, text string, exists bool) (string, error) {
		switch {
		case !exists:
			return "", mesh.Errorf(mesh.NotFound, call.Skill, "There is no such file; create it with files.write")
		case mode == "append":
			return edit.Append(old, text), nil
		case mode == "text":
			return edit.Exact(call, old, text)
		}
		return text, nil
	})
}

// change gives the file the text that edit returns.
func change(ctx context.Context, call *skill.Call, root *tenantdir.Root, become func(old, text string, exists bool) (string, error)) (*skill.Result, error) {
	name, err := pathOf(call)
	if err != nil {
		return nil, err
	}
	text := flags.Text(call, "content")
	if len(text) > maxContent || !edit.IsText([]byte(text)) {
		return nil, mesh.InvalidField(call.Skill, "content", "must be text of at most %d bytes, in UTF-8", maxContent)
	}
	done, err := root.Change(ctx, tenantdir.Change{
		Name: name, Key: call.Key, Version: strings.TrimSpace(flags.Text(call, "version")),
		Edit: func(old []byte, exists bool) ([]byte, error) {
			if !edit.IsText(old) {
				return nil, mesh.Errorf(mesh.Invalid, call.Skill, "%s is a binary file of %d bytes; it is not changed as text", mesh.Clip(name, maxShown), len(old))
			}
			text, err := become(string(old), text, exists)
			return []byte(text), err
		},
	})
	if err != nil {
		return nil, err
	}
	verb := "Changed"
	if done.Created {
		verb = "Created"
	}
	return &skill.Result{
		Content: fmt.Sprintf("%s %s: %d bytes, version %s.", verb, done.Name, done.Size, done.Version), Files: []string{done.Name},
		Metadata: map[string]any{"path": done.Name, "version": done.Version, "bytes": done.Size, "created": done.Created},
	}, nil
}
