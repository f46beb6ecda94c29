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
//
// What a client verifies is what it understood. So a Union card has signatures of all
// forms in which it may be understood: that of v1.0, that without the requirements which
// Union leaves to v0.3, and the whole.
func (k *Keys) Write(card *a2apb.AgentCard, mode Mode) ([]byte, error) {
	t := tree(card)
	var list []any
	last := ""
	sign := func() error {
		payload, err := encode(t)
		if err != nil || string(payload) == last {
			return err
		}
		last = string(payload)
		signatures, err := k.signatures(payload)
		for _, s := range signatures {
			list = append(list, object(s.ProtoReflect()))
		}
		return err
	}
	if err := sign(); err != nil {
		return nil, err
	}
	if mode == Union && hasLegacy(card) {
		dropRequirements(t)
		if err := sign(); err != nil {
			return nil, err
		}
		addLegacy(t, card)
		if err := sign(); err != nil {
			return nil, err
		}
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
