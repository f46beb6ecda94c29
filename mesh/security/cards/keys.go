package cards

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"

	"github.com/go-jose/go-jose/v4"

	"agentmesh/mesh"
	"agentmesh/mesh/security/keyfile"
)

// maxKeys is how many keys sign at a time.
const maxKeys = 4

// Keys sign the cards of one mesh. Use [LoadOrCreate].
type Keys struct {
	signers []jose.Signer
	jwks    []byte
}

// LoadOrCreate returns the keys in the file: PEM blocks with PKCS #8 private
// keys on the curve P-256, of which the first is the current one, at most 4.
// If there is no file it makes one with a new key. The file appears whole or
// not at all, also when the machine stops in between or when two processes do
// it at once, of which both then have the same key. jku is the URL at which
// [Keys.JWKS] is published; with "" signatures name none.
//
// A file that others can read, or that holds anything else, is a Precondition
// error and is left as it is.
func LoadOrCreate(path, jku string) (*Keys, error) {
	const op = "cards.LoadOrCreate"
	private, err := readKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, mesh.Errorf(mesh.Precondition, op, "the key file %s cannot be written; make its folder writable: %w", path, err)
		}
		private, err = readKeys(path)
	}
	if err != nil {
		return nil, err
	}
	return newKeys(private, jku)
}

func newKeys(private []*ecdsa.PrivateKey, jku string) (*Keys, error) {
	const op = "cards.LoadOrCreate"
	k := &Keys{}
	var set jose.JSONWebKeySet
	for _, key := range private {
		s := signer{key: key, public: jose.JSONWebKey{Key: key.Public(), Algorithm: string(jose.ES256), Use: "sig"}}
		sum, err := s.public.Thumbprint(crypto.SHA256) // RFC 7638
		if err != nil {
			return nil, mesh.Errorf(mesh.Unknown, op, "a card key has no thumbprint: %w", err)
		}
		s.public.KeyID = base64.RawURLEncoding.EncodeToString(sum)
		opts := (&jose.SignerOptions{}).WithType("JOSE")
		if jku != "" {
			opts = opts.WithHeader("jku", jku)
		}
		js, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s}, opts)
		if err != nil {
			return nil, mesh.Errorf(mesh.Unknown, op, "a card key cannot sign: %w", err)
		}
		k.signers = append(k.signers, js)
		set.Keys = append(set.Keys, s.public)
	}
	var err error
	if k.jwks, err = json.Marshal(set); err != nil {
		return nil, mesh.Errorf(mesh.Unknown, op, "the card keys cannot be published: %w", err)
	}
	return k, nil
}

// JWKS returns the JSON document (RFC 7517 §5) with the public keys, for
// /.well-known/jwks.json. The caller does not change it.
func (k *Keys) JWKS() []byte { return k.jwks }

// A signer signs by ES256 without a random number (RFC 6979), so that what it
// signs again stays the same. It is a jose.OpaqueSigner.
type signer struct {
	key    *ecdsa.PrivateKey
	public jose.JSONWebKey
}

func (s signer) Public() *jose.JSONWebKey        { return &s.public }
func (s signer) Algs() []jose.SignatureAlgorithm { return []jose.SignatureAlgorithm{jose.ES256} }

// SignPayload returns R and S, each of 32 bytes (RFC 7518 §3.4).
func (s signer) SignPayload(payload []byte, _ jose.SignatureAlgorithm) ([]byte, error) {
	digest := sha256.Sum256(payload)
	der, err := s.key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var sig struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &sig); err != nil {
		return nil, err
	}
	out := make([]byte, 64)
	sig.R.FillBytes(out[:32])
	sig.S.FillBytes(out[32:])
	return out, nil
}

// readKeys reads a key file. Its error for a file that is not there is
// fs.ErrNotExist.
func readKeys(path string) ([]*ecdsa.PrivateKey, error) {
	const op = "cards.readKeys"
	data, err := keyfile.Read(path)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	damaged := mesh.Errorf(mesh.Precondition, op,
		"the key file %s does not hold 1 to %d P-256 private keys in PKCS #8 form; restore it from a copy, or remove it for a new key", path, maxKeys)
	var keys []*ecdsa.PrivateKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		key, ok := parsed.(*ecdsa.PrivateKey)
		if err != nil || !ok || key.Curve != elliptic.P256() {
			damaged.Err = err
			return nil, damaged
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, damaged
	}
	return keys, nil
}

// createKey makes the file with a new key, or returns fs.ErrExist.
func createKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return keyfile.Create(path, key)
}
