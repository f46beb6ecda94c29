package transport

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/keyfile"
)

const (
	// leafLife is how long certificates count that an Authority issues, and rootLife
	// how long it does itself. At half its life the next one is made, which signs when a
	// quarter of its own has passed: until then everybody has come to believe it.
	leafLife = 24 * time.Hour
	rootLife = 365 * 24 * time.Hour
	// backdate is how far clocks may be behind.
	backdate = 5 * time.Minute
)

// An Authority issues certificates of the mesh. Its folder has the keys, which are their
// owner's alone, and ca.pem, with what others need to believe it.
type Authority struct {
	dir, domain string
	now         func() time.Time

	mu    sync.Mutex
	roots []*root // the oldest first
}

// A root is a key of the authority with its own certificate.
type root struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// OpenAuthority opens the authority in the folder, or makes it, of the trust domain. The
// clock may be nil for time.Now.
func OpenAuthority(dir, domain string, now func() time.Time) (*Authority, error) {
	const op = "transport.OpenAuthority"
	if now == nil {
		now = time.Now
	}
	a := &Authority{dir: dir, domain: domain, now: now}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, mesh.Errorf(mesh.Precondition, op, "the folder %s of the certificate authority cannot be made; check its permissions: %w", dir, err)
	}
	if err := keyfile.Sweep(dir); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a, mesh.Wrap(op, a.refresh())
}

// Domain is the trust domain of the names in certificates.
func (a *Authority) Domain() string { return a.domain }

// Path is the file with the certificates of the authority.
func (a *Authority) Path() string { return filepath.Join(a.dir, "ca.pem") }

// Roots are the authority's certificates.
func (a *Authority) Roots() []*x509.Certificate {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*x509.Certificate
	for _, r := range a.roots {
		all = append(all, r.cert)
	}
	return all
}

// Bundle returns them as PEM.
func (a *Authority) Bundle() []byte {
	var b []byte
	for _, c := range a.Roots() {
		b = append(b, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return b
}

// refresh reads the roots, makes the next one when it is time, and publishes them. The
// caller holds mu.
func (a *Authority) refresh() error {
	for {
		if err := a.load(); err != nil {
			return err
		}
		n, now := len(a.roots), a.now()
		if n > 0 && now.Before(halfLife(a.roots[n-1].cert)) {
			break
		}
		if err := a.grow(now); err != nil && !errors.Is(err, fs.ErrExist) { // another was first
			return err
		}
	}
	var bundle []byte
	for _, r := range a.roots {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.cert.Raw})...)
	}
	if is, err := os.ReadFile(a.Path()); err == nil && bytes.Equal(is, bundle) {
		return nil
	}
	return keyfile.Publish(a.Path(), bundle)
}

// load reads the roots that have not expired.
func (a *Authority) load() error {
	paths, err := filepath.Glob(filepath.Join(a.dir, "ca-*.key"))
	if err != nil {
		return mesh.Errorf(mesh.Precondition, "transport.load", "the folder %s cannot be read: %w", a.dir, err)
	}
	a.roots = nil
	for _, path := range paths {
		data, err := keyfile.Read(path)
		if err != nil {
			return err
		}
		c, err := tls.X509KeyPair(data, data)
		if err != nil {
			return mesh.Errorf(mesh.Precondition, "transport.load", "%s is not a key of a certificate authority; restore it, or remove it: %w", path, err)
		}
		if signer, ok := c.PrivateKey.(crypto.Signer); ok && a.now().Before(c.Leaf.NotAfter) {
			a.roots = append(a.roots, &root{c.Leaf, signer})
		}
	}
	slices.SortFunc(a.roots, func(x, y *root) int { return x.cert.NotBefore.Compare(y.cert.NotBefore) })
	return nil
}

// grow makes the next root, in a file that is named for its day, so that of several
// processes one makes it.
func (a *Authority) grow(now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "agentmesh " + a.domain}, NotBefore: now.Add(-backdate), NotAfter: now.Add(rootLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	return keyfile.Create(filepath.Join(a.dir, fmt.Sprintf("ca-%s.key", now.UTC().Format(time.DateOnly))), key, der)
}

// serial is a random number that no other certificate has.
func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return new(big.Int).SetBytes(b[:])
}

// A Leaf is what a certificate is to say.
type Leaf struct {
	// ID is the SPIFFE ID of who has it, and Hosts where that one serves.
	ID    *url.URL
	Hosts []string
	// Enrolled is kept in the certificate for who issues the next one.
	Enrolled string
}

// Issue returns a certificate for the public key, in DER.
func (a *Authority) Issue(public crypto.PublicKey, l Leaf) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.refresh(); err != nil {
		return nil, mesh.Wrap("transport.Issue", err)
	}
	now, by := a.now(), a.roots[0]
	for _, r := range a.roots {
		if now.Sub(r.cert.NotBefore) >= rootLife/4 {
			by = r
		}
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: l.ID.String(), SerialNumber: l.Enrolled}, NotBefore: now.Add(-backdate), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs: []*url.URL{l.ID}, BasicConstraintsValid: true,
	}
	for _, h := range l.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, public, by.key)
	if err != nil {
		return nil, mesh.Errorf(mesh.Invalid, "transport.Issue", "a certificate cannot be made for this key: %w", err)
	}
	return der, nil
}

// Issued is when a certificate was issued, as far as it says. An Authority's count from
// a little earlier.
func Issued(c *x509.Certificate) time.Time {
	if c.Subject.SerialNumber != "" { // of an agent that joined
		return c.NotBefore.Add(backdate)
	}
	return c.NotBefore
}

// node issues the certificate of the node itself, which serves under the names.
func (a *Authority) node(names []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := a.Issue(key.Public(), Leaf{ID: &url.URL{Scheme: "spiffe", Host: a.domain, Path: "/node"}, Hosts: names})
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}
