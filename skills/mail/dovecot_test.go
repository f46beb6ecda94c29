package mail_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
	meshmail "agentmesh/skills/mail"
	"agentmesh/skills/mail/imapbox"
)

// dovecot starts Debian's server with an account whose folders have names of their own, and
// returns the account.
func dovecot(t *testing.T) *imapbox.Account {
	t.Helper()
	program, err := exec.LookPath("dovecot")
	if err != nil || os.Getuid() != 0 {
		t.Skip("no dovecot (Debian's dovecot-imapd) that can be started as root")
	}
	dir, err := os.MkdirTemp("", "dovecot") //nolint:usetesting // the folder of a test is closed to the user of the mailbox
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	web := httptest.NewTLSServer(nil) // for its certificate
	web.Close()
	key, err := x509.MarshalPKCS8PrivateKey(web.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	address := rpctest.Free(t)
	_, port, _ := net.SplitHostPort(address)
	mail := filepath.Join(dir, "mail")
	if err := os.Mkdir(mail, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.Chown(mail, 65534, 65534),
		os.WriteFile(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600),
		os.WriteFile(filepath.Join(dir, "conf"), []byte(strings.NewReplacer("DIR", dir, "PORT", port).Replace(dovecotConf)), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), program, "-F", "-c", filepath.Join(dir, "conf"))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // with its children
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	box, err := imapbox.New(imapbox.Settings{Addr: address, User: "ann", Password: "s3cret-pw", Roots: roots})
	if err != nil {
		t.Fatal(err)
	}
	for range 200 { // until it listens
		if _, err = box.Search(t.Context(), imapbox.Query{Most: 1}); err == nil {
			return box
		}
		time.Sleep(50 * time.Millisecond)
	}
	said, _ := os.ReadFile(filepath.Join(dir, "log"))
	t.Fatalf("dovecot does not serve: %v\n%s", err, said)
	return nil
}

const dovecotConf = `
base_dir = DIR/run
state_dir = DIR/state
log_path = DIR/log
protocols = imap
ssl = required
ssl_cert = <DIR/cert.pem
ssl_key = <DIR/key.pem
mail_location = maildir:DIR/mail/%u
mail_uid = 65534
mail_gid = 65534
first_valid_uid = 1
passdb {
  driver = static
  args = password=s3cret-pw
}
userdb {
  driver = static
  args = home=DIR/mail/%u
}
namespace inbox {
  inbox = yes
  separator = /
  mailbox Entwürfe {
    auto = create
    special_use = \Drafts
  }
  mailbox Gesendet {
    auto = create
    special_use = \Sent
  }
  mailbox Ablage {
    auto = create
    special_use = \Archive
  }
}
service imap-login {
  inet_listener imap {
    port = 0
  }
  inet_listener imaps {
    address = 127.0.0.1
    port = PORT
    ssl = yes
  }
}
`

// The skills work with a server of others as with ours of the tests: folders by what they are for,
// UTF-8, parts of large messages, copies and moves.
func TestInteropAccountsOnDovecot(t *testing.T) {
	box := dovecot(t)
	drive, post := t.TempDir(), newServer(t)
	b := setup(t, post.transport(t), meshmail.WithAccount(mesh.Owner{Tenant: "default"}, meshmail.Account{Box: box}), meshmail.WithFiles(drive, true))
	large := strings.Repeat("%PDF large ", 100_000)
	for subject, content := range map[string]string{"small": "%PDF small", "large": large} {
		text := strings.Replace(withFile(subject, "menü.pdf", content), "At noon?", "Für später?", 1)
		if _, err := box.Put(t.Context(), "INBOX", subject+"@example.com", []byte(strings.ReplaceAll(text, "\n", "\r\n")), false); err != nil {
			t.Fatal(err)
		}
	}
	found := ids(t, b.Call("mail.search", "", map[string]any{"query": "für später", "folder": "inbox"}))
	if len(found) != 2 {
		t.Fatalf("found %v", found)
	}
	for i, id := range found {
		r := b.Call("mail.read", "", map[string]any{"id": id})
		if r.Failed() || !strings.Contains(r.Content, "> Für später?") || !strings.Contains(r.Content, "menü.pdf (application/pdf, ") {
			t.Errorf("it is read as %s", r.Content)
		}
		name := fmt.Sprintf("%d.pdf", i)
		if r := b.Call("mail.save", name, map[string]any{"id": id, "path": name}); r.Failed() {
			t.Error(r.Content)
		}
		want := map[any]string{"small": "%PDF small", "large": large}[r.Metadata["subject"]]
		if data, err := os.ReadFile(filepath.Join(drive, "default", name)); err != nil || string(data) != want {
			t.Errorf("%d bytes were saved of %d: %v", len(data), len(want), err)
		}
	}
	moved := b.Call("mail.move", "m", map[string]any{"id": found[0], "to": "archive"})
	if moved.Failed() || !strings.Contains(moved.Content, "in the folder archive. Its id is i-") {
		t.Errorf("%+v", moved)
	}
	for skill, folder := range map[string]string{"mail.send": "sent", "mail.draft": "drafts"} {
		r := b.Call(skill, skill, letterTo("bob@example.com"))
		if again := b.Call(skill, skill, letterTo("bob@example.com")); r.Failed() || again.Content != r.Content || !strings.Contains(r.Content, "the folder "+folder+" of the account") {
			t.Errorf("%+v, and again %+v", r, again)
		}
		if in := ids(t, b.Call("mail.search", "", map[string]any{"folder": folder})); len(in) != 1 || in[0] != r.Metadata["id"] {
			t.Errorf("the folder %s has %v, told was %v", folder, in, r.Metadata["id"])
		}
	}
	if all := b.Call("mail.search", "", nil); all.Metadata["count"] != 4 || !strings.Contains(all.Content, "(archive) ["+moved.Metadata["id"].(string)) {
		t.Errorf("in all there is %s", all.Content)
	}
}
