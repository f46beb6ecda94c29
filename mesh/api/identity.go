package api

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/url"
	"strings"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/security/transport"
	"agentmesh/mesh/state"

	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// identityKind is the kind under which invitations are kept, among the operator's
	// own values, which no grant reaches.
	identityKind = "identities"
	// Bounds of invitations and of what is sent with a token.
	defaultInvitation = time.Hour
	maxInvitation     = 7 * 24 * time.Hour
	maxHosts          = 16
	maxCSR            = 8 << 10 // of the 16 that come without a credential
)

// Identities serves mesh.v1.IdentityService over a certificate authority.
type Identities struct {
	meshv1.UnimplementedIdentityServiceServer
	authority *transport.Authority
	kv        *state.KV
	peer      func(context.Context) *x509.Certificate
	now       func() time.Time
}

// NewIdentities returns the server; without an authority it gives no certificates. What
// the caller proved itself by when it connected, peer says. The clock may be nil for
// time.Now.
func NewIdentities(authority *transport.Authority, kv *state.KV, peer func(context.Context) *x509.Certificate, now func() time.Time) *Identities {
	if now == nil {
		now = time.Now
	}
	return &Identities{authority: authority, kv: kv, peer: peer, now: now}
}

// An enrolment is what is kept of an agent that was invited.
type enrolment struct {
	// ID is in the certificates of who joined with the token.
	ID      string    `json:"id"`
	Token   string    `json:"token"` // a digest of its secret
	Hosts   []string  `json:"hosts"`
	Expires time.Time `json:"expires"` // of the token
	Joined  bool      `json:"joined"`
}

func enrolmentKey(a mesh.AgentID) state.Key {
	return state.Key{Kind: identityKind, Name: string(a.Tenant) + "/" + a.Name}
}

// InviteAgent implements the RPC.
func (s *Identities) InviteAgent(ctx context.Context, req *meshv1.InviteAgentRequest) (*meshv1.InviteAgentResponse, error) {
	const op = "api.InviteAgent"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	valid, hosts := defaultInvitation, req.GetHosts()
	if v := req.GetValid(); v != nil {
		valid = v.AsDuration()
	}
	if len(hosts) == 0 {
		hosts = []string{"localhost", "127.0.0.1", "::1"}
	}
	switch {
	case s.authority == nil:
		return nil, noTLS(op)
	case !mesh.ValidAgentName(req.GetName()):
		return nil, mesh.InvalidField(op, "name", "must be the name of an agent, in lower-case letters, digits, '-' and '_', and is %q", clip(req.GetName()))
	case valid <= 0 || valid > maxInvitation:
		return nil, mesh.InvalidField(op, "valid", "must be at most %v; leave it out for %v", maxInvitation, defaultInvitation)
	case len(hosts) > maxHosts:
		return nil, mesh.InvalidField(op, "hosts", "are %d, and may be %d", len(hosts), maxHosts)
	}
	for _, h := range hosts {
		if u, err := url.Parse("https://" + h); net.ParseIP(h) == nil && (err != nil || u.Host != h || u.Port() != "" || strings.Trim(h, ".*") != h || len(h) > 253) {
			return nil, mesh.InvalidField(op, "hosts", "must be host names or addresses, and one is %q", clip(h))
		}
	}
	secret := rand.Text()
	e := enrolment{ID: rand.Text(), Token: digest(secret), Hosts: hosts, Expires: s.now().Add(valid).UTC()}
	who := mesh.AgentID{Tenant: call.Principal.Tenant, Name: req.GetName()}
	if err := s.put(ctx, who, e, state.AnyVersion); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.InviteAgentResponse{Token: string(who.Tenant) + "/" + who.Name + "/" + secret,
		Expires: timestamppb.New(e.Expires), Ca: s.authority.Bundle()}, nil
}

// JoinAgent implements the RPC.
func (s *Identities) JoinAgent(ctx context.Context, req *meshv1.JoinAgentRequest) (*meshv1.JoinAgentResponse, error) {
	const op = "api.JoinAgent"
	part := strings.Split(req.GetToken(), "/")
	if len(part) != 3 || mesh.TenantID(part[0]).Validate() != nil || !mesh.ValidAgentName(part[1]) {
		return nil, noToken("is not known")
	}
	who := mesh.AgentID{Tenant: mesh.TenantID(part[0]), Name: part[1]}
	e, version, err := s.get(ctx, who)
	switch {
	case mesh.IsCode(err, mesh.NotFound):
		return nil, noToken("is not known")
	case err != nil:
		return nil, mesh.Wrap(op, err)
	case subtle.ConstantTimeCompare([]byte(digest(part[2])), []byte(e.Token)) != 1:
		return nil, noToken("is not known")
	case e.Joined:
		return nil, noToken("was used")
	case !s.now().Before(e.Expires):
		return nil, noToken("expired at " + e.Expires.Format(time.RFC3339))
	}
	c, err := s.issue(op, who, e, req.GetCsr())
	if err != nil {
		return nil, err
	}
	e.Joined = true
	err = s.put(ctx, who, e, version)
	if mesh.IsCode(err, mesh.Conflict) { // somebody else came with it
		return nil, noToken("was used")
	}
	return &meshv1.JoinAgentResponse{Certificate: c}, mesh.Wrap(op, err)
}

// RenewCertificate implements the RPC.
func (s *Identities) RenewCertificate(ctx context.Context, req *meshv1.RenewCertificateRequest) (*meshv1.RenewCertificateResponse, error) {
	const op = "api.RenewCertificate"
	call, _ := mesh.CallFrom(ctx)
	has := s.peer(ctx)
	if has == nil || call.Peer == (mesh.AgentID{}) || s.now().After(has.NotAfter) {
		return nil, mesh.Errorf(mesh.Unauthenticated, op, "connect over TLS with the agent's certificate, while it counts; or join again, with a new invitation")
	}
	e, _, err := s.get(ctx, call.Peer)
	if err != nil && !mesh.IsCode(err, mesh.NotFound) {
		return nil, mesh.Wrap(op, err)
	}
	if err != nil || !e.Joined || e.ID != has.Subject.SerialNumber {
		return nil, mesh.Errorf(mesh.Denied, op, "somebody else was invited as %s meanwhile; ask for a new invitation", call.Peer.Name)
	}
	c, err := s.issue(op, call.Peer, e, req.GetCsr())
	return &meshv1.RenewCertificateResponse{Certificate: c}, err
}

// issue makes the agent's certificate for the key in the request.
func (s *Identities) issue(op string, who mesh.AgentID, e enrolment, csr []byte) (*meshv1.Certificate, error) {
	if s.authority == nil { // any more
		return nil, noTLS(op)
	}
	key, err := publicKey(csr)
	if err != nil {
		return nil, mesh.InvalidField(op, "csr", "must be a PKCS #10 request in DER of at most %d bytes, signed with its own key: %v", maxCSR, err)
	}
	leaf, err := s.authority.Issue(key, transport.Leaf{ID: who.SPIFFE(s.authority.Domain()), Hosts: e.Hosts, Enrolled: e.ID})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.Certificate{Leaf: leaf, Ca: s.authority.Bundle(), TenantId: string(who.Tenant), Name: who.Name}, nil
}

// publicKey returns the key that a request was signed with.
func publicKey(csr []byte) (crypto.PublicKey, error) {
	if len(csr) > maxCSR {
		return nil, mesh.Errorf(mesh.Invalid, "api.publicKey", "it has %d bytes", len(csr))
	}
	r, err := x509.ParseCertificateRequest(csr)
	if err != nil {
		return nil, err
	}
	return r.PublicKey, r.CheckSignature()
}

func (s *Identities) get(ctx context.Context, who mesh.AgentID) (e enrolment, version int64, err error) {
	v, err := s.kv.Get(ctx, enrolmentKey(who))
	if err != nil {
		return e, 0, err
	}
	return e, v.Version, json.Unmarshal(v.Data, &e)
}

func (s *Identities) put(ctx context.Context, who mesh.AgentID, e enrolment, version int64) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = s.kv.Put(ctx, enrolmentKey(who), data, version)
	return err
}

// digest is what is kept of a secret. Nobody guesses one of a digest, as they are random.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func noTLS(op string) error {
	return mesh.Errorf(mesh.Precondition, op, "This mesh has no TLS, and so no certificates to give; its operator sets tls: auto")
}

func noToken(why string) error {
	return &mesh.Error{Code: mesh.Unauthenticated, Op: "api.JoinAgent", Field: "token", Detail: "the token " + why + "; ask for a new invitation of the agent (mesh agents invite)"}
}
