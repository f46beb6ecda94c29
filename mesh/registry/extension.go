package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// An Extension is what a card says to a mesh: the params of the extension
// [mesh.ExtensionURI] under its capabilities, each by the name in brackets.
type Extension struct {
	// Declared says that the card has the extension at all.
	Declared bool
	// HandoffSupport [handoff_support]: the agent can take the user's stream.
	HandoffSupport bool
	// HandoffTriggers [handoff_triggers] are phrases of users that are for the
	// agent to handle itself, as "create skill".
	HandoffTriggers []string
	// WorkflowStates [workflow_states] are the states that it goes through.
	WorkflowStates []string
	// StatefulWorkflows [stateful_workflows]: it keeps state between messages.
	StatefulWorkflows bool
	// HITLSupport [hitl_support]: it asks people for decisions.
	HITLSupport bool
	// MultiTurn [multi_turn]: it may answer with a question.
	MultiTurn bool
	// Idempotent [idempotent]: the same message for the same execution, sent again, has its
	// effect once, at whichever of its processes.
	Idempotent bool
	// Orchestration [orchestration]: it dispatches other agents.
	Orchestration bool
	// ExitWords [exit_words] are what users may say, as the whole message, to leave the agent
	// while it has their stream, beside [mesh.ExitWord]; in any case of letters. An agent that
	// names them names its way out in its questions.
	ExitWords []string
	// RequiredPermissions [required_permissions] are what users must have for whom it works,
	// as "skill:create"; see [mesh.PermissionAction].
	RequiredPermissions []string
}

// Params returns what the card says to a mesh. Members of a wrong type, of which
// Inspect warns, count as absent.
func Params(card *a2apb.AgentCard) Extension {
	_, p, ok := params(card)
	if !ok {
		return Extension{}
	}
	e := Extension{Declared: true}
	for name, flag := range e.flags() {
		*flag = p.GetFields()[name].GetBoolValue()
	}
	for name, list := range e.lists() {
		*list, _ = texts(p.GetFields()[name])
	}
	if e.RequiredPermissions, ok = texts(p.GetFields()[paramRequired]); !ok {
		e.RequiredPermissions = []string{""} // which nobody has; such a card is not registered
	}
	return e
}

func (e *Extension) flags() map[string]*bool {
	return map[string]*bool{"handoff_support": &e.HandoffSupport, "stateful_workflows": &e.StatefulWorkflows,
		"hitl_support": &e.HITLSupport, "multi_turn": &e.MultiTurn, "idempotent": &e.Idempotent, "orchestration": &e.Orchestration}
}

func (e *Extension) lists() map[string]*[]string {
	return map[string]*[]string{"handoff_triggers": &e.HandoffTriggers, "workflow_states": &e.WorkflowStates, paramExit: &e.ExitWords}
}

// params returns the place and the params of our extension.
func params(card *a2apb.AgentCard) (int, *structpb.Struct, bool) {
	for i, x := range card.GetCapabilities().GetExtensions() {
		if x.GetUri() == mesh.ExtensionURI {
			return i, x.GetParams(), true
		}
	}
	return 0, nil, false
}

// texts returns the text items of a list, and false if it is something else.
func texts(v *structpb.Value) ([]string, bool) {
	if v == nil {
		return nil, true
	}
	list, ok := v.GetKind().(*structpb.Value_ListValue)
	if !ok {
		return nil, false
	}
	var all []string
	for _, item := range list.ListValue.GetValues() {
		s, ok := item.GetKind().(*structpb.Value_StringValue)
		if !ok {
			return nil, false
		}
		all = append(all, s.StringValue)
	}
	return all, true
}

// paramRequired is the param of Extension.RequiredPermissions.
const paramRequired = "required_permissions"

// permissions refuses what the card requires of users if it is not what the mesh can ask
// for: taken as nothing, it would open the agent to everybody.
func permissions(card *a2apb.AgentCard) error {
	const op = "registry.permissions"
	i, p, ok := params(card)
	if !ok {
		return nil
	}
	at := fmt.Sprintf("card.capabilities.extensions[%d].params.%s", i, paramRequired)
	names, ok := texts(p.GetFields()[paramRequired])
	switch {
	case !ok:
		return mesh.InvalidField(op, at, "must be a list of texts, as [\"skill:create\"]; correct it, or leave it out")
	case len(names) > mesh.MaxPermissions:
		return mesh.InvalidField(op, at, "has %d permissions and may have %d; leave some out", len(names), mesh.MaxPermissions)
	}
	for n, name := range names {
		if _, ok := mesh.PermissionAction(name); !ok {
			return mesh.InvalidField(op, fmt.Sprintf("%s[%d]", at, n), "is %q, which is no permission; there are %s", clip(name), strings.Join(mesh.Permissions(), ", "))
		}
	}
	return nil
}

// extension checks the types of our extension's params.
func (v *verdict) extension(card *a2apb.AgentCard) {
	i, p, ok := params(card)
	if !ok {
		return
	}
	at := fmt.Sprintf("card.capabilities.extensions[%d].params.", i)
	e := Extension{}
	for _, name := range slices.Sorted(maps.Keys(e.flags())) {
		if f := p.GetFields()[name]; f != nil {
			if _, ok := f.GetKind().(*structpb.Value_BoolValue); !ok {
				v.warn(at+name, "must be true or false; it counts as absent")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.lists())) {
		if _, ok := texts(p.GetFields()[name]); !ok {
			v.warn(at+name, "must be a list of texts; it counts as absent")
		}
	}
}
