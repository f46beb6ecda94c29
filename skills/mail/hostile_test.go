package mail_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
	meshmail "agentmesh/skills/mail"
	"agentmesh/skills/mail/imapbox"
)

// An answer writes what a server sends before it says that the command, of that line, was carried
// out; false ends the conversation there, with the connection kept open.
type answer func(w io.Writer, line string) bool

// says answers with the lines, in which <tag> is the tag.
func says(lines ...string) answer {
	return func(w io.Writer, line string) bool {
		tag, _, _ := strings.Cut(line, " ")
		_, err := io.WriteString(w, strings.ReplaceAll(strings.Join(lines, "\r\n"), "<tag>", tag)+"\r\n")
		return err == nil
	}
}

// hostile starts a server that answers commands as it is told, and others as one that has an inbox
// of one message.
func hostile(t *testing.T, answers map[string]answer) *imapServer {
	t.Helper()
	usual := map[string]answer{
		"LIST":    says(`* LIST () "/" INBOX`),
		"EXAMINE": says("* 1 EXISTS", "* OK [UIDVALIDITY 1] ."),
		"UID":     says("* SEARCH"),
		"LOGOUT":  says("* BYE ."),
	}
	l := rpctest.Listen(t)
	var wg sync.WaitGroup
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "* OK [CAPABILITY IMAP4rev1 ESEARCH] .\r\n")
		for in := bufio.NewScanner(c); in.Scan(); {
			words := strings.Fields(in.Text() + " .")
			name := strings.ToUpper(words[1])
			say := usual[name]
			if name == "UID" {
				name += " " + words[2]
			}
			if a := answers[name]; a != nil {
				say = a
			}
			if say != nil && !say(c, in.Text()) {
				_, _ = io.Copy(io.Discard, c) // until the other side ends it
				return
			}
			_, _ = fmt.Fprintf(c, "%s OK [CAPABILITY IMAP4rev1 ESEARCH] .\r\n", words[0])
		}
	}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return &imapServer{addr: l.Addr().String()}
}

// plainly reaches a server without encryption, which has all the time there is.
func plainly(c *imapbox.Settings) { c.TLS, c.Timeout = imapbox.TLSNone, time.Hour }

// repeated writes the text so often, or until the other side has had enough.
func repeated(w io.Writer, text string, times int) {
	text, times = strings.Repeat(text, 1000), times/1000
	for range times {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

// nils are so many fields that a part does not have.
func nils(n int) string { return strings.Repeat(" NIL", n) }

// However much a server sends, or says that it has, a call takes a bounded part of it.
func TestAccount_isNotExhaustedByItsServer(t *testing.T) {
	for name, tt := range map[string]struct {
		command string
		answer  answer
		want    string
	}{
		"a message of a gigabyte": {"UID FETCH", func(w io.Writer, _ string) bool {
			_, _ = fmt.Fprintf(w, "* 1 FETCH (UID 1 BODY[] {%d}\r\n", 1<<30)
			repeated(w, "0123456789abcdef", 1<<26)
			return false
		}, "answers with more than is taken of one call (64 MiB)"},
		"parts within parts": {"UID FETCH", func(w io.Writer, _ string) bool {
			_, _ = io.WriteString(w, "* 1 FETCH (UID 1 BODYSTRUCTURE ")
			repeated(w, "(", 1<<26)
			return false
		}, "or with parts within too many others"},
		"parts beside parts within parts": {"UID FETCH", func(w io.Writer, _ string) bool {
			_, _ = io.WriteString(w, "* 1 FETCH (UID 1 BODYSTRUCTURE ")
			repeated(w, "((\"a\" {3}\r\nb\r\n"+nils(3)+" \"7bit\" 1)", 1<<21)
			return false
		}, "or with parts within too many others"},
		"two million messages": {"UID SEARCH", says(`* ESEARCH (TAG "<tag>") UID ALL 1:2000000`), "finds more messages in a folder than"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]answer{"UID SEARCH": says("* SEARCH 1"), tt.command: tt.answer}
			b := setup(t, hostile(t, answers).account(t, nil, plainly))
			if r := b.Call("mail.search", "", nil); !r.Failed() || !strings.Contains(r.Content, tt.want) || !mesh.IsCode(r.Err, mesh.Unavailable) {
				t.Errorf("result is %.300s, want %q", r.Content, tt.want)
			}
		})
	}
}

// A server that does not say goodbye to the end does not hold a call that is done.
func TestAccount_doesNotWaitForAFarewell(t *testing.T) {
	srv := hostile(t, map[string]answer{"LOGOUT": func(w io.Writer, _ string) bool {
		_ = says("* BYE .")(w, "")
		return false
	}})
	b := setup(t, srv.account(t, nil, plainly))
	if r := b.Call("mail.search", "", nil); r.Failed() || r.Metadata["count"] != 0 {
		t.Errorf("result is %+v", r)
	}
}

// An attachment is not saved when its server and we see different ones in a message.
func TestSave_savesNothingThatIsInDoubt(t *testing.T) {
	pdf := func(name string) string {
		return "Content-Type: application/pdf\r\nContent-Disposition: attachment; filename=" + name + "\r\n\r\n"
	}
	for name, tt := range map[string]struct {
		first string // the header of the first part, as it is listed
		saved string // and of the second, when it is fetched
	}{
		"as many as the server sees": {pdf("a.pdf"), pdf("b.pdf")},
		"fewer":                      {"Content-Type: text/plain\r\n\r\n", pdf("b.pdf")},
		"another name":               {pdf("a.pdf"), pdf("c.pdf")},
	} {
		t.Run(name, func(t *testing.T) {
			srv := hostile(t, map[string]answer{"UID SEARCH": says("* SEARCH 1"), "UID FETCH": func(w io.Writer, line string) bool {
				send := func(format string, args ...any) bool {
					_, err := fmt.Fprintf(w, "* 1 FETCH (UID 1 "+format+")\r\n", args...)
					return err == nil
				}
				section := func(name, text string) string { return fmt.Sprintf("BODY[%s]<0> {%d}\r\n%s", name, len(text), text) }
				part := `("application" "pdf"` + nils(3) + ` "7bit" 3` + nils(4) + `)`
				switch {
				case strings.Contains(line, "BODYSTRUCTURE"):
					return send(`RFC822.SIZE 900000 BODYSTRUCTURE (%s%s "mixed" ("boundary" "m")%s)`, part, part, nils(3))
				case strings.Contains(line, "[HEADER]"):
					return send("%s %s %s", section("HEADER", "Subject: x\r\nContent-Type: multipart/mixed; boundary=m\r\n\r\n"), section("1.MIME", tt.first), section("2.MIME", pdf("b.pdf")))
				case strings.Contains(line, "[2]"):
					return send("%s %s", section("2.MIME", tt.saved), section("2", "pdf"))
				}
				return send(`INTERNALDATE "19-Nov-2026 10:00:00 +0000"`)
			}})
			drive := t.TempDir()
			b := setup(t, srv.account(t, nil, plainly), meshmail.WithFiles(drive, true))
			id := ids(t, b.Call("mail.search", "", nil))[0]
			r := b.Call("mail.save", "k", map[string]any{"id": id, "attachment": "b.pdf"})
			_, err := os.Stat(filepath.Join(drive, "default", "b.pdf"))
			if agreed := tt.first == pdf("a.pdf") && tt.saved == pdf("b.pdf"); r.Failed() == agreed || (err == nil) != agreed || !agreed && !strings.Contains(r.Content, "The mail server finds other parts in the message") {
				t.Errorf("result is %+v, %v", r, err)
			}
		})
	}
}
