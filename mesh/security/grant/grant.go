// Package grant issues, checks and narrows the signed grants under which
// agents act.
//
// A grant says what one execution may do ([mesh.Grant]). The node signs it
// with its key ([Signer.Issue]), whoever runs the execution carries it in the
// metadata of its calls, and anyone who has the node's public key can check it
// ([Verifier.Check]). The only way to a child's grant is [Narrow], which never
// adds: the same tenant, user, thread and turn, no skill that the parent does
// not have, one level of dispatch less, and no later end. [Renew] does it again
// for a child that goes on after it waited.
//
// # Tokens
//
// A token is base64url(payload) "." base64url(signature), without padding; the
// payload is JSON that begins with a version, the signature Ed25519 over a
// fixed prefix and the payload. There is exactly one text for a payload and its
// signature. A token is a bearer secret until it expires, and is to be logged
// by nobody.
//
// Everything here is safe for concurrent use. The package does not revoke:
// a grant ends when it expires, so those who issue it keep that soon.
package grant

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
)

// MaxToken bounds the length of a token, in bytes. It leaves room in what
// gRPC and HTTP servers accept as headers.
const MaxToken = 16 << 10

// version is that of the payload; prefix is what the signature covers
// beside the payload, so that the key's other signatures are of no use here.
const (
	version = 1
	prefix  = "agentmesh grant v1\x00"
)

// b64 refuses set padding bits, so that no second text means the same bytes.
var b64 = base64.RawURLEncoding.Strict()

// payload is the signed form of a mesh.Grant. Field names are short because
// the token rides on every call.
type payload struct {
	Version      int               `json:"v"`
	Tenant       mesh.TenantID     `json:"ten"`
	User         string            `json:"usr"`
	Thread       string            `json:"thr"`
	Execution    mesh.ExecutionID  `json:"exe"`
	Parent       mesh.ExecutionID  `json:"par,omitempty"`
	Turn         mesh.ExecutionID  `json:"trn,omitempty"`
	Agent        string            `json:"agt,omitempty"`
	Chain        []string          `json:"chn,omitempty"`
	Skills       []string          `json:"skl,omitempty"`
	Roles        []mesh.Role       `json:"prm,omitempty"`
	Capabilities []mesh.Capability `json:"cap,omitempty"`
	Depth        int               `json:"dep,omitempty"`
	Expires      int64             `json:"exp"`
}

// A Signer issues the grants of a node.
type Signer struct {
	key    ed25519.PrivateKey
	public ed25519.PublicKey
}

// NewSigner returns the signer whose key is made from the seed, which must be
// 32 secret random bytes.
func NewSigner(seed []byte) (*Signer, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, mesh.InvalidField("grant.NewSigner", "seed", "must be %d bytes, and is %d", ed25519.SeedSize, len(seed))
	}
	return newSigner(ed25519.NewKeyFromSeed(seed)), nil
}

func newSigner(key ed25519.PrivateKey) *Signer { return &Signer{key, key.Public().(ed25519.PublicKey)} }

// Public returns the key with which the signer's grants are checked. It is no
// secret.
func (s *Signer) Public() ed25519.PublicKey { return s.public }

// Issue returns the signed token of the grant. It does not judge the grant:
// Check refuses a token whose grant lacks a tenant, user, thread or execution,
// or has expired.
func (s *Signer) Issue(g mesh.Grant) string {
	data, err := json.Marshal(payload{
		version, g.Tenant, g.User, g.Thread, g.Execution, g.Parent, g.Turn,
		g.Agent, g.Chain, g.Skills, g.Roles, g.Capabilities, g.Depth, g.Expires,
	})
	if err != nil { // strings and integers always have a JSON form
		panic("grant.Issue: " + err.Error())
	}
	token := b64.EncodeToString(data) + "." + b64.EncodeToString(ed25519.Sign(s.key, signed(data)))
	if g, err := read("grant.Issue", data); err == nil && len(token) <= MaxToken {
		known.Add(idOf(s.public, token), g)
	}
	return token
}

// recordPrefix is what the signature of a record covers beside it.
const recordPrefix = "agentmesh record v1\x00"

// SignRecord returns the node's signature of what it keeps as evidence, which is good
// for nothing else.
func (s *Signer) SignRecord(data []byte) []byte {
	return ed25519.Sign(s.key, append([]byte(recordPrefix), data...))
}

// VerifyRecord reports whether the signer with that public key signed the record.
func VerifyRecord(key ed25519.PublicKey, data, signature []byte) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, append([]byte(recordPrefix), data...), signature)
}

func signed(data []byte) []byte { return append([]byte(prefix), data...) }

// A Verifier checks grants.
type Verifier struct {
	key ed25519.PublicKey
	now func() time.Time
}

// NewVerifier returns a verifier for the grants of the signer with that public
// key, of 32 bytes. It reads the time from now, which must be safe for
// concurrent use; nil is time.Now.
func NewVerifier(public []byte, now func() time.Time) (*Verifier, error) {
	if len(public) != ed25519.PublicKeySize {
		return nil, mesh.InvalidField("grant.NewVerifier", "grant_key",
			"must be an Ed25519 public key of %d bytes, and is %d bytes", ed25519.PublicKeySize, len(public))
	}
	if now == nil {
		now = time.Now
	}
	return &Verifier{ed25519.PublicKey(append([]byte(nil), public...)), now}, nil
}

// Check returns the grant in the token if the signer made it and it has not
// expired. All its errors are Unauthenticated; the detail says which it was,
// and for a grant that has expired, when.
func (v *Verifier) Check(token string) (*mesh.Grant, error) {
	const op = "grant.Check"
	id := idOf(v.key, token)
	g, ok := known.Get(id)
	if !ok {
		data, signed := v.open(token)
		if !signed {
			return nil, refuse(op, "the grant is not one that this mesh signed; use the grant that came with the task")
		}
		var err error
		if g, err = read(op, data); err != nil {
			return nil, err
		}
		known.Add(id, g)
	}
	if end := time.Unix(g.Expires, 0); !v.now().Before(end) {
		return nil, refuse(op, "the grant expired at "+end.UTC().Format(time.RFC3339)+"; the task that it was made for is over")
	}
	own := *g
	return &own, nil
}

// read returns the grant of a signed payload, whenever it ends. Whoever holds it
// shares its slices, and cannot change it for others by appending to them.
func read(op string, data []byte) (*mesh.Grant, error) {
	var p payload
	if err := json.Unmarshal(data, &p); err != nil || p.Version != version {
		return nil, refuse(op, "the grant has a version that is not known here; run the same version of the mesh everywhere")
	}
	if !p.complete() {
		return nil, refuse(op, "the grant does not say whom it is for; it must name tenant, user, thread and execution")
	}
	return &mesh.Grant{
		Tenant: p.Tenant, User: p.User, Thread: p.Thread, Execution: p.Execution, Parent: p.Parent,
		Turn: p.Turn, Agent: p.Agent, Chain: slices.Clip(p.Chain), Skills: slices.Clip(p.Skills), Roles: slices.Clip(p.Roles),
		Capabilities: slices.Clip(p.Capabilities), Depth: p.Depth, Expires: p.Expires,
	}, nil
}

// open returns the payload of a token that is well-formed and signed.
func (v *Verifier) open(token string) ([]byte, bool) {
	head, tail, ok := strings.Cut(token, ".")
	if !ok || len(token) > MaxToken || strings.ContainsAny(token, "\r\n") {
		return nil, false // the decoder would skip line ends
	}
	data, err := b64.DecodeString(head)
	if err != nil {
		return nil, false
	}
	sig, err := b64.DecodeString(tail)
	return data, err == nil && ed25519.Verify(v.key, signed(data), sig)
}

// complete reports whether the grant is bound to somebody and something, and
// the execution to the thread.
func (p *payload) complete() bool {
	thread, err := mesh.ParseThreadID(p.Thread)
	of, ok := p.Execution.ThreadID()
	return err == nil && ok && of == thread && p.Thread == thread &&
		p.Tenant.Validate() == nil && p.User != "" && p.Depth >= 0
}

func refuse(op, detail string) error {
	return &mesh.Error{Code: mesh.Unauthenticated, Op: op, Field: "mesh-grant", Detail: detail}
}
