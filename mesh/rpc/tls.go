package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"

	"agentmesh/mesh"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// current are the credentials of connections whose configuration is asked for each time
// that one is made.
type current struct {
	credentials.TransportCredentials
	config func() *tls.Config
}

func newCurrent(config func() *tls.Config) current {
	if config == nil {
		config = func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
	}
	return current{credentials.NewTLS(config()), config}
}

func (c current) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(c.config()).ClientHandshake(ctx, authority, conn)
}

func (c current) Clone() credentials.TransportCredentials { return newCurrent(c.config) }

// PeerCertificate returns the certificate by which whoever calls proved itself when it
// connected; nil for none.
func PeerCertificate(ctx context.Context) *x509.Certificate {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil
	}
	return info.State.VerifiedChains[0][0]
}

// peerAgent is the agent in the trust domain that the caller's certificate names, if it
// stands.
func (g *guard) peerAgent(c *x509.Certificate) mesh.AgentID {
	if c != nil && len(c.URIs) == 1 {
		if a, ok := mesh.AgentOf(g.domain, c.URIs[0]); ok && (g.stands == nil || g.stands(a, c)) {
			return a
		}
	}
	return mesh.AgentID{}
}

// MayShowGrant returns why a grant, or what proves as much, must not be sent unencrypted to the address, or nil
// for one on this machine: who reads it on its way may do what it allows.
func MayShowGrant(address string) error {
	if isLocal(address) {
		return nil
	}
	return &mesh.Error{Code: mesh.Precondition, Op: "rpc.MayShowGrant", Field: KeyGrant, Detail: "the connection to " + address + " is not encrypted and would show the agent's ticket or grant to the network; " +
		"give it an address that begins with grpcs:// or https://, or allow grants to travel in plaintext (egress.plaintext_grants; for 'mesh agent run', --plaintext-token)"}
}
