package registry

import (
	"context"
	"fmt"
	"slices"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// vouched asks Options.Check about the places of c, and Options.Verify about the card from
// which it was described.
//
// What is verified is the card as it will be used: an endpoint that is not on
// it is put there, so that a signature, which says nothing about that, does not
// lend its name to another server.
func (r *Registry) vouched(ctx context.Context, card *a2apb.AgentCard, c *record) error {
	if err := r.placed(c); err != nil || r.verify == nil {
		return err
	}
	if !slices.ContainsFunc(card.GetSupportedInterfaces(), c.at) {
		card = proto.CloneOf(card)
		card.SupportedInterfaces = append(card.SupportedInterfaces,
			&a2apb.AgentInterface{Url: c.Endpoint, ProtocolBinding: BindingGRPC, ProtocolVersion: "1.0"})
	}
	return r.verify(ctx, card)
}

// at reports whether the interface is where the agent is called.
func (e Entry) at(in *a2apb.AgentInterface) bool {
	addr, err := interfaceAddress(in)
	return err == nil && addr == e.Endpoint
}

// placed asks Options.Check about all addresses of a tenant's agent.
func (r *Registry) placed(c *record) error {
	if c.Tenant == "" || r.places == nil {
		return nil
	}
	refused := func(field, at string) error {
		if err := r.places(at); err != nil {
			return mesh.InvalidField("registry.placed", field, "%s", mesh.DetailOf(err))
		}
		return nil
	}
	if c.given != "" {
		if err := refused("endpoint", c.Endpoint); err != nil {
			return err
		}
	}
	for i, in := range c.Card.GetSupportedInterfaces() {
		at, err := interfaceAddress(in)
		if err != nil { // it is not called
			continue
		}
		if err := refused(fmt.Sprintf("card.supportedInterfaces[%d].url", i), at); err != nil {
			return err
		}
	}
	return nil
}
