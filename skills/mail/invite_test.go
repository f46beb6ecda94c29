package mail_test

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	gomail "github.com/emersion/go-message/mail"

	"agentmesh/mesh/skill"
	meshmail "agentmesh/skills/mail"
)

// An invitation is a message that mail programs show and calendar programs take, once per key.
func TestInvite_sendsTheEventBesideItsText(t *testing.T) {
	srv := newServer(t)
	dir := t.TempDir()
	i := meshmail.NewInviter(dir, true, srv.transport(t))
	env := &skill.Env{Tenant: "default", User: "ann", Now: func() time.Time { return time.Unix(1_800_000_000, 0) }}
	if i.Sender(env) != "mesh@example.com" || meshmail.NewInviter(dir, true).Sender(env) != "" {
		t.Errorf("the sender is %q", i.Sender(env))
	}
	const event = "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nEND:VCALENDAR\r\n"
	for range 2 {
		words, sent, err := i.Invite(t.Context(), env, "k", meshmail.Invitation{Method: "REQUEST", To: []string{"bob@example.com"}, Subject: "Invitation: Review", Text: "You are invited.", Data: []byte(event)})
		if err != nil || !sent || !strings.Contains(words, `The email "Invitation: Review" to bob@example.com was accepted by the mail server`) {
			t.Fatalf("%q, %v", words, err)
		}
	}
	if len(srv.accepted()) != 1 {
		t.Fatalf("the server got %d messages", len(srv.accepted()))
	}
	r, err := gomail.CreateReader(strings.NewReader(srv.accepted()[0].data))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for {
		p, err := r.NextPart()
		if err != nil {
			break
		}
		h := p.Header.(*gomail.InlineHeader)
		kind, params, _ := h.ContentType()
		body, _ := io.ReadAll(p.Body)
		kinds = append(kinds, kind+" "+params["method"]+" "+strings.TrimSpace(string(body)))
	}
	if len(kinds) != 2 || kinds[0] != "text/plain  You are invited." || kinds[1] != "text/calendar REQUEST "+strings.TrimSpace(event) {
		t.Errorf("its parts are %q", kinds)
	}
	if _, _, err := meshmail.NewInviter(dir, true).Invite(t.Context(), env, "k2", meshmail.Invitation{}); err == nil {
		t.Error("without a mail server it was sent")
	}
}

// An invitation that was given away without an answer is not said to be sent, also when it is repeated.
func TestInvite_saysWhatIsUnknown(t *testing.T) {
	srv := newServer(t)
	srv.set(func() { srv.cut = true })
	i := meshmail.NewInviter(t.TempDir(), true, srv.transport(t))
	env := &skill.Env{Tenant: "default", User: "ann", Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Unix(1_800_000_000, 0) }}
	for range 2 {
		words, sent, err := i.Invite(t.Context(), env, "k", meshmail.Invitation{Method: "REQUEST", To: []string{"bob@example.com"}, Subject: "Invitation: Review"})
		if err != nil || sent || !strings.Contains(words, "It is unknown whether the email") {
			t.Errorf("%q, sent %v: %v", words, sent, err)
		}
	}
}
