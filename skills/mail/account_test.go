package mail_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
	meshmail "agentmesh/skills/mail"
	"agentmesh/skills/mail/imapbox"
)

// Each user has their own account, and nobody another's.
func TestAccounts_areOfTheirOwners(t *testing.T) {
	srv := newIMAP(t, []string{"Sent"})
	srv.receive(t, "INBOX", invoice)
	post := newServer(t)
	box, err := imapbox.New(imapbox.Settings{Addr: srv.addr, User: "ann@example.com", Password: "s3cret-pw", Roots: srv.roots})
	if err != nil {
		t.Fatal(err)
	}
	own, err := meshmail.NewTransport(meshmail.SMTP{Addr: post.addr, User: "mesh", Password: "s3cret-pw", From: "Ann <ann@example.com>", Roots: post.roots})
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, meshmail.WithAccount(mesh.Owner{Tenant: "default", User: "ann"}, meshmail.Account{Box: box, Transport: own}))
	b.As("ann")
	id := ids(t, b.Call("mail.search", "", nil))[0]
	if r := b.send("k", "default", letterTo("bob@example.com")); r.Failed() || len(post.accepted()) != 1 || post.accepted()[0].from != "ann@example.com" {
		t.Errorf("%+v: %+v", r, post.accepted())
	}
	b.As("eve")
	if found := ids(t, b.Call("mail.search", "", nil)); len(found) != 0 {
		t.Errorf("eve finds %v", found)
	}
	for name, args := range map[string]map[string]any{"mail.read": {"id": id}, "mail.save": {"id": id}, "mail.move": {"id": id, "to": "trash"}} {
		if r := b.Call(name, "k2", args); !r.Failed() || !strings.Contains(r.Content, "There is no message") {
			t.Errorf("%s gave eve %+v", name, r)
		}
	}
	if r := b.send("k3", "default", letterTo("bob@example.com")); r.Failed() || len(post.accepted()) != 1 {
		t.Errorf("eve sent by ann's server: %+v", r)
	}
}

// What is wrong with the server or the account is said in words, and no password with it.
func TestAccount_saysWhatIsWrong(t *testing.T) {
	mute := rpctest.Listen(t) // accepts and says nothing
	t.Cleanup(func() { _ = mute.Close() })
	for name, tt := range map[string]struct {
		opts   []imapOption
		change func(*imapbox.Settings)
		want   string
		code   mesh.Code
	}{
		"a wrong password":       {nil, func(c *imapbox.Settings) { c.Password = "guessed-pw" }, "does not accept the user and password of the account", mesh.Denied},
		"busy":                   {nil, func(c *imapbox.Settings) { c.User = "busy" }, "does not log the mesh in for now (UNAVAILABLE)", mesh.Unavailable},
		"an unknown certificate": {nil, func(c *imapbox.Settings) { c.Roots = nil }, "The certificate of the mail server 127.0.0.1 is not valid", mesh.Precondition},
		"the same by STARTTLS":   {nil, func(c *imapbox.Settings) { c.Roots, c.TLS = nil, imapbox.TLSStart }, "The certificate of the mail server", mesh.Precondition},
		"no STARTTLS":            {[]imapOption{unencrypted}, func(c *imapbox.Settings) { c.TLS = imapbox.TLSStart }, "does not offer encryption (STARTTLS), which is demanded", mesh.Precondition},
		"nobody there":           {nil, func(c *imapbox.Settings) { c.Addr = rpctest.Free(t) }, "cannot be reached; try again later", mesh.Unavailable},
		"a server that hangs":    {nil, func(c *imapbox.Settings) { c.Addr, c.Timeout = mute.Addr().String(), 100*time.Millisecond }, "or not in time", mesh.Unavailable},
		"no login":               {[]imapOption{func(o *imapserverOptions) { o.TLSConfig = nil }}, func(c *imapbox.Settings) { c.TLS = imapbox.TLSNone }, "offers no way to log in", mesh.Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newIMAP(t, nil, tt.opts...)
			b := setup(t, srv.account(t, nil, tt.change))
			r := b.Call("mail.search", "", nil)
			if !r.Failed() || !strings.Contains(r.Content, tt.want) || !mesh.IsCode(r.Err, tt.code) || strings.Contains(r.Content+fmt.Sprint(r.Err), "-pw") {
				t.Errorf("result is %+v, want %q", r, tt.want)
			}
		})
	}
}

func TestAccount_isReachedByEachKindOfEncryption(t *testing.T) {
	for mode, opts := range map[string][]imapOption{imapbox.TLSImplicit: nil, imapbox.TLSStart: nil, imapbox.TLSNone: {unencrypted}} {
		srv := newIMAP(t, nil, opts...)
		srv.receive(t, "INBOX", invoice)
		b := setup(t, srv.account(t, nil, func(c *imapbox.Settings) { c.TLS = mode }))
		if found := ids(t, b.Call("mail.search", "", nil)); len(found) != 1 || srv.logins != 1 {
			t.Errorf("%s: found %v after %d logins", mode, found, srv.logins)
		}
	}
}
