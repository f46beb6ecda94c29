// Package system has the skills of the domain system: skills about the mesh
// itself, for now the one that builds skills.
//
// Handlers may be called concurrently. Where a built skill goes is decided by
// whoever makes the handlers.
package system

import (
	"context"
	"fmt"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// Handlers returns the handlers of the domain, by what skill files name.
// create stores a valid skill. Its error is Conflict if there is another one of
// that name; a skill whose Source is stored already is no error, so that a call
// can be repeated.
func Handlers(create func(ctx context.Context, s *skill.Skill) error) map[string]skill.Handler {
	return map[string]skill.Handler{"system.build_skill": builder(create)}
}

type builder func(ctx context.Context, s *skill.Skill) error

// Execute writes the skill that the arguments describe (S3-161).
func (create builder) Execute(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	s, err := skill.Build(skill.Draft{
		Name: call.String("name"), Domain: call.String("domain"), Description: call.String("description"),
		Steps: call.Strings("steps"), Triggers: call.Strings("triggers"), Tags: call.Strings("tags"),
		Schedule: call.String("schedule"), Timezone: call.String("timezone"),
		Author: "assistant", Created: env.Now().Format(time.DateOnly),
	})
	if err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	err = create(ctx, s)
	if mesh.IsCode(err, mesh.Conflict) {
		return nil, mesh.Errorf(mesh.Conflict, call.Skill, "There is a skill %s already; choose another name or delete that one first: %w", s.Name, err)
	}
	if err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	return &skill.Result{
		Content:  fmt.Sprintf("The skill %s is ready (%s). It does this: %s", s.Name, s.Path, s.Description),
		Files:    []string{s.Path},
		Metadata: map[string]any{"skill": s.Name, "path": s.Path},
	}, nil
}
