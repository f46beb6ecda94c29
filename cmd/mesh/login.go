package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/login"
)

// A loginRun is what the flags of 'mesh login' say.
type loginRun struct {
	issuer, client string
	scopes         []string
}

func (a *app) loginCommand() *cobra.Command {
	var o loginRun
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Log in to the mesh at its OpenID Connect provider",
		Long: `login has you log in at the OpenID Connect provider that the mesh believes: it shows an
address and a code, to be entered in any browser, also on another device, and waits until
that is done.

What the provider gives is kept in a file that only you may read, agentmesh/credentials.json
in your configuration folder (MESH_CREDENTIALS names another). Commands without --token,
MESH_TOKEN or --cert show it to the mesh at this --addr, to no other, and renew it before it
ends. 'mesh logout' ends it.

At the provider there has to be a public client, by default agentmesh, that may use the
device authorization grant (RFC 8628), and whose access tokens have the audience of the mesh.`,
		Example: `  mesh login --addr grpcs://mesh.example.com:7420
  mesh login --issuer https://id.example.com --client-id my-team --scope openid --scope mesh`,
		Args: nothing,
		RunE: a.action(func(ctx context.Context, _ []string) error {
			ctx, cancel := a.limited(ctx)
			defer cancel()
			if err := a.login(ctx, o); err != nil {
				return timeUp(ctx, err)
			}
			return nil
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.issuer, "issuer", "", "`URL` of the provider (default what the mesh names)")
	f.StringVar(&o.client, "client-id", login.ClientID, "`ID` of the client at the provider")
	f.StringArrayVar(&o.scopes, "scope", nil, "`scope` to ask for (default openid, and offline_access where there is that)")
	return cmd
}

// login logs the user in, and keeps what the mesh takes.
func (a *app) login(ctx context.Context, o loginRun) error {
	store, err := a.logins()
	if err != nil {
		return err
	}
	addr := a.meshKey(a.flags.addr)
	if _, err := store.Has(addr); err != nil { // before anybody types a code
		return err
	}
	if err := a.mayShowToken(); err != nil {
		return err
	}
	given := a.flags.token != "" || a.flags.cert != ""
	a.stranger, a.flags.token = true, ""
	if o.issuer == "" {
		if o.issuer, err = a.issuer(ctx); err != nil {
			return err
		}
	}
	flow, err := login.Begin(ctx, o.issuer, o.client, o.scopes)
	if err != nil {
		return err
	}
	a.printf("Open %s and enter the code %s\n", oneLine(flow.URL), oneLine(flow.Code))
	if flow.Complete != "" {
		a.printf("or open %s\n", oneLine(flow.Complete))
	}
	a.printf("Waiting until %s; Ctrl-C ends it.\n", flow.Expires.Local().Format(time.TimeOnly))
	c, err := flow.Wait(ctx)
	if err != nil {
		return err
	}
	// What the mesh does not take is not kept.
	a.flags.token = c.Access
	who, err := a.access(ctx)
	if err != nil {
		return err
	}
	if err := store.Put(ctx, addr, c); err != nil {
		return err
	}
	a.printf("Logged in to %s as %s of tenant %s.\n", addr, oneLine(who.GetUserId()), oneLine(who.GetTenantId()))
	if c.Refresh == "" && !c.Expiry.IsZero() {
		a.notef("The provider gave nothing to renew it with: it ends at %s.\n", c.Expiry.Local().Format(time.DateTime))
	}
	if given {
		a.notef("A token or certificate that commands are given with flags or the environment counts instead.\n")
	}
	return nil
}

// issuer asks the mesh, as nobody, which provider it believes.
func (a *app) issuer(ctx context.Context) (string, error) {
	_, err := a.access(ctx)
	named := strings.Fields(rpc.Info(err, rpc.InfoIssuers))
	switch {
	case err == nil:
		return "", mesh.Errorf(mesh.Precondition, "mesh.login", "nobody has to log in at %s", a.flags.addr)
	case !mesh.IsCode(err, mesh.Unauthenticated):
		return "", err
	case len(named) == 0:
		return "", mesh.Errorf(mesh.Precondition, "mesh.login", "the mesh at %s names no provider to log in at; give a token of its operator with MESH_TOKEN", a.flags.addr)
	case len(named) > 1:
		return "", mesh.Errorf(mesh.Invalid, "mesh.login", "the mesh believes several providers; choose one with --issuer: %s", strings.Join(named, ", "))
	}
	return named[0], nil
}

// access asks the mesh who this is.
func (a *app) access(ctx context.Context) (who *meshv1.GetAccessResponse, err error) {
	err = a.connected(ctx, nil, func(ctx context.Context, c *client, _ []string) error {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		var err error
		who, err = c.access.GetAccess(c.call(ctx, ""), &meshv1.GetAccessRequest{})
		return err
	})
	return who, err
}

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "End what 'mesh login' began",
		Long: `logout removes what 'mesh login' keeps for the mesh at --addr, and has the provider
revoke it, if that offers so. An access token that somebody copied may count until it
expires; 'mesh users revoke' ends it at once.`,
		Example: `  mesh logout --addr grpcs://mesh.example.com:7420`,
		Args:    nothing,
		RunE: a.action(func(ctx context.Context, _ []string) error {
			ctx, cancel := a.limited(ctx)
			defer cancel()
			store, err := a.logins()
			if err != nil {
				return err
			}
			addr := a.meshKey(a.flags.addr)
			c, ok, err := store.Remove(ctx, addr)
			switch {
			case err != nil:
				return err
			case !ok:
				a.printf("Nobody was logged in to %s.\n", addr)
				return nil
			}
			if err := c.Revoke(ctx); err != nil {
				return mesh.Errorf(mesh.CodeOf(err), "mesh.logout", "logged out of %s here, but nothing was revoked: %s", addr, mesh.DetailOf(err))
			}
			a.printf("Logged out of %s.\n", addr)
			return nil
		}),
	}
}

// keptToken is where connections to the mesh at the address get their token from, if
// nothing else says who calls and 'mesh login' keeps one for it; nil otherwise.
func (a *app) keptToken(addr string) (func(context.Context) (string, error), error) {
	if a.stranger || a.flags.token != "" || a.flags.cert != "" {
		return nil, nil //nolint:nilnil // nothing is to be shown
	}
	store, err := a.logins()
	if err != nil {
		return nil, nil //nolint:nilerr // without a folder nothing can have been kept
	}
	key := a.meshKey(addr)
	if ok, err := store.Has(key); !ok || err != nil {
		return nil, err
	}
	return func(ctx context.Context) (string, error) { return store.Token(ctx, key) }, nil
}

// logins is where credentials are kept.
func (a *app) logins() (*login.Store, error) {
	path := a.getenv("MESH_CREDENTIALS")
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return nil, mesh.Errorf(mesh.Precondition, "mesh.login", "there is no folder to keep log-ins in: %v; name a file with MESH_CREDENTIALS", err)
		}
		path = filepath.Join(dir, "agentmesh", "credentials.json")
	}
	return &login.Store{Path: path, Now: a.now}, nil
}

// meshKey is the mesh at the address as credentials name it: one that is called over TLS is
// another one than the same called without.
func (a *app) meshKey(addr string) string {
	hostport, secure := mesh.Endpoint(a.secured(addr))
	if secure {
		hostport = mesh.SecureScheme + hostport
	}
	return hostport
}

// mayShowToken refuses to get a token that could not be shown to the mesh then.
func (a *app) mayShowToken() error {
	hostport, secure := mesh.Endpoint(a.secured(a.flags.addr))
	if secure || a.flags.plaintext || rpc.MayShowGrant(hostport) == nil {
		return nil
	}
	return mesh.Errorf(mesh.Precondition, "mesh.login", "the connection to %s is not encrypted and would show your token to the network; call it over TLS, as %s%s, use a tunnel to this machine, or allow plaintext tokens with --plaintext-token",
		hostport, mesh.SecureScheme, hostport)
}
