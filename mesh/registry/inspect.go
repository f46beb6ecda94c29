package registry

import (
	"fmt"
	"strings"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// maxWarnings is how many warnings of one card are told.
const maxWarnings = 32

// A Warning is something on a card that A2A wants otherwise, or that the mesh does not do,
// and with which the agent works all the same.
type Warning struct {
	// Field is where it is, as "card.skills[0].tags".
	Field string `json:"field"`
	// Text says, for people, what is the matter and what follows from it.
	Text string `json:"text"`
}

// Inspect reads a card as agents of others have them. It warns of what A2A v1.0 §4.4 wants
// otherwise and of what the mesh does not do, and returns an Invalid error that names the
// field only for what cannot be: a card that is too long, or words to leave the agent by that
// nobody can say, or that requires permissions of users which there are not. Whether the agent has a name, an
// address and the credentials that it wants, which may be given beside the card, is asked
// when it is registered.
func Inspect(card *a2apb.AgentCard) ([]Warning, error) {
	v, err := inspect(card)
	if err != nil {
		return nil, err
	}
	if more := len(v.warnings) - maxWarnings; more > 0 {
		v.warnings = append(v.warnings[:maxWarnings:maxWarnings], Warning{"card", fmt.Sprintf("has %d more of such", more)})
	}
	return v.warnings, nil
}

// inspect looks for what A2A wants otherwise.
func inspect(card *a2apb.AgentCard) (*verdict, error) {
	if n := proto.Size(card); n > MaxCard {
		return nil, mesh.InvalidField("registry.Inspect", "card", "has %d bytes and may have %d; shorten it", n, MaxCard)
	}
	if err := exitWords(card); err != nil {
		return nil, err
	}
	if err := permissions(card); err != nil {
		return nil, err
	}
	v := &verdict{}
	v.text("card.name", card.GetName(), "the agent goes by the name that it was given here")
	v.text("card.description", card.GetDescription(), "agents and people cannot tell what it is for, and models will hardly choose it")
	v.text("card.version", card.GetVersion(), "none is shown")
	if card.GetCapabilities() == nil {
		v.warn("card.capabilities", "is missing; it is taken to have none, and answers are not streamed")
	}
	v.list("card.defaultInputModes", len(card.GetDefaultInputModes()), "the agent is sent what users send")
	v.list("card.defaultOutputModes", len(card.GetDefaultOutputModes()), "its answers are taken as they come")
	v.interfaces(card)
	v.skills(card)
	v.extension(card)
	return v, nil
}

// A verdict is what there is to say of a card.
type verdict struct{ warnings []Warning }

func (v *verdict) warn(field, format string, args ...any) {
	v.warnings = append(v.warnings, Warning{field, fmt.Sprintf(format, args...)})
}

func (v *verdict) text(field, s, follows string) {
	if strings.TrimSpace(s) == "" {
		v.warn(field, "is missing; %s", follows)
	}
}

func (v *verdict) list(field string, n int, follows string) {
	if n == 0 {
		v.warn(field, "is missing; %s", follows)
	}
}

// interfaces warns of those that are not called, or not as the card says.
func (v *verdict) interfaces(card *a2apb.AgentCard) {
	for i, in := range card.GetSupportedInterfaces() {
		at := fmt.Sprintf("card.supportedInterfaces[%d]", i)
		const uncalled = "this interface is not called"
		bound, version := spoken(in)
		said := in.GetProtocolVersion()
		v.text(at+".url", in.GetUrl(), uncalled)
		switch {
		case strings.TrimSpace(in.GetProtocolBinding()) == "":
			v.warn(at+".protocolBinding", "is missing; %s", uncalled)
		case bound == "":
			v.warn(at+".protocolBinding", "is %q, which the mesh does not speak; %s", clip(in.GetProtocolBinding()), uncalled)
		case !strings.EqualFold(bound, in.GetProtocolBinding()):
			v.warn(at+".protocolBinding", "is %q; it is called as %s, which is how A2A writes it", clip(in.GetProtocolBinding()), bound)
		}
		switch {
		case said == "":
			v.warn(at+".protocolVersion", "is missing; it is called as %s", version)
		case version == "":
			v.warn(at+".protocolVersion", "is %q, which the mesh does not speak; %s", clip(said), uncalled)
		case version != said:
			v.warn(at+".protocolVersion", "is %q; it is called as %s", clip(said), version)
		}
		if in.GetUrl() != "" && usable(in) {
			if _, err := interfaceAddress(in); err != nil {
				v.warn(at+".url", "%s; %s", mesh.DetailOf(err), uncalled)
			}
		}
	}
}

// skills warns of those that are not found, or not told apart.
func (v *verdict) skills(card *a2apb.AgentCard) {
	v.list("card.skills", len(card.GetSkills()), "the agent is found by its name and description alone")
	ids := map[string]bool{}
	for i, s := range card.GetSkills() {
		at := fmt.Sprintf("card.skills[%d]", i)
		v.text(at+".id", s.GetId(), "nobody can ask for this skill")
		v.text(at+".name", s.GetName(), "none is shown")
		v.text(at+".description", s.GetDescription(), "agents and people cannot tell what it does")
		v.list(at+".tags", len(s.GetTags()), "the skill is not found by tag")
		if s.GetId() != "" && ids[s.GetId()] {
			v.warn(at+".id", "is %q, as that of another skill; they are not told apart", clip(s.GetId()))
		}
		ids[s.GetId()] = true
	}
}
