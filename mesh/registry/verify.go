package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// vouched asks Options.Verify about a well-made card whose agent is called at
// the given endpoint, or where the card says if that is "".
//
// What is verified is the card as it will be used: an endpoint that is not on
// it is put there, so that a signature, which says nothing about that, does not
// lend its name to another server.
func (r *Registry) vouched(ctx context.Context, tenant mesh.TenantID, card *a2apb.AgentCard, endpoint string) error {
	if err := cmp.Or(ValidateCard(card), r.placed(tenant, card, endpoint)); err != nil || r.verify == nil {
		return err
	}
	onCard := func(in *a2apb.AgentInterface) bool {
		addr, err := interfaceAddress(in)
		return err == nil && addr == endpoint
	}
	if endpoint != "" && !slices.ContainsFunc(card.GetSupportedInterfaces(), onCard) {
		card = proto.CloneOf(card)
		card.SupportedInterfaces = append(card.SupportedInterfaces,
			&a2apb.AgentInterface{Url: endpoint, ProtocolBinding: BindingGRPC, ProtocolVersion: "1.0"})
	}
	return r.verify(ctx, card)
}

// placed asks Options.Check about all addresses of a tenant's agent.
func (r *Registry) placed(tenant mesh.TenantID, card *a2apb.AgentCard, endpoint string) error {
	if tenant == "" || r.places == nil {
		return nil
	}
	refused := func(field, at string) error {
		if err := r.places(at); err != nil {
			return mesh.InvalidField("registry.placed", field, "%s", mesh.DetailOf(err))
		}
		return nil
	}
	if endpoint != "" {
		if err := refused("endpoint", endpoint); err != nil {
			return err
		}
	}
	for i, in := range card.GetSupportedInterfaces() {
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
