package api

import (
	"runtime"
	"strings"
	"sync"
	"weak"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/skill"

	"google.golang.org/protobuf/proto"
)

// A telling remembers how skills are told as long as there are the skills: agents list
// them for each message, and they change when somebody writes a file. It may be used
// concurrently.
type telling struct{ told sync.Map } // *form by teller

// A teller is a skill, told with its texts or without.
type teller struct {
	of    weak.Pointer[skill.Skill]
	texts bool
}

// A form is how a skill is told.
type form struct {
	skill *meshv1.Skill
	bytes int // on the wire
}

// of returns the skill, which is everybody's and read-only, and its bytes.
func (t *telling) of(s *skill.Skill, texts bool) (*meshv1.Skill, int) {
	key := teller{weak.Make(s), texts}
	had, ok := t.told.Load(key)
	if !ok {
		p := skillProto(s, texts)
		var there bool
		if had, there = t.told.LoadOrStore(key, &form{p, proto.Size(p)}); !there {
			runtime.AddCleanup(s, func(key teller) { t.told.Delete(key) }, key)
		}
	}
	one := had.(*form)
	return one.skill, one.bytes
}

// skillProto returns the skill, with its texts or without.
func skillProto(s *skill.Skill, texts bool) *meshv1.Skill {
	p := &meshv1.Skill{Name: s.Name, Description: s.Description, Tags: s.Tags, Access: s.Access,
		Handler: s.Handler, Path: s.Path, RequiresApproval: s.RequiresApproval, Confirm: s.Confirm, Tenant: string(s.Tenant),
		Version: s.Version, Schedule: s.Schedule, Timezone: s.Timezone, Files: s.Files}
	if texts {
		p.Source, p.Body, p.InputSchema = strings.ToValidUTF8(string(s.Source), "\uFFFD"), s.Body, string(s.Schema)
		p.OutputSchema = string(s.Output)
	}
	for _, a := range s.Parameters {
		p.Parameters = append(p.Parameters, &meshv1.SkillParameter{Name: a.Name, Type: a.Type, Required: a.Required,
			Description: a.Description, Items: a.Items, Default: a.Default, Enum: a.Enum})
	}
	return p
}
