package conformance

import (
	"context"
	"errors"
	"fmt"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/security/cards"
	"agentmesh/mesh/security/credentials"
)

// The checks of a card. What is odd on it has its field's name in their place.
const (
	CheckCard      = "card"
	CheckSignature = "signature"
)

// card reads the card, as the mesh does; nil if that cannot be.
func (t *test) card(ctx context.Context, at string) *a2apb.AgentCard {
	t.Begin(Finding{Check: CheckCard})
	ctx, cancel := context.WithTimeoutCause(ctx, t.Timeout, errTooLate)
	defer cancel()
	var sender *credentials.Sender
	if t.given != nil {
		there, err := t.given.Bind(nil, at)
		if err != nil {
			t.report(t.noCard(ctx, at, err))
			return nil
		}
		sender = there.Sender(nil, at, t.via())
	}
	card, err := registry.HTTPFetch(t.by)(ctx, at, sender)
	var warnings []registry.Warning
	if err == nil {
		warnings, err = registry.Inspect(card)
	}
	if err != nil {
		t.report(t.noCard(ctx, at, err))
		return nil
	}
	t.report(Finding{Check: CheckCard, Verdict: OK, Cause: fmt.Sprintf("%s %s, at %s", card.GetName(), card.GetVersion(), mesh.PublicURL(at))})
	for _, w := range warnings {
		t.report(Finding{Check: w.Field, Verdict: Warning, Cause: w.Text})
	}
	t.signature(ctx, card)
	return card
}

// noCard says why there is no card.
func (t *test) noCard(ctx context.Context, at string, err error) Finding {
	f := Finding{Check: CheckCard, Verdict: Failed, Cause: causeOf(err), Remedy: "correct the URL, or what is served there: the card is JSON"}
	switch {
	case interrupted(ctx):
		return Finding{Check: CheckCard, Verdict: Skipped, Cause: "interrupted"}
	case errors.Is(context.Cause(ctx), errTooLate):
		f.Cause, f.Remedy = fmt.Sprintf("nothing came from %s in %v", mesh.PublicURL(at), t.Timeout), "look whether the server hangs, or allow more time"
	case mesh.IsCode(err, mesh.Unavailable):
		f.Cause = mesh.PublicURL(at) + ": " + f.Cause
		f.Remedy = "start the agent, or correct the URL; the card is looked for at /.well-known/agent-card.json if there is no path"
	}
	return f
}

// signature verifies the card's signatures, as a mesh does that wants them.
func (t *test) signature(ctx context.Context, card *a2apb.AgentCard) {
	if len(card.GetSignatures()) == 0 {
		t.report(Finding{Check: CheckSignature, Verdict: Skipped, Cause: "the card is not signed"})
		return
	}
	f := Finding{Check: CheckSignature, Verdict: OK}
	v, err := cards.NewVerifier(cards.VerifierOptions{Policy: cards.Require, Transport: t.carrier})
	if err == nil {
		var key string
		key, err = v.Verify(ctx, card)
		f.Cause = fmt.Sprintf("by the key %q", key)
	}
	if err != nil {
		f.Verdict, f.Cause = Warning, "the card "+causeOf(err)
		f.Remedy = "a mesh with cards.verify: require refuses the card until this is mended, or its operator trusts the key"
	}
	t.report(f)
}

// only is the card with that interface alone.
func only(card *a2apb.AgentCard, in *a2apb.AgentInterface) *a2apb.AgentCard {
	card = proto.CloneOf(card)
	card.SupportedInterfaces = []*a2apb.AgentInterface{in}
	return card
}
