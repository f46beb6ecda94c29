package registry

import (
	"context"
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// vouched asks Options.Verify about a well-made card whose agent is called at
// the given endpoint, or where the card says if that is "".
//
// What is verified is the card as it will be used: an endpoint that is not on
// it is put there, so that a signature, which says nothing about that, does not
// lend its name to another server.
func (r *Registry) vouched(ctx context.Context, card *a2apb.AgentCard, endpoint string) error {
	if err := ValidateCard(card); err != nil || r.verify == nil {
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
