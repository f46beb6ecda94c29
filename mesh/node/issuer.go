package node

import (
	"context"
	"slices"
	"sync"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/security/cards"
)

// maxIssued bounds the cards that are kept: that of a mesh of 1,000 agents takes
// about a megabyte in all its forms.
const maxIssued = 128

// A signer signs cards, as cards.Keys does.
type signer interface {
	Sign(card *a2apb.AgentCard) (*a2apb.AgentCard, error)
	Write(card *a2apb.AgentCard, mode cards.Mode) ([]byte, error)
}

// An issuer hands out the signed cards of the mesh and its agents. It keeps
// each until the registry has another revision for its tenant, and signs each
// form of it when that is first asked for. It is safe for concurrent use.
type issuer struct {
	agents *registry.Registry
	keys   signer
	mode   cards.Mode                  // for those who may speak v0.3
	face   func() *a2apb.AgentCard     // the mesh's card without skills, the caller's to change
	main   string                      // the agent whose media types are those of the mesh, as it answers first
	kept   *lru.Cache[subject, issued] // of what does not exist nothing is kept
}

// subject is what a card is about, and for whom.
type subject struct {
	tenant mesh.TenantID
	agent  string // "" for the mesh
}

// issued are the forms of one card.
type issued struct {
	rev       uint64
	card      *a2apb.AgentCard
	signed    func() (*a2apb.AgentCard, error)
	union, v1 func() ([]byte, error)
}

func newIssuer(agents *registry.Registry, keys signer, mode cards.Mode, face func() *a2apb.AgentCard, main string) *issuer {
	kept, err := lru.New[subject, issued](maxIssued)
	if err != nil {
		panic(err) // maxIssued is positive
	}
	return &issuer{agents, keys, mode, face, main, kept}
}

// issue returns the card of the subject as it is now. It is NotFound for an
// agent that the tenant does not see.
func (i *issuer) issue(of subject) (issued, error) {
	// Before the card is made: one that changes meanwhile is made again.
	rev := i.agents.Revision(of.tenant)
	if c, ok := i.kept.Get(of); ok && c.rev == rev {
		return c, nil
	}
	card, err := i.card(of)
	if err != nil {
		return issued{}, err
	}
	c := issued{
		rev: rev, card: card,
		signed: sync.OnceValues(func() (*a2apb.AgentCard, error) {
			bare := proto.CloneOf(card)
			bare.SecurityRequirements = nil
			return i.keys.Sign(bare)
		}),
		union: sync.OnceValues(func() ([]byte, error) { return i.keys.Write(card, i.mode) }),
		v1:    sync.OnceValues(func() ([]byte, error) { return i.keys.Write(card, cards.V1) }),
	}
	i.kept.Add(of, c)
	return c, nil
}

// card makes the card of the subject, unsigned.
func (i *issuer) card(of subject) (*a2apb.AgentCard, error) {
	if of.agent != "" {
		return i.agentCard(of)
	}
	card := i.face()
	own := card.DefaultInputModes
	all := i.agents.List(of.tenant, registry.Filter{Live: true})
	for _, e := range all {
		if in, out := e.InputModes(), e.OutputModes(); e.Name == i.main && len(in) > 0 && len(out) > 0 {
			card.DefaultInputModes, card.DefaultOutputModes = in, out
		}
	}
	for _, e := range all {
		var tags []string
		for _, s := range e.Card.GetSkills() {
			tags = append(tags, s.GetTags()...)
		}
		skill := &a2apb.AgentSkill{Id: e.Name, Name: e.Card.GetName(), Description: e.Card.GetDescription(), Tags: distinct(tags)}
		if in := e.InputModes(); !slices.Equal(in, card.DefaultInputModes) {
			skill.InputModes = in
		}
		if out := e.OutputModes(); !slices.Equal(out, card.DefaultOutputModes) {
			skill.OutputModes = out
		}
		card.Skills = append(card.Skills, skill)
	}
	card.DefaultInputModes = spokenTo(card.DefaultInputModes, own)
	return card, nil
}

// agentCard is an agent's card for those who call it through the mesh: what it
// can do is the agent's, and how it is called is the mesh's. There is no
// address for gRPC on it: that is the mesh's own, where the metadata says which
// agent is meant.
func (i *issuer) agentCard(of subject) (*a2apb.AgentCard, error) {
	e, err := i.agents.Get(of.tenant, of.agent)
	if err != nil {
		return nil, err
	}
	own := i.face()
	card := proto.CloneOf(e.Card)
	card.Signatures, card.SupportedInterfaces = nil, nil
	card.Capabilities, card.DefaultInputModes = own.Capabilities, spokenTo(card.DefaultInputModes, own.DefaultInputModes)
	card.SecuritySchemes, card.SecurityRequirements = own.SecuritySchemes, own.SecurityRequirements
	for _, s := range card.Skills {
		s.SecurityRequirements = nil
	}
	for _, in := range own.SupportedInterfaces {
		if in.ProtocolBinding != registry.BindingGRPC {
			in.Url += "/agents/" + e.Name
			card.SupportedInterfaces = append(card.SupportedInterfaces, in)
		}
	}
	return card, nil
}

// spokenTo are the media types that an agent takes with the audio that the mesh, by its own, makes
// text for it.
func spokenTo(modes, own []string) []string {
	for _, m := range own {
		if mesh.AudioType(m) && !slices.Contains(modes, m) {
			modes = append(modes, m)
		}
	}
	return modes
}

// extended is the signed card of what the caller addresses, the mesh or one
// agent, as its tenant sees it. It has no requirements, which the official SDK for Go
// (2.4.0) cannot read in JSON: whoever gets it has met them.
func (i *issuer) extended(ctx context.Context, tenant mesh.TenantID) (*a2apb.AgentCard, error) {
	call, _ := mesh.CallFrom(ctx)
	c, err := i.issue(subject{tenant, call.Agent})
	if err != nil {
		return nil, err
	}
	return c.signed()
}

// plain is the card of what the caller addresses before it was signed, shared and read-only.
func (i *issuer) plain(ctx context.Context, tenant mesh.TenantID) (*a2apb.AgentCard, error) {
	call, _ := mesh.CallFrom(ctx)
	c, err := i.issue(subject{tenant, call.Agent})
	return c.card, err
}

// written is the JSON of a signed card.
func (i *issuer) written(of subject, v1 bool) ([]byte, error) {
	c, err := i.issue(of)
	if err != nil {
		return nil, err
	}
	if v1 {
		return c.v1()
	}
	return c.union()
}

// publicCard is the card, of the mesh or one agent, for whoever asks, with the
// tenant that they say is theirs: where callers have to prove that, it shows
// what all tenants share.
func (n *node) publicCard(_ context.Context, tenant mesh.TenantID, agent string, v1 bool) ([]byte, error) {
	if n.cfg.Auth != authNone {
		tenant = ""
	}
	return n.issuer.written(subject{tenant, agent}, v1)
}
