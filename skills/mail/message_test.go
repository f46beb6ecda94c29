package mail

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"agentmesh/skills/mail/imapbox"
)

// Whatever a file holds, what is shown of it is bounded, valid, and visible.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"From: a@b.c\r\nSubject: =?x?q?=FF?=\r\n\r\nhi",
		"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/html\r\n\r\n<b>\r\n--x--",
		"Content-Type: text/plain; charset=utf-7\r\nContent-Transfer-Encoding: base64\r\n\r\n/w==",
		"Date: nonsense\r\n\r\n\u202e\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := parse(bytes.NewReader(data), maxFile)
		fields := []string{l.from, l.to, l.cc, l.subject, l.messageID, l.answer}
		for _, a := range l.attachments {
			fields = append(fields, a.name, a.kind)
		}
		for _, s := range fields {
			if len(s) > 2*maxLine || strings.ContainsAny(s, "\r\n\x00\x1b\u202e") || !utf8.ValidString(s) {
				t.Errorf("a field is %q", s)
			}
		}
		if len(l.text) > maxText+8 || strings.ContainsAny(l.text, "\r\x00\x1b\u202e") || !utf8.ValidString(l.text) {
			t.Errorf("the text is %.500q", l.text)
		}
		if len(l.attachments) > imapbox.MaxParts || len(l.listed()) > maxAttachment*3*maxLine {
			t.Errorf("there are %d attachments", len(l.attachments))
		}
	})
}

func TestParse_readsABoundedPartOfAFile(t *testing.T) {
	l := parse(strings.NewReader("Subject: big\r\n\r\n"+strings.Repeat("word ", maxFile/5)), maxFile)
	if l.subject != "big" || len(l.text) > maxText+8 || len(l.problems) == 0 {
		t.Errorf("%d bytes of text, problems %v", len(l.text), l.problems)
	}
}
