package mail

import (
	"bytes"
	"context"
	"net/mail"
	"path/filepath"

	gomail "github.com/emersion/go-message/mail"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/outfile"
)

// An Invitation is what those who take part in an event are told of it (RFC 6047).
type Invitation struct {
	// Method is REQUEST or CANCEL.
	Method        string
	To            []string
	Subject, Text string
	// Data are the event, in the form of iCalendar.
	Data []byte
}

// An Inviter sends invitations as mail.send sends messages: once per key, and kept in the folder
// sent. Use [NewInviter].
type Inviter struct {
	post   *post
	shared bool
}

// NewInviter returns one with the folders and options of [Handlers]. If shared, mail is what the
// users of a tenant share.
func NewInviter(dir string, shared bool, opts ...Option) Inviter {
	return Inviter{newPost(dir, opts), shared}
}

func (i Inviter) owner(env *skill.Env) mesh.Owner {
	if i.shared {
		return mesh.Owner{Tenant: env.Tenant}
	}
	return mesh.Owner{Tenant: env.Tenant, User: env.User}
}

// Sender returns the address from which mail of the user of env goes out, "" without a mail server.
func (i Inviter) Sender(env *skill.Env) string {
	if t := i.post.carrier(i.owner(env)); t != nil {
		return t.from.Address
	}
	return ""
}

// Invite sends the invitation, once per key, and returns what became of it in words, and whether a
// mail server certainly took it. Errors are those of mail.send.
func (i Inviter) Invite(ctx context.Context, env *skill.Env, key string, v Invitation) (words string, sent bool, err error) {
	const op = "mail.Invite"
	owner := i.owner(env)
	t := i.post.carrier(owner)
	if t == nil {
		return "", false, mesh.Errorf(mesh.Precondition, op, "There is no mail server; nothing was sent")
	}
	d := &draft{subject: v.Subject, body: v.Text, event: &v}
	for _, address := range v.To {
		d.to = append(d.to, &mail.Address{Address: address})
	}
	id := outfile.Name(env.Tenant, key)
	m := &parcel{
		id: id, file: id + suffix, owner: owner, to: d.to, draft: d, folders: []string{Sent, Sending},
		ledger: outfile.NewLedger(filepath.Join(i.post.dir, ledgers, Sent, outfile.Distinct(owner))),
	}
	unlock, err := m.ledger.Lock(ctx, m.id)
	if err != nil {
		return "", false, mesh.Wrap(op, err)
	}
	defer unlock()
	r, err := i.post.again(ctx, env, m)
	if r == nil && err == nil {
		if err = i.post.write(&skill.Call{Skill: op}, env, m); err == nil {
			r, err = i.post.deliver(ctx, env, m, t)
		}
	}
	if err != nil {
		return "", false, mesh.Wrap(op, err)
	}
	return r.Content, !r.Failed(), nil
}

// invite writes a message that has the event beside its text, for programs to take.
func (d *draft) invite(b *bytes.Buffer, h gomail.Header) error {
	w, err := gomail.CreateWriter(b, h)
	if err != nil {
		return err
	}
	both, err := w.CreateInline()
	if err != nil {
		return err
	}
	for _, part := range []struct {
		kind, method string
		data         []byte
	}{{"text/plain", "", []byte(d.body)}, {"text/calendar", d.event.Method, d.event.Data}} {
		var h gomail.InlineHeader
		params := map[string]string{"charset": "utf-8"}
		if part.method != "" {
			params["method"] = part.method
		}
		h.SetContentType(part.kind, params)
		p, err := both.CreatePart(h)
		if err != nil {
			return err
		}
		if err := written(p, part.data); err != nil {
			return err
		}
	}
	if err := both.Close(); err != nil {
		return err
	}
	return w.Close()
}
