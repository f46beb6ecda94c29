package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/skill"
)

func (a *app) skillsNewCommand() *cobra.Command {
	var draft skill.Draft
	var params []string
	var inMesh bool
	cmd := &cobra.Command{
		Use:   "new NAME|FOLDER/NAME",
		Short: "Write a new skill",
		Long: `Write the file of a new skill: a template, which a model carries out step by step.
NAME is DOMAIN.ACTION; an action alone is one of the domain ` + skill.DefaultDomain + `.

The file is FOLDER/DOMAIN/ACTION.md. Without FOLDER, it goes where 'mesh up' in this
folder looks for skills: MESH_SKILLS, else skills, else ` + node.DefaultData + `/skills if that is
there; name it if mesh.yaml says otherwise. All tenants share such skills, and a running
mesh notices the file. With --mesh, the running mesh keeps the skill instead, for your
tenant alone; that needs the role skill-author.

Nothing is ever overwritten. A parameter is written NAME:TYPE:RULE:DESCRIPTION, of which
only the name must be there. The type is string, integer, float, boolean, flag, array or
object; the rule is required, optional or default=VALUE.`,
		Example: `  mesh skills new crm.add_note --description "Add a note to a customer" --parameter "customer:string:required:The customer's number"
  mesh skills new late_tasks --description "Mail what is late" --step "Search overdue tasks" --step "Mail the list" --schedule "0 8 * * 1-5" --timezone Europe/Oslo
  mesh skills new team-skills/crm.add_note --description "Add a note to a customer"
  mesh skills new --mesh late_tasks --description "Mail what is late"`,
		Args: exactly("the skill's name"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		draft.Author, draft.Created = a.flags.user, a.now().Format(time.DateOnly)
		folder, s, err := newSkill(args[0], draft, params)
		if err == nil && folder != "" && inMesh {
			err = mesh.Errorf(mesh.Invalid, "mesh.new", "--mesh keeps the skill in the mesh; leave the folder away, or --mesh")
		}
		switch {
		case err != nil:
			return &failure{err}
		case inMesh:
			return a.lookup(func(ctx context.Context, c *client, _ []string) error { return c.createSkill(ctx, s) })(cmd, args)
		}
		return a.action(func(context.Context, []string) error { return a.writeSkill(folder, s) })(cmd, args)
	}
	flags := cmd.Flags()
	flags.StringVar(&draft.Description, "description", "", "what it does, in one `line`; needed")
	flags.StringArrayVar(&params, "parameter", nil, "a `parameter`; may be repeated")
	flags.StringArrayVar(&draft.Steps, "step", nil, "one `step` of what it does; may be repeated")
	flags.StringArrayVar(&draft.Tags, "tag", nil, "a `word` to find it by; may be repeated")
	flags.StringVar(&draft.Schedule, "schedule", "", "run it by itself: a `cron` expression")
	flags.StringVar(&draft.Timezone, "timezone", "", "the schedule's `zone`, as Europe/Oslo (default UTC)")
	flags.BoolVar(&inMesh, "mesh", false, "have the running mesh keep it, for your tenant")
	return cmd
}

// newSkill makes the skill that the command line describes, and the folder for
// it, if that is named.
func newSkill(arg string, draft skill.Draft, params []string) (folder string, s *skill.Skill, err error) {
	if folder, err = draftName(arg, &draft); err != nil {
		return "", nil, err
	}
	if draft.Parameters, err = draftParameters(params); err != nil {
		return "", nil, err
	}
	if s, err = skill.Build(draft); err != nil {
		return "", nil, draftError(err)
	}
	return folder, s, nil
}

// draftName takes the folder and the name apart.
func draftName(arg string, d *skill.Draft) (folder string, err error) {
	folder, name := filepath.Split(arg)
	domain, action, dotted := strings.Cut(name, ".")
	switch {
	case action == "md" || filepath.Ext(action) == ".md":
		return "", mesh.Errorf(mesh.Invalid, "mesh.new", "give the skill's name and not its file, as skills/crm.add_note for skills/crm/add_note.md")
	case dotted:
		d.Domain, d.Name = domain, action
	case folder != "":
		return "", mesh.Errorf(mesh.Invalid, "mesh.new", "after a folder the name must be whole, as skills/crm.add_note, and is %q", mesh.Clip(name, 60))
	default:
		d.Name = domain
	}
	return folder, nil
}

// draftParameters reads parameters as 'mesh skills new' takes them.
func draftParameters(list []string) ([]skill.Parameter, error) {
	var out []skill.Parameter
	for _, text := range list {
		fields := append(strings.SplitN(text, ":", 4), "", "", "")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		p := skill.Parameter{Name: fields[0], Type: orText(fields[1], "string"), Description: fields[3]}
		value, isDefault := strings.CutPrefix(fields[2], "default=")
		switch rule := fields[2]; {
		case isDefault:
			p.Default = value
		case rule == "required":
			p.Required = true
		case rule != "" && rule != "optional":
			return nil, mesh.Errorf(mesh.Invalid, "mesh.new", "--parameter %q: the rule must be required, optional or default=VALUE; write NAME:TYPE:RULE:DESCRIPTION", mesh.Clip(text, 60))
		}
		if !slices.Contains(skill.Types(), p.Type) {
			return nil, mesh.Errorf(mesh.Invalid, "mesh.new", "--parameter %q: the type must be one of %s", mesh.Clip(text, 60), strings.Join(skill.Types(), ", "))
		}
		out = append(out, p)
	}
	return out, nil
}

// draftError names the flag or argument where the error names a field.
func draftError(err error) error {
	field, index, _ := strings.Cut(mesh.FieldOf(err), "[")
	flag, known := map[string]string{
		"description": "--description", "steps": "--step", "tags": "--tag", "parameters": "--parameter",
		"schedule": "--schedule", "timezone": "--timezone", "name": "the name", "domain": "the domain", "author": "--user",
	}[field]
	if !known {
		return err
	}
	if number, rest, ok := strings.Cut(index, "]"); ok {
		if n, err := strconv.Atoi(number); err == nil {
			flag += fmt.Sprintf(" %d%s", n+1, strings.ReplaceAll(rest, ".", ", ")) // people count from 1
		}
	}
	return mesh.Errorf(mesh.Invalid, "mesh.new", "%s %s", flag, mesh.DetailOf(err))
}

// writeSkill writes the skill's file into the folder, or the one that a mesh
// here would read.
func (a *app) writeSkill(folder string, s *skill.Skill) error {
	file := filepath.Join(orText(folder, a.skillsFolder()), filepath.FromSlash(s.Path))
	if err := writeNew(file, s.Source); err != nil {
		return err
	}
	a.printf("%s written\n", oneLine(file))
	a.notef("complete its text, and check it with: mesh skills validate %s\n", oneLine(file))
	return nil
}

// skillsFolder is where 'mesh up' with nothing but its defaults would look.
func (a *app) skillsFolder() string {
	const usual = "skills"
	if dir := a.getenv("MESH_SKILLS"); dir != "" {
		return dir
	}
	own := filepath.Join(a.env("MESH_DATA", node.DefaultData), usual)
	if isFolder(usual) || !isFolder(own) {
		return usual
	}
	return own
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// writeNew writes a file that is not there yet.
func writeNew(file string, data []byte) error {
	cannot := func(err error) error {
		return mesh.Errorf(mesh.Precondition, "mesh.new", "%s cannot be written; check the folder's permissions: %w", file, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return cannot(err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) // #nosec G302 -- for all who may read the folder
	if errors.Is(err, fs.ErrExist) {
		return mesh.Errorf(mesh.Precondition, "mesh.new", "%s is there already; choose another name, or edit that file", file)
	}
	if err != nil {
		return cannot(err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return cannot(errors.Join(err, os.Remove(file)))
	}
	return nil
}

// createSkill has the mesh keep the skill.
func (c *client) createSkill(ctx context.Context, s *skill.Skill) error {
	resp, err := c.skills.CreateSkill(c.call(ctx, c.app.flags.thread), &meshv1.CreateSkillRequest{Source: string(s.Source)})
	if err != nil {
		return err
	}
	made := resp.GetSkill()
	c.app.printf("%s created for %s\n", oneLine(made.GetName()), oneLine(skillOwner(made)))
	return nil
}
