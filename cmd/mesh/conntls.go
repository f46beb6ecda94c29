package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"

	"agentmesh/mesh"
)

// tlsFailed returns why TLS keeps the mesh at the address from being called, with what helps,
// or nil where that is not the reason.
func (a *app) tlsFailed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	dial, err := a.dialOptions(a.flags.addr)
	if err != nil {
		return err
	}
	at, secure := mesh.Endpoint(a.secured(a.flags.addr))
	conn, err := (&tls.Dialer{Config: dial.TLS()}).DialContext(ctx, "tcp", at)
	if err == nil {
		_ = conn.Close() // nothing was sent over it
	}
	var unknown x509.UnknownAuthorityError
	var other x509.HostnameError
	var bad x509.CertificateInvalidError
	var plain tls.RecordHeaderError
	refused := func(format string) error {
		return mesh.Errorf(mesh.Unavailable, "mesh.connect", format, a.flags.addr)
	}
	switch {
	case !secure && (err == nil || errors.As(err, &unknown) || errors.As(err, &other)):
		return refused("what answers at %[1]s speaks TLS; call it as " + mesh.SecureScheme + "%[1]s, and name who issued its certificate with --ca")
	case !secure:
		return nil
	case errors.As(err, &unknown):
		return refused("the certificate of %s was issued by nobody who is trusted here; name the file of who issued it with --ca, which 'mesh up' tells of its own")
	case errors.As(err, &other):
		return refused("the certificate of %s is for other names; call the mesh by one of them, or have one issued for this one too")
	case errors.As(err, &bad) && bad.Reason == x509.Expired:
		return refused("the certificate of %s is not valid today; look at this machine's clock, else have it renewed")
	case errors.As(err, &plain):
		return refused("what answers at %s does not speak TLS; call it without " + mesh.SecureScheme + " and --ca")
	}
	return nil
}
