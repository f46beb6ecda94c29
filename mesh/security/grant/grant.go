// Package grant issues, checks and narrows the signed grants under which agents act, and
// the tickets for which agents get them.
//
// A grant says what one execution may do ([mesh.Grant]). The agent that is to work on it
// is sent a ticket ([Signer.Ticket]), which is good for a minute, and redeems it at the
// node for the grant ([Signer.Issue]); the same ticket for the same grant, so that a lost
// answer costs nothing. It carries the grant in the metadata of its calls, and the node
// checks it ([Verifier.Check]). Agents check tickets with the node's public keys. The only
// way to a child's grant is [Narrow], which never adds: the same tenant, user, thread and
// turn, no skill that the parent does not have, one level of dispatch less, no larger
// budget, and no later end. [Renew] does it again for a child that goes on after it waited.
//
// # Tokens
//
// A token is the id of the key, a dot, base64url(payload), a dot and base64url(signature),
// without padding; the payload is JSON that begins with a version, the signature Ed25519
// over a fixed prefix, which is another one for tickets, and the payload. There is exactly
// one text for a payload and its signature.
//
// Everything here is safe for concurrent use. The package does not revoke, nor does it
// know who calls: that a grant is its holder's, and its execution at work, the node checks.
package grant

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
)

// MaxToken bounds the length of a token, in bytes. It leaves room in what
// gRPC and HTTP servers accept as headers.
const MaxToken = 16 << 10

// version is that of the payload. What the signature covers begins with the kind, so that
// no token is good for something else, nor are the key's other signatures.
const version = 2

type kind string

const (
	grants  kind = "agentmesh grant v2\x00"
	tickets kind = "agentmesh ticket v2\x00"
)

// b64 refuses set padding bits, so that no second text means the same bytes.
var b64 = base64.RawURLEncoding.Strict()

// payload is the signed form of a mesh.Grant. Field names are short because
// the token rides on every call.
type payload struct {
	Version      int               `json:"v"`
	ID           string            `json:"jti"`
	Tenant       mesh.TenantID     `json:"ten"`
	User         string            `json:"usr"`
	Thread       string            `json:"thr"`
	Execution    mesh.ExecutionID  `json:"exe"`
	Parent       mesh.ExecutionID  `json:"par,omitempty"`
	Turn         mesh.ExecutionID  `json:"trn,omitempty"`
	Agent        string            `json:"agt,omitempty"`
	Holder       mesh.TenantID     `json:"hld,omitempty"`
	Chain        []actor           `json:"chn,omitempty"`
	Skills       []string          `json:"skl,omitempty"`
	Capabilities []mesh.Capability `json:"cap,omitempty"`
	Depth        int               `json:"dep,omitempty"`
	Expires      int64             `json:"exp"`
	Budget       budget            `json:"bud,omitzero"`
	Made         int64             `json:"iat,omitempty"` // of a ticket
	Dry          bool              `json:"dry,omitempty"`
}

type actor struct {
	Agent     string           `json:"a"`
	Execution mesh.ExecutionID `json:"x"`
}

type budget struct {
	Calls  int64 `json:"c,omitempty"`
	Tokens int64 `json:"t,omitempty"`
	Cost   int64 `json:"m,omitempty"`
	Agents int64 `json:"a,omitempty"`
}

func payloadOf(g mesh.Grant, made int64) payload {
	chain := make([]actor, 0, len(g.Chain))
	for _, a := range g.Chain {
		chain = append(chain, actor(a))
	}
	return payload{version, g.ID, g.Tenant, g.User, g.Thread, g.Execution, g.Parent, g.Turn,
		g.Agent, g.Holder, chain, g.Skills, g.Capabilities, g.Depth, g.Expires, budget(g.Budget), made, g.Dry}
}

// grant is the caller's, but for what it points to, which is shared and which nobody
// changes by appending to it.
func (p *payload) grant() *mesh.Grant {
	var chain []mesh.Actor
	for _, a := range p.Chain {
		chain = append(chain, mesh.Actor(a))
	}
	return &mesh.Grant{
		ID: p.ID, Tenant: p.Tenant, User: p.User, Thread: p.Thread, Execution: p.Execution, Parent: p.Parent,
		Turn: p.Turn, Agent: p.Agent, Holder: p.Holder, Chain: chain, Skills: slices.Clip(p.Skills),
		Capabilities: slices.Clip(p.Capabilities), Depth: p.Depth, Expires: p.Expires, Budget: mesh.Budget(p.Budget), Dry: p.Dry,
	}
}

// A Signer issues the grants and tickets of a node, with the first of its keys. Those of
// the others are checked still.
type Signer struct{ keys []ed25519.PrivateKey }

// NewSigner returns the signer whose key is made from the seed, which must be
// 32 secret random bytes.
func NewSigner(seed []byte) (*Signer, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, mesh.InvalidField("grant.NewSigner", "seed", "must be %d bytes, and is %d", ed25519.SeedSize, len(seed))
	}
	return &Signer{[]ed25519.PrivateKey{ed25519.NewKeyFromSeed(seed)}}, nil
}

// Public returns the keys with which the signer's grants and tickets are checked. They are
// no secret.
func (s *Signer) Public() [][]byte {
	var all [][]byte
	for _, k := range s.keys {
		all = append(all, k.Public().(ed25519.PublicKey))
	}
	return all
}

// Secret is what the builtin agent of that name proves itself by, at all nodes that have
// the signer's key.
func (s *Signer) Secret(agent string) string {
	mac := hmac.New(sha256.New, s.keys[0].Seed())
	mac.Write([]byte("agentmesh builtin agent v1\x00" + agent))
	return b64.EncodeToString(mac.Sum(nil))
}

// Issue returns the signed token of the grant, always the same one. It does not judge the
// grant: Check refuses a token whose grant lacks a tenant, user, thread or execution,
// or has expired.
func (s *Signer) Issue(g mesh.Grant) string { return s.sign(grants, payloadOf(g, 0)) }

func (s *Signer) sign(k kind, p payload) string {
	data, err := json.Marshal(p)
	if err != nil { // strings and integers always have a JSON form
		panic("grant.sign: " + err.Error())
	}
	public := s.keys[0].Public().(ed25519.PublicKey)
	token := s.seal(k, data)
	if p.complete() && len(token) <= MaxToken {
		known.Add(idOf(k, public, token), &p)
	}
	return token
}

// seal returns the token of what is signed, with the first key.
func (s *Signer) seal(k kind, data []byte) string {
	return keyID(s.keys[0].Public().(ed25519.PublicKey)) + "." + b64.EncodeToString(data) + "." + b64.EncodeToString(ed25519.Sign(s.keys[0], k.signed(data)))
}

// recordPrefix is what the signature of a record covers beside it.
const recordPrefix = "agentmesh record v1\x00"

// SignRecord returns the node's signature of what it keeps as evidence, which is good
// for nothing else, and is made with the first key of Public.
func (s *Signer) SignRecord(data []byte) []byte {
	return ed25519.Sign(s.keys[0], append([]byte(recordPrefix), data...))
}

// VerifyRecord reports whether the signer with that public key signed the record.
func VerifyRecord(key ed25519.PublicKey, data, signature []byte) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, append([]byte(recordPrefix), data...), signature)
}

func (k kind) signed(data []byte) []byte { return append([]byte(k), data...) }

// keyID names a key in tokens.
func keyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return b64.EncodeToString(sum[:6])
}

// A Verifier checks grants and tickets.
type Verifier struct {
	keys map[string]ed25519.PublicKey // by id
	now  func() time.Time
}

// NewVerifier returns a verifier for the tokens of the signer with those public
// keys, of 32 bytes. It reads the time from now, which must be safe for
// concurrent use; nil is time.Now.
func NewVerifier(public [][]byte, now func() time.Time) (*Verifier, error) {
	const op = "grant.NewVerifier"
	if len(public) == 0 {
		return nil, mesh.InvalidField(op, "grant_keys", "must have a key")
	}
	v := &Verifier{map[string]ed25519.PublicKey{}, now}
	for i, key := range public {
		if len(key) != ed25519.PublicKeySize {
			return nil, mesh.InvalidField(op, fmt.Sprintf("grant_keys[%d]", i),
				"must be an Ed25519 public key of %d bytes, and is %d bytes", ed25519.PublicKeySize, len(key))
		}
		v.keys[keyID(key)] = slices.Clone(key)
	}
	if now == nil {
		v.now = time.Now
	}
	return v, nil
}

// Check returns the grant in the token if the signer made it and it has not
// expired. All its errors are Unauthenticated; the detail says which it was,
// and for a grant that has expired, when.
func (v *Verifier) Check(token string) (*mesh.Grant, error) {
	const op = "grant.Check"
	p, err := v.open(op, grants, token)
	if err != nil {
		return nil, err
	}
	return p.grant(), v.stands(op, grants, p)
}

// stands returns an error for a grant that has expired.
func (v *Verifier) stands(op string, k kind, p *payload) error {
	if end := time.Unix(p.Expires, 0); !v.now().Before(end) {
		return refuse(op, k, "the grant expired at "+end.UTC().Format(time.RFC3339)+"; the task that it was made for is over")
	}
	return nil
}

// open returns the payload of a token of that kind that is well-formed and signed, whenever
// it ends.
func (v *Verifier) open(op string, k kind, token string) (*payload, error) {
	id, rest, _ := strings.Cut(token, ".")
	key, ok := v.keys[id]
	if !ok || len(token) > MaxToken {
		return nil, notOurs(op, k)
	}
	at := idOf(k, key, token)
	if p, ok := known.Get(at); ok {
		return p, nil
	}
	data, ok := signedBy(key, k, rest)
	if !ok {
		return nil, notOurs(op, k)
	}
	p := new(payload)
	if err := json.Unmarshal(data, p); err != nil || p.Version != version {
		return nil, refuse(op, k, "it has a version that is not known here; run the same version of the mesh everywhere")
	}
	if !p.complete() {
		return nil, refuse(op, k, "the grant does not say whom it is for; it must name tenant, user, thread and execution")
	}
	known.Add(at, p)
	return p, nil
}

// signedBy returns what a token, but for the id of the key, says, if the key signed it.
func signedBy(key ed25519.PublicKey, k kind, token string) ([]byte, bool) {
	head, tail, ok := strings.Cut(token, ".")
	if !ok || strings.ContainsAny(token, "\r\n") {
		return nil, false // the decoder would skip line ends
	}
	data, err := b64.DecodeString(head)
	if err != nil {
		return nil, false
	}
	sig, err := b64.DecodeString(tail)
	return data, err == nil && ed25519.Verify(key, k.signed(data), sig)
}

// complete reports whether the grant is bound to somebody and something, and
// the execution to the thread.
func (p *payload) complete() bool {
	thread, err := mesh.ParseThreadID(p.Thread)
	of, ok := p.Execution.ThreadID()
	return err == nil && ok && of == thread && p.Thread == thread &&
		p.Tenant.Validate() == nil && p.User != "" && p.Depth >= 0
}

func notOurs(op string, k kind) error {
	return refuse(op, k, "this mesh did not sign it, or with a key that is not known here any more; use what came with the task")
}

func refuse(op string, k kind, detail string) error {
	field := "mesh-grant"
	switch k {
	case tickets:
		field = "mesh-ticket"
	case permits:
		field = "permit"
	}
	return &mesh.Error{Code: mesh.Unauthenticated, Op: op, Field: field, Detail: detail}
}
