package skilltest

import (
	"context"
	"encoding/json"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/skill"
)

// Permit returns a permit for the call, as of a node that took it.
func Permit(call *skill.Call) *grant.Permit {
	signer, err := grant.NewSigner([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		panic(err) // for a key of another length
	}
	args, err := json.Marshal(call.Args)
	if err != nil {
		return nil
	}
	g := &mesh.Grant{Agent: "test", Execution: "test"}
	p, err := grant.CheckPermit(nil, g, signer.Permit(grant.Claims{Agent: g.Agent, Execution: g.Execution, Call: call.ID, Skill: call.Skill,
		What: mesh.CallDigest(call.Skill, "", string(args)), Expires: time.Now().Add(time.Hour).Unix()}, true))
	if err != nil {
		panic(err) // it has just been made
	}
	return p
}

// Do has the handler run the call, with a permit.
func Do(ctx context.Context, h skill.Handler, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	return h.Do(ctx, Permit(call), call, env)
}

// Journal is a skill.Journal that permits every call and keeps nothing.
type Journal struct{}

// Begin implements [skill.Journal].
func (Journal) Begin(_ context.Context, _ *skill.Skill, call *skill.Call) (skill.Begun, error) {
	return skill.Begun{Permit: Permit(call)}, nil
}

// End implements [skill.Journal].
func (Journal) End(context.Context, *skill.Skill, *skill.Call, *skill.Result, limit.Outcome, time.Duration) {
}
