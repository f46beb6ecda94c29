package transport

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"

	"agentmesh/mesh"
	"agentmesh/mesh/security/keyfile"
)

// Request returns a new key and the request for a certificate of it, in DER.
func Request() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	return key, csr, err
}

// SaveIdentity keeps an agent's key and certificate, in DER, and whom it believes, in
// PEM, in a folder, in the place of those of before.
func SaveIdentity(dir string, key crypto.Signer, leaf, ca []byte) error {
	const op = "transport.SaveIdentity"
	o := Identity(dir)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = keyfile.Sweep(dir)
	}
	if err == nil {
		err = keyfile.Publish(o.CA, ca)
	}
	if err == nil {
		err = keyfile.Replace(o.Cert, key, leaf)
	}
	if err != nil {
		return mesh.Errorf(mesh.Precondition, op, "the certificate cannot be kept in %s; check its permissions: %w", dir, err)
	}
	return nil
}

// Identity are the options of an agent whose identity is in the folder. Whoever calls it
// has a certificate of the same authority.
func Identity(dir string) Options {
	cert, ca := filepath.Join(dir, "identity.pem"), filepath.Join(dir, "ca.pem")
	return Options{Cert: cert, Key: cert, ClientCA: ca, CA: ca, ClientAuth: tls.RequireAndVerifyClientCert}
}

// Leaf is the certificate that the source's server shows now.
func (s *Source) Leaf() *x509.Certificate { return s.state.Load().server.Leaf }

// Due reports whether that has half its life behind it.
func (s *Source) Due() bool { return !s.opts.Now().Before(halfLife(s.Leaf())) }
