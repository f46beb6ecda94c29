package cards

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/go-jose/go-jose/v4"

	"agentmesh/mesh"
)

// A Policy says what becomes of a card that nobody vouches for.
type Policy string

// The policies.
const (
	Off     Policy = "off"     // cards are not verified
	Warn    Policy = "warn"    // it is accepted, and the log says so
	Require Policy = "require" // it is refused
)

// maxSignatures is how many signatures of a card are looked at.
const maxSignatures = 8

// algorithms are those that a signature may use: none by a shared secret.
var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.EdDSA, jose.PS256, jose.PS384, jose.PS512, jose.RS256}

// VerifierOptions configure a [Verifier].
type VerifierOptions struct {
	// Policy is Off, Warn or Require; the default is Off.
	Policy Policy
	// Trust are keys that are believed for any card, and keys that are revoked.
	Trust KeySet
	// Hosts may vouch for any card over https, and over http too: the operator
	// trusts the way to them. They are names or addresses, with a port unless
	// it is the scheme's. A host that is not listed may vouch, over https, for
	// the cards whose interfaces are all on it.
	Hosts []string
	// Transport gets key sets; its owner closes it. The default is
	// http.DefaultTransport, which goes wherever a card says.
	Transport http.RoundTripper
	Now       func() time.Time // default time.Now
	Logger    *slog.Logger     // default discards
}

// A Verifier verifies the signatures of cards. Use [NewVerifier].
type Verifier struct {
	opts      VerifierOptions
	published *published
}

// NewVerifier returns a Verifier. It refuses an unknown policy with Invalid.
func NewVerifier(o VerifierOptions) (*Verifier, error) {
	if o.Policy == "" {
		o.Policy = Off
	}
	if o.Policy != Off && o.Policy != Warn && o.Policy != Require {
		return nil, mesh.InvalidField("cards.NewVerifier", "verify", "must be off, warn or require, and is %q", mesh.Clip(string(o.Policy), 64))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Verifier{opts: o, published: newPublished(o.Transport, o.Now)}, nil
}

// Check verifies the card as the policy wants it. Under Require it returns the
// error of Verify; under Warn it logs it.
func (v *Verifier) Check(ctx context.Context, card *a2apb.AgentCard) error {
	if v.opts.Policy == Off {
		return nil
	}
	kid, err := v.Verify(ctx, card)
	switch {
	case err == nil:
		v.opts.Logger.DebugContext(ctx, "agent card verified", "card", mesh.Clip(card.GetName(), 64), "kid", kid)
	case v.opts.Policy == Warn:
		v.opts.Logger.WarnContext(ctx, "agent card accepted unverified", "card", mesh.Clip(card.GetName(), 64), "err", err)
		return nil
	}
	return err
}

// Verify looks for a signature of the card, as it is, by a key that is
// believed, and returns that key's id. It returns Unavailable when that cannot
// be known because a host did not answer, and else Invalid with the field
// card.signatures and what is wrong with the last of them.
func (v *Verifier) Verify(ctx context.Context, card *a2apb.AgentCard) (string, error) {
	const op = "cards.Verify"
	payload, err := Canonical(card)
	if err != nil {
		return "", mesh.Wrap(op, err)
	}
	why := mesh.InvalidField(op, "card.signatures", "is missing, and this mesh takes signed cards only; sign the card as A2A v1.0 §8.4 says")
	var silent error
	for _, s := range card.GetSignatures()[:min(len(card.GetSignatures()), maxSignatures)] {
		kid, err := v.one(ctx, card, payload, s)
		switch {
		case err == nil:
			return kid, nil
		case mesh.IsCode(err, mesh.Unavailable):
			silent = err
		default:
			why = mesh.InvalidField(op, "card.signatures", "%s", mesh.DetailOf(err))
		}
	}
	if silent != nil {
		return "", mesh.Wrap(op, silent)
	}
	return "", why
}

// one verifies one signature and returns the id of its key.
func (v *Verifier) one(ctx context.Context, card *a2apb.AgentCard, payload []byte, s *a2apb.AgentCardSignature) (string, error) {
	const op = "cards.verify"
	jws, err := jose.ParseDetached(s.GetProtected()+".."+s.GetSignature(), payload, algorithms)
	if err != nil || len(jws.Signatures) != 1 {
		return "", mesh.Errorf(mesh.Invalid, op, "has a signature that is not a JWS by a public key; sign with ES256: %w", err)
	}
	header := jws.Signatures[0].Protected
	if header.KeyID == "" {
		return "", mesh.Errorf(mesh.Invalid, op, "has a signature whose protected header has no kid; add it")
	}
	keys, err := v.candidates(ctx, card, header)
	if err != nil {
		return "", err
	}
	shown := mesh.Clip(header.KeyID, 64)
	why := mesh.Errorf(mesh.Invalid, op, "has a signature by the key %q, which this mesh does not know; "+
		"publish it at the jku, or ask the operator to trust it", shown)
	for _, k := range keys {
		if bad := v.unusable(k); bad != "" {
			why = mesh.Errorf(mesh.Invalid, op, "has a signature by the key %q, which %s; sign with another key", shown, bad)
			continue
		}
		if k.jwk.Algorithm != "" && k.jwk.Algorithm != header.Algorithm || jws.DetachedVerify(payload, k.jwk.Key) != nil {
			why = mesh.Errorf(mesh.Invalid, op, "has a signature by the key %q that does not fit; "+
				"the card was changed after it was signed: sign it again", shown)
			continue
		}
		return header.KeyID, nil
	}
	return "", why
}

func (v *Verifier) unusable(k Key) string {
	if v.opts.Trust.revokes(k) {
		return "is revoked"
	}
	return k.unusable(v.opts.Now())
}

// candidates returns the keys that may have made the signature and may be
// believed for this card.
func (v *Verifier) candidates(ctx context.Context, card *a2apb.AgentCard, h jose.Header) (KeySet, error) {
	if known := v.opts.Trust.named(h.KeyID); len(known) > 0 {
		return known, nil
	}
	jku, _ := h.ExtraHeaders["jku"].(string)
	if jku == "" {
		return nil, nil
	}
	u, err := url.Parse(jku)
	if err != nil || u.Host == "" || u.User != nil || len(jku) > 2048 || !v.vouches(u, card) {
		return nil, mesh.Errorf(mesh.Invalid, "cards.candidates", "has a signature whose jku %q may not vouch for it; use https and "+
			"the host of the card's interfaces, or ask the operator to trust the host", mesh.Clip(jku, 120))
	}
	return v.published.keys(ctx, u, h.KeyID)
}

// vouches reports whether the host of the keys may speak for the card.
func (v *Verifier) vouches(u *url.URL, card *a2apb.AgentCard) bool {
	if u.Scheme != "https" && u.Scheme != "http" {
		return false
	}
	if slices.ContainsFunc(v.opts.Hosts, func(h string) bool { return strings.EqualFold(h, u.Host) }) {
		return true
	}
	on := func(in *a2apb.AgentInterface) bool { return strings.EqualFold(hostOf(in.GetUrl()), u.Hostname()) }
	all := card.GetSupportedInterfaces()
	return u.Scheme == "https" && len(all) > 0 && !slices.ContainsFunc(all, func(in *a2apb.AgentInterface) bool { return !on(in) })
}

// hostOf returns the host in a URL or in host:port.
func hostOf(at string) string {
	if strings.Contains(at, "://") {
		u, err := url.Parse(at)
		if err != nil {
			return ""
		}
		return u.Hostname()
	}
	host, _, err := net.SplitHostPort(at)
	if err != nil {
		return ""
	}
	return host
}
