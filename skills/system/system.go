// Package system has the skills of the domain system: skills about the mesh
// itself, for now the one that builds skills, system.build_skill, which is
// also called workflow.build.
//
// Handlers may be called concurrently. Where a built skill goes is decided by the Env of
// the call; the user is asked about its file first.
package system

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
)

// Handlers returns the handlers of the domain, by what skill files name.
func Handlers() map[string]skill.Handler {
	return map[string]skill.Handler{"system.build_skill": skill.EffectHandler(build, effect)}
}

// effect says that the mesh is to create the skill.
func effect(call *skill.Call, env *skill.Env) (*skill.Effect, error) {
	s, err := built(call, env)
	if err != nil {
		return nil, err
	}
	return &skill.Effect{Name: mesh.CallCreateSkill, Args: mesh.CreateSkillArgs(string(s.Source))}, nil
}

// built is the skill that the arguments describe.
func built(call *skill.Call, env *skill.Env) (*skill.Skill, error) {
	if err := flags.Require(call, "name", "description"); err != nil {
		return nil, err
	}
	params, err := parameters(call)
	if err != nil {
		return nil, err
	}
	approval, err := flags.Bool(call, "requires_approval")
	if err != nil {
		return nil, err
	}
	s, err := skill.Build(skill.Draft{
		Name: flags.Text(call, "name"), Domain: flags.Text(call, "domain"), Description: flags.Text(call, "description"),
		Steps: flags.List(call, "steps"), Triggers: flags.List(call, "triggers"), Tags: flags.List(call, "tags"),
		Parameters: params, Schedule: flags.Text(call, "schedule"), Timezone: flags.Text(call, "timezone"),
		Confirm: flags.Text(call, "confirm"), RequiresApproval: approval,
		Author: "assistant", Created: env.Now().Format(time.DateOnly),
	})
	return s, mesh.Wrap(call.Skill, err)
}

// build writes the skill that the arguments describe (S3-161).
func build(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	s, err := built(call, env)
	switch {
	case err != nil:
		return nil, err
	case env.CreateSkill == nil:
		return nil, mesh.Errorf(mesh.Unsupported, call.Skill, "no skills are created here")
	}
	err = env.CreateSkill(ctx, s)
	if mesh.IsCode(err, mesh.Conflict) {
		return nil, mesh.Errorf(mesh.Conflict, call.Skill, "There is a skill %s already; choose another name or delete that one first: %w", s.Name, err)
	}
	if err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	content := fmt.Sprintf("The skill %s is ready (%s). It does this: %s", s.Name, s.Path, s.Description)
	if s.RequiresApproval || s.Confirm != "" {
		content += " The user is asked before each call."
	}
	if s.Schedule != "" {
		zone := s.Timezone
		if zone == "" {
			zone = "UTC"
		}
		content += fmt.Sprintf(" It runs by itself at %s (%s).", s.Schedule, zone)
	}
	return &skill.Result{
		Content: content, Files: []string{s.Path},
		Metadata: map[string]any{"skill": s.Name, "path": s.Path},
	}, nil
}

// parameters reads what the new skill is to be given, each as
// "name:type:rule:description", of which only the name must be there.
func parameters(call *skill.Call) ([]skill.Parameter, error) {
	const most = 30
	list := flags.List(call, "parameters")
	if len(list) > most {
		return nil, mesh.InvalidField(call.Skill, "parameters", "has %d elements; at most %d are allowed", len(list), most)
	}
	var out []skill.Parameter
	for _, text := range list {
		fields := append(strings.SplitN(text, ":", 4), "", "", "")
		p := skill.Parameter{Name: strings.TrimSpace(fields[0]), Type: strings.TrimSpace(fields[1]), Description: strings.TrimSpace(fields[3])}
		if p.Type == "" {
			p.Type = "string"
		}
		rule := strings.TrimSpace(fields[2])
		fallback, isDefault := strings.CutPrefix(rule, "default=")
		switch {
		case isDefault:
			p.Default = fallback
		case rule == "required":
			p.Required = true
		case rule != "" && rule != "optional":
			return nil, mesh.InvalidField(call.Skill, "parameters",
				"has %q; write each as name:type:rule:description, where the rule is required, optional or default=<value>, as city:string:required:The city to look at", mesh.Clip(text, 60))
		}
		if !slices.Contains(skill.Types(), p.Type) {
			return nil, mesh.InvalidField(call.Skill, "parameters", "has the type %q; it must be one of: %s", mesh.Clip(p.Type, 60), strings.Join(skill.Types(), ", "))
		}
		out = append(out, p)
	}
	return out, nil
}
