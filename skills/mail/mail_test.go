package mail_test

import (
	"io"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills"
	"agentmesh/skills/internal/testbench"
	meshmail "agentmesh/skills/mail"
)

type bench struct {
	*testbench.Bench
	dir string
}

func setup(t *testing.T, opts ...meshmail.Option) *bench {
	t.Helper()
	return setupAt(t, t.TempDir(), opts...)
}

func setupAt(t *testing.T, dir string, opts ...meshmail.Option) *bench {
	t.Helper()
	return &bench{Bench: testbench.New(t, meshmail.Handlers(dir, opts...), skills.FS), dir: dir}
}

func (b *bench) send(key string, tenant mesh.TenantID, args map[string]any) *skill.Result {
	return b.CallAs(tenant, "mail.send", key, args)
}

func (b *bench) messages(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(b.dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			rel, _ := filepath.Rel(b.dir, p)
			out = append(out, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (b *bench) read(t *testing.T, name string) (*mail.Message, string) {
	t.Helper()
	f, err := os.Open(filepath.Join(b.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	m, err := mail.ReadMessage(f)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	return m, string(body)
}

func TestSend_writesAMessageThatOthersCanRead(t *testing.T) {
	b := setup(t)
	text := "Überfällig:\n1. Renew — today\n.\nFrom here = " + strings.Repeat("long ", 60)
	r := b.send("k1", "default", map[string]any{
		"to": []any{"Bob Bürger <bob@example.com>, ann@example.com", "ANN@example.com"}, "cc": "carol@example.com",
		"subject": "Überfällige Aufgaben: " + strings.Repeat("Straße ", 20), "body": text,
	})
	if r.Failed() || len(r.Files) != 1 || !strings.Contains(r.Content, "bob@example.com, ann@example.com, carol@example.com") {
		t.Fatalf("result is %+v", r)
	}
	if diff := cmp.Diff(r.Files, b.messages(t)); diff != "" {
		t.Error(diff)
	}
	m, body := b.read(t, r.Files[0])
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if want := strings.TrimSpace("Überfällige Aufgaben: " + strings.Repeat("Straße ", 20)); err != nil || subject != want {
		t.Errorf("subject is %q, %v", subject, err)
	}
	to, err := m.Header.AddressList("To")
	if err != nil || len(to) != 2 || *to[0] != (mail.Address{Name: "Bob Bürger", Address: "bob@example.com"}) {
		t.Errorf("To is %v, %v", to, err)
	}
	if date, err := m.Header.Date(); err != nil || !date.Equal(b.Now()) {
		t.Errorf("Date is %v, %v", date, err)
	}
	if got := strings.ReplaceAll(body, "\r\n", "\n"); got != text {
		t.Errorf("body is %q, want %q", got, text)
	}
	for _, h := range []string{"From", "Message-Id", "Mime-Version"} {
		if m.Header.Get(h) == "" {
			t.Errorf("there is no %s", h)
		}
	}
	raw, _ := os.ReadFile(filepath.Join(b.dir, r.Files[0]))
	for line := range strings.SplitSeq(string(raw), "\r\n") {
		if len(line) > 998 || strings.ContainsAny(line, "\r\n\x00") {
			t.Errorf("line of %d bytes, or with a bare line end: %.40q", len(line), line)
		}
	}
}

// The call's key is the effect's identity: a resend writes nothing and is
// answered alike, whenever and how often it comes.
func TestSend_hasOneEffectPerKey(t *testing.T) {
	b := setup(t)
	args := map[string]any{"to": "bob@example.com", "subject": "Hello", "body": "x"}
	first := b.send("k1", "default", args)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if diff := cmp.Diff(first, b.send("k1", "default", args)); diff != "" {
				t.Error(diff)
			}
		})
	}
	wg.Wait()
	changed := b.send("k1", "default", map[string]any{"to": "eve@example.com", "subject": "Other", "body": "y"})
	if diff := cmp.Diff(first, changed); diff != "" {
		t.Errorf("the answer tells of what was not sent: %s", diff)
	}
	if got := b.messages(t); len(got) != 1 {
		t.Errorf("messages are %v", got)
	}
	b.send("k2", "default", args)
	b.send("k1", "acme", args)
	if got := b.messages(t); len(got) != 3 {
		t.Errorf("other keys and tenants share a message: %v", got)
	}
}

func TestSend_refusesWithoutWriting(t *testing.T) {
	ok := func(changes map[string]any) map[string]any {
		args := map[string]any{"to": "bob@example.com", "subject": "s", "body": "b"}
		for k, v := range changes {
			args[k] = v
		}
		return args
	}
	tests := map[string]struct {
		args map[string]any
		want string
	}{
		"no address":             {ok(map[string]any{"to": ""}), "Missing required field: 'to'"},
		"empty list":             {ok(map[string]any{"to": []any{}}), "'to' must have at least one element"},
		"a name":                 {ok(map[string]any{"to": "Bob"}), `'to' has "Bob", which is not an email address; write it as bob@example.com`},
		"one bad of two":         {ok(map[string]any{"cc": "a@b.c, nobody"}), `'cc' has "nobody"`},
		"header in address":      {ok(map[string]any{"to": []any{"bob@example.com\r\nBcc: eve@example.com"}}), "not an email address"},
		"header in name":         {ok(map[string]any{"to": []any{"\"Bob\r\nBcc: eve@example.com\" <bob@example.com>"}}), "not an email address"},
		"header in quoted local": {ok(map[string]any{"to": []any{"\"a\\\r\nBcc: x\"@example.com"}}), "not an email address"},
		"header in subject":      {ok(map[string]any{"subject": "s\r\nBcc: eve@example.com"}), "'subject' must be one line"},
		"bare CR in subject":     {ok(map[string]any{"subject": "s\rBcc: eve@example.com"}), "'subject' must be one line"},
		"long subject":           {ok(map[string]any{"subject": strings.Repeat("x", 501)}), "at most 500"},
		"huge body":              {ok(map[string]any{"body": strings.Repeat("x", 1<<20+1)}), "'body' is 1048577 bytes long"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			r := b.send("k", "default", tt.args)
			if !r.Failed() || !strings.HasPrefix(r.Content, "Invalid arguments for 'mail.send': ") || !strings.Contains(r.Content, tt.want) {
				t.Errorf("result is %+v, want %q", r, tt.want)
			}
			if got := b.messages(t); len(got) != 0 {
				t.Errorf("wrote %v", got)
			}
		})
	}
}

// Text that looks like headers stays in the body.
func TestSend_keepsHeadersAndBodyApart(t *testing.T) {
	b := setup(t)
	r := b.send("k", "default", map[string]any{"to": "bob@example.com", "subject": "=?utf-8?q?x=0D=0ABcc:_eve?=", "body": "\r\nBcc: eve@example.com\r\n\r\nhi"})
	if r.Failed() {
		t.Fatal(r.Content)
	}
	m, body := b.read(t, r.Files[0])
	if m.Header.Get("Bcc") != "" || !strings.Contains(body, "Bcc: eve@example.com") {
		t.Errorf("headers are %v", m.Header)
	}
}

func TestSend_saysThatTheOutboxCannotBeWritten(t *testing.T) {
	b := setup(t)
	if err := os.WriteFile(filepath.Join(b.dir, meshmail.Outbox), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := b.send("k", "default", map[string]any{"to": "bob@example.com", "subject": "s", "body": "b"})
	if want := "Failed to execute 'mail.send': The folder outbox cannot be written; check its permissions and the space left."; r.Content != want {
		t.Errorf("result is %+v", r)
	}
}

// S3-158, S3-087: what a page does not demand, the handler does; a call that
// was corrected succeeds.
func TestSend_checksWhatThePageDoesNot(t *testing.T) {
	page := "---\nname: mail.send\ndescription: Mine\nhandler: mail.send\nparameters:\n  - name: to\n  - name: subject\n  - name: body\n---\nMine.\n"
	b := testbench.New(t, meshmail.Handlers(t.TempDir()), fstest.MapFS{"mail/send.md": {Data: []byte(page)}})
	args := map[string]any{"to": "bob@example.com, ann@example.com", "subject": "Hello"}
	if r := b.Call("mail.send", "k", args); r.Content != "Invalid arguments for 'mail.send': Missing required flag: --body." {
		t.Errorf("result is %+v", r)
	}
	args["body"] = "x"
	if r := b.Call("mail.send", "k", args); r.Failed() || !strings.Contains(r.Content, `"Hello" to bob@example.com, ann@example.com`) {
		t.Errorf("corrected, the call gave %+v", r)
	}
}
