package cards

import (
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

// Sign returns a copy of the card with a signature by each key in place of
// those that it had: whoever changes a card answers for all of it. It returns
// an Invalid error for a card that has no canonical form.
func (k *Keys) Sign(card *a2apb.AgentCard) (*a2apb.AgentCard, error) {
	payload, err := Canonical(card)
	if err != nil {
		return nil, err
	}
	signed := proto.CloneOf(card)
	if signed.Signatures, err = k.signatures(payload); err != nil {
		return nil, err
	}
	return signed, nil
}

// Write returns the JSON of the card, signed anew, as it is published: the same
// bytes for the same card. Its errors are those of [Keys.Sign].
func (k *Keys) Write(card *a2apb.AgentCard, mode Mode) ([]byte, error) {
	t := tree(card)
	payload, err := encode(t)
	if err != nil {
		return nil, err
	}
	signatures, err := k.signatures(payload)
	if err != nil {
		return nil, err
	}
	if mode == Union {
		addLegacy(t, card)
		whole, err := encode(t)
		if err != nil {
			return nil, err
		}
		if string(whole) != string(payload) {
			more, err := k.signatures(whole)
			if err != nil {
				return nil, err
			}
			signatures = append(signatures, more...)
		}
	}
	list := make([]any, len(signatures))
	for i, s := range signatures {
		list[i] = object(s.ProtoReflect())
	}
	t["signatures"] = list
	return encode(t)
}

// signatures signs the payload with each key.
func (k *Keys) signatures(payload []byte) ([]*a2apb.AgentCardSignature, error) {
	const op = "cards.Sign"
	var out []*a2apb.AgentCardSignature
	for _, s := range k.signers {
		jws, err := s.Sign(payload)
		if err != nil {
			return nil, mesh.Errorf(mesh.Unknown, op, "the agent card cannot be signed: %w", err)
		}
		compact, err := jws.DetachedCompactSerialize()
		if err != nil {
			return nil, mesh.Errorf(mesh.Unknown, op, "the agent card cannot be signed: %w", err)
		}
		protected, signature, _ := strings.Cut(compact, "..")
		out = append(out, &a2apb.AgentCardSignature{Protected: protected, Signature: signature})
	}
	return out, nil
}
