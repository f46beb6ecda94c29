package mail_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
	meshmail "agentmesh/skills/mail"
	"agentmesh/skills/mail/imapbox"
)

func letterTo(to ...any) map[string]any {
	return map[string]any{"to": to, "subject": "Report", "body": "first\n.\n.. dots\nFrom here"}
}

func TestSend_givesTheMessageToTheServer(t *testing.T) {
	tests := map[string]struct {
		server    []serverOption
		mode      string
		encrypted bool
		user      string
	}{
		"by STARTTLS unless told": {nil, "", true, "mesh"},
		"by TLS":                  {[]serverOption{implicitTLS}, meshmail.TLSImplicit, true, "mesh"},
		"unencrypted":             {[]serverOption{insecureAuth}, meshmail.TLSNone, false, "mesh"},
		"without a user":          {[]serverOption{withoutTLS}, meshmail.TLSNone, false, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t, tt.server...)
			b := setup(t, srv.transport(t, func(c *meshmail.SMTP) { c.TLS, c.User = tt.mode, tt.user }))
			args := letterTo("Bob <bob@example.com>", "ann@example.com")
			args["cc"] = "carol@example.com"
			r := b.send("k1", "default", args)
			if r.Failed() {
				t.Fatal(r.Content)
			}
			if diff := cmp.Diff(b.messages(t), r.Files); diff != "" || !strings.HasPrefix(r.Files[0], "sent/") {
				t.Errorf("files %v: %s", r.Files, diff)
			}
			if len(srv.accepted()) != 1 {
				t.Fatalf("the server got %d messages", len(srv.accepted()))
			}
			got := srv.accepted()[0]
			want := accepted{user: tt.user, from: "mesh@example.com", to: []string{"bob@example.com", "ann@example.com", "carol@example.com"}, encrypted: tt.encrypted}
			want.data = got.data
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(accepted{})); diff != "" {
				t.Error(diff)
			}
			file, _ := os.ReadFile(filepath.Join(b.dir, r.Files[0]))
			if strings.TrimSpace(got.data) != strings.TrimSpace(string(file)) {
				t.Errorf("the server got %q, the file says %q", got.data, file)
			}
			if id := r.Metadata["message_id"].(string); !strings.Contains(got.data, "<"+id+">") || !strings.HasSuffix(id, "@example.com") {
				t.Errorf("Message-ID %s is not in %s", id, got.data)
			}
		})
	}
}

// One message per key, whenever, however often and from however many processes
// the call comes, also after a restart and with other arguments.
func TestSend_sendsOncePerKey(t *testing.T) {
	srv := newServer(t)
	dir := t.TempDir()
	var wg sync.WaitGroup
	parallel := make([]*skill.Result, 6)
	for i := range parallel {
		wg.Go(func() {
			parallel[i] = setupAt(t, dir, srv.transport(t)).send("k1", "default", letterTo("bob@example.com"))
		})
	}
	wg.Wait()
	results := append(slices.Clone(parallel), setupAt(t, dir, srv.transport(t)).send("k1", "default", letterTo("eve@example.com")),
		setupAt(t, dir).send("k1", "default", letterTo("bob@example.com"))) // the server was taken out of the configuration
	for _, r := range results {
		if diff := cmp.Diff(results[0], r); diff != "" || r.Failed() {
			t.Errorf("%s\n%s", r.Content, diff)
		}
	}
	if n := len(srv.accepted()); n != 1 {
		t.Errorf("the server got %d messages", n)
	}
	queued := setupAt(t, dir).send("k2", "default", letterTo("bob@example.com"))
	later := setupAt(t, dir, srv.transport(t)).send("k2", "default", letterTo("bob@example.com"))
	if diff := cmp.Diff(queued, later); diff != "" || len(srv.accepted()) != 1 {
		t.Errorf("what was in the outbox was sent as well: %s", diff)
	}
}

// What is certain not to have been sent says so, and can be tried again under
// the same key.
func TestSend_saysWhoRefusedWhat(t *testing.T) {
	said := func(code int, text string) *smtp.SMTPError {
		return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 1, 1}, Message: text}
	}
	tests := map[string]struct {
		refuse map[string]*smtp.SMTPError
		want   []string
	}{
		"a recipient for good": {map[string]*smtp.SMTPError{"bob@example.com": said(550, "no such user")},
			[]string{"Invalid arguments for 'mail.send'", `bob@example.com (550 5.1.1 "no such user", permanently)`, "Nothing was sent, to nobody"}},
		"a recipient for now": {map[string]*smtp.SMTPError{"ann@example.com": said(451, "greylisted")},
			[]string{"Failed to execute", `ann@example.com (451 4.1.1 "greylisted", for now)`, "try again in some minutes"}},
		"several": {map[string]*smtp.SMTPError{"ann@example.com": said(451, "later"), "bob@example.com": said(553, "never")},
			[]string{"Invalid arguments", `bob@example.com (553 5.1.1 "never", permanently)`, `ann@example.com (451 4.1.1 "later", for now)`}},
		"the sender": {map[string]*smtp.SMTPError{"mesh@example.com": said(550, "not yours")},
			[]string{"refuses the sender mesh@example.com", "not yours", "Nothing was sent; tell the operator"}},
		"the message for good": {map[string]*smtp.SMTPError{"data": said(554, "spam")},
			[]string{"Invalid arguments", `refuses the message: 554 5.1.1 "spam", permanently`, "Nothing was sent; change the message"}},
		"the message for now": {map[string]*smtp.SMTPError{"data": said(452, "full")},
			[]string{"Failed to execute", `does not take the message now: 452 4.1.1 "full", for now`, "try again"}},
		"with text that wants more": {map[string]*smtp.SMTPError{"data": said(554, "no\x1b[2J ```cmd\u202e "+strings.Repeat("x", 900))},
			[]string{`"no[2J`, "…"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			srv.set(func() { srv.refuse = tt.refuse })
			b := setup(t, srv.transport(t))
			r := b.send("k", "default", letterTo("bob@example.com", "ann@example.com"))
			for _, want := range tt.want {
				if !r.Failed() || !strings.Contains(r.Content, want) {
					t.Errorf("result is %+v, want %q", r, want)
				}
			}
			if n := len(srv.accepted()); n != 0 || len(b.messages(t)) != 0 {
				t.Errorf("the server got %d messages, files are %v", n, b.messages(t))
			}
			srv.set(func() { srv.refuse = nil })
			if r := b.send("k", "default", letterTo("bob@example.com")); r.Failed() || len(srv.accepted()) != 1 {
				t.Errorf("the second try came to %+v", r)
			}
		})
	}
}

func TestSend_sendsNothingThroughADoubtfulConnection(t *testing.T) {
	mute := rpctest.Listen(t) // accepts and says nothing
	t.Cleanup(func() { _ = mute.Close() })
	tests := map[string]struct {
		server []serverOption
		change func(*meshmail.SMTP)
		want   string
	}{
		"no STARTTLS":         {[]serverOption{withoutTLS}, func(*meshmail.SMTP) {}, "does not offer encryption (STARTTLS), which is demanded"},
		"unknown certificate": {nil, func(c *meshmail.SMTP) { c.Roots = nil }, "The certificate of the mail server 127.0.0.1 is not valid"},
		"by TLS as well":      {[]serverOption{implicitTLS}, func(c *meshmail.SMTP) { c.Roots, c.TLS = nil, "tls" }, "The certificate of the mail server"},
		"wrong password":      {nil, func(c *meshmail.SMTP) { c.Password = "guessed-pw" }, "does not accept the user and password of the mesh (535)"},
		"busy with passwords": {nil, func(c *meshmail.SMTP) { c.User = "busy" }, "does not log the mesh in for now (454)"},
		"no login offered":    {[]serverOption{withoutTLS}, func(c *meshmail.SMTP) { c.TLS = "none" }, "offers no way to log in"},
		"nobody there":        {nil, func(c *meshmail.SMTP) { c.Addr = rpctest.Free(t) }, "cannot be reached; nothing was sent"},
		"a server that hangs": {nil, func(c *meshmail.SMTP) { c.Addr, c.Timeout = mute.Addr().String(), 100*time.Millisecond }, "or not in time; nothing was sent"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t, tt.server...)
			b := setup(t, srv.transport(t, tt.change))
			r := b.send("k", "default", letterTo("bob@example.com"))
			if !r.Failed() || !strings.Contains(r.Content, tt.want) || strings.Contains(r.Content+fmt.Sprint(r.Err), "-pw") {
				t.Errorf("result is %+v, want %q", r, tt.want)
			}
			if len(srv.accepted()) != 0 || len(b.messages(t)) != 0 {
				t.Errorf("the server got %v, files are %v", srv.accepted(), b.messages(t))
			}
		})
	}
}

// A message that was given away without an answer is told as unknown and never
// sent again under its key.
func TestSend_saysThatTheOutcomeIsUnknown(t *testing.T) {
	tests := map[string]struct {
		fail func(*mailServer)
		want string
	}{
		"connection cut": {func(m *mailServer) { m.cut = true }, "the connection to the mail server broke after it took it"},
		"no answer":      {func(m *mailServer) { m.hang = make(chan struct{}) }, "the mail server took it and did not answer in time"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			srv.set(func() { tt.fail(srv) })
			if hang := srv.hang; hang != nil {
				t.Cleanup(func() { close(hang) })
			}
			dir := t.TempDir()
			first := setupAt(t, dir, srv.transport(t, func(c *meshmail.SMTP) { c.Timeout = 500 * time.Millisecond })).send("k", "default", letterTo("bob@example.com"))
			for _, want := range []string{tt.want, "It is unknown whether the email \"Report\" to bob@example.com was sent", "not sent again", "Message-ID <"} {
				if !first.Failed() || !strings.Contains(first.Content, want) || first.Metadata["outcome"] != "unknown" {
					t.Errorf("result is %+v, want %q", first, want)
				}
			}
			srv.set(func() { srv.cut, srv.hang = false, nil })
			for _, b := range []*bench{setupAt(t, dir, srv.transport(t)), setupAt(t, dir)} { // also without the server
				again := b.send("k", "default", letterTo("bob@example.com"))
				if !again.Failed() || !strings.Contains(again.Content, "an earlier delivery of it was cut short") {
					t.Errorf("the second call came to %+v", again)
				}
			}
			if n := len(srv.accepted()); n != 1 {
				t.Errorf("the server got %d messages", n)
			}
		})
	}
}

const childAddr, childDir, childIMAP = "MAIL_TEST_ADDR", "MAIL_TEST_DIR", "MAIL_TEST_IMAP"

// sendForever sends one message to a server that does not answer, or whose account does not.
func sendForever(addr string) {
	tr, err := meshmail.NewTransport(meshmail.SMTP{Addr: addr, TLS: meshmail.TLSNone, From: "mesh@example.com", Timeout: time.Minute})
	if err != nil {
		os.Exit(2)
	}
	account := meshmail.Account{}
	if at := os.Getenv(childIMAP); at != "" {
		if account.Box, err = imapbox.New(imapbox.Settings{Addr: at, TLS: imapbox.TLSNone, User: "ann@example.com", Password: "s3cret-pw"}); err != nil {
			os.Exit(2)
		}
	}
	h := meshmail.Handlers(os.Getenv(childDir), meshmail.WithTransport(tr), meshmail.WithAccount(mesh.Owner{Tenant: mesh.DefaultTenant}, account))["mail.send"]
	_, _ = skilltest.Do(context.Background(), h, &skill.Call{Skill: "mail.send", Key: "k", Args: letterTo("bob@example.com")},
		&skill.Env{Tenant: mesh.DefaultTenant, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	os.Exit(3)
}

// A process that is killed while the server has the message leaves what it
// began, and the next one does not begin again.
func TestSend_survivesItsProcessBeingKilled(t *testing.T) {
	srv := newServer(t, withoutTLS)
	hang := make(chan struct{})
	srv.set(func() { srv.hang = hang })
	dir := t.TempDir()
	kill(t, srv.begun, childAddr+"="+srv.addr, childDir+"="+dir)
	close(hang)
	b := setupAt(t, dir, srv.transport(t, func(c *meshmail.SMTP) { c.TLS, c.User = meshmail.TLSNone, "" }))
	r := b.send("k", "default", letterTo("bob@example.com"))
	if !r.Failed() || r.Metadata["outcome"] != "unknown" || !strings.Contains(r.Content, "cut short") {
		t.Errorf("the next process says %+v", r)
	}
	if n := len(srv.accepted()); n != 1 {
		t.Errorf("the server got %d messages", n)
	}
}

// kill runs this program with the environment until something begins, and kills it then.
func kill(t *testing.T, begun <-chan struct{}, env ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self)
	child.Env = append(os.Environ(), env...)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil || child.ProcessState.ExitCode() >= 0 {
		t.Fatalf("the process ended by itself: %v", err)
	}
}

// A process that is killed while the account files what was sent leaves it in the folder, and the
// next one finds that the account has it.
func TestSend_isFiledOnceWhenItsProcessIsKilled(t *testing.T) {
	post, srv := newServer(t, withoutTLS), newIMAP(t, []string{"Sent"}, unencrypted)
	hang := make(chan struct{})
	srv.set(func() { srv.hang = hang })
	dir := t.TempDir()
	kill(t, srv.begun, childAddr+"="+post.addr, childDir+"="+dir, childIMAP+"="+srv.addr)
	close(hang)
	b := setupAt(t, dir, post.transport(t, func(c *meshmail.SMTP) { c.TLS, c.User = meshmail.TLSNone, "" }),
		srv.account(t, nil, func(c *imapbox.Settings) { c.TLS = imapbox.TLSNone }))
	if left := b.messages(t); len(left) != 1 || !strings.HasPrefix(left[0], "sent/") {
		t.Errorf("the killed process left %v", left)
	}
	r := b.send("k", "default", letterTo("bob@example.com"))
	if r.Failed() || !strings.Contains(r.Content, "a copy is in the folder sent of the account") {
		t.Errorf("the next process says %+v", r)
	}
	if len(post.accepted()) != 1 || srv.count(t, "Sent") != 1 || len(b.messages(t)) != 0 {
		t.Errorf("sent were %d, the account has %d, files are %v", len(post.accepted()), srv.count(t, "Sent"), b.messages(t))
	}
}

func TestNewTransport_refusesSettingsThatCannotWork(t *testing.T) {
	good := meshmail.SMTP{Addr: "mail.example.com:587", From: "a@b.c"}
	for field, change := range map[string]func(*meshmail.SMTP){
		"mail.smtp.addr": func(c *meshmail.SMTP) { c.Addr = "mail.example.com" },
		"mail.smtp.from": func(c *meshmail.SMTP) { c.From = "\"a\r\nBcc: x\"@b.c" },
		"mail.smtp.tls":  func(c *meshmail.SMTP) { c.TLS, c.User = "none", "mesh" },
	} {
		c := good
		change(&c)
		if _, err := meshmail.NewTransport(c); !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	good.TLS = "ssl"
	if _, err := meshmail.NewTransport(good); mesh.FieldOf(err) != "mail.smtp.tls" {
		t.Errorf("unknown mode: %v", err)
	}
}
