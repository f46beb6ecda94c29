package mail

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"path/filepath"
	"strings"

	gomail "github.com/emersion/go-message/mail"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/outfile"
)

// A parcel is a message that is being written or sent.
type parcel struct {
	file    string // its name in whatever folder it is in
	tenant  mesh.TenantID
	to      []*mail.Address // of the envelope
	message []byte
}

// pack checks the call and composes its message.
func (p *post) pack(ctx context.Context, call *skill.Call, env *skill.Env, required ...string) (*parcel, error) {
	if err := flags.Require(call, required...); err != nil {
		return nil, err
	}
	d, err := check(call)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	id := outfile.Name(env.Tenant, call.Key)
	data, err := p.compose(d, id, env.Now())
	if err != nil {
		return nil, mesh.Errorf(mesh.Unknown, call.Skill, "The message could not be written: %w", err)
	}
	return &parcel{file: id + suffix, tenant: env.Tenant, to: append(d.to, d.cc...), message: data}, nil
}

func (p *post) send(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	m, err := p.pack(ctx, call, env, "to", "subject", "body")
	if err != nil {
		return nil, err
	}
	// What was done under this key with another configuration counts as well.
	if r, err := p.settled(m); r != nil || err != nil {
		return r, err
	}
	if p.transport != nil {
		return p.deliver(ctx, env, m)
	}
	if exists(p.folder(Sending, m.tenant), m.file) {
		return p.unknown(m, cutShort)
	}
	if err := outfile.WriteOnce(p.folder(Outbox, m.tenant), m.file, m.message); err != nil {
		return nil, mesh.Wrap("mail.send", err)
	}
	return p.result(Outbox, m, "The email %q to %s is in the outbox (%s).")
}

// settled is the result of a message that was sent or queued before, or nil.
func (p *post) settled(m *parcel) (*skill.Result, error) {
	for folder, text := range map[string]string{
		Sent:   "The email %q to %s was accepted by the mail server (%s).",
		Outbox: "The email %q to %s is in the outbox (%s).",
	} {
		if exists(p.folder(folder, m.tenant), m.file) {
			return p.result(folder, m, text)
		}
	}
	return nil, nil
}

func exists(dir, file string) bool {
	_, err := os.Lstat(filepath.Join(dir, file))
	return err == nil
}

const cutShort = "an earlier delivery of it was cut short"

// deliver gives the message to the mail server, unless that was done or tried
// before. One call at a time works on a message; the others wait for it.
func (p *post) deliver(ctx context.Context, env *skill.Env, m *parcel) (*skill.Result, error) {
	const op = "mail.send"
	sending := p.folder(Sending, m.tenant)
	unlock, err := outfile.Lock(ctx, sending, m.file)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	defer unlock()
	if r, err := p.settled(m); r != nil || err != nil {
		return r, err
	}
	begun, err := outfile.Create(sending, m.file, m.message)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if !begun {
		return p.unknown(m, cutShort)
	}
	err = p.transport.deliver(ctx, m, func() {
		if err := outfile.Move(sending, p.folder(Sent, m.tenant), m.file); err != nil {
			env.Logger.ErrorContext(ctx, "mail was sent, but its file could not be put into the folder sent", "file", m.file, "err", err)
		}
	})
	var lost *lostError
	switch {
	case errors.As(err, &lost):
		env.Logger.WarnContext(ctx, "outcome of a delivery is unknown", "file", m.file, "err", lost.err)
		return p.unknown(m, lost.why)
	case err != nil:
		if err := outfile.Remove(sending, m.file); err != nil {
			env.Logger.ErrorContext(ctx, "mail was not sent, but its file is still in the folder sending", "file", m.file, "err", err)
		}
		return nil, mesh.Wrap(op, err)
	}
	if r, err := p.settled(m); r != nil || err != nil {
		return r, err
	}
	return p.result(Sending, m, "The email %q to %s was accepted by the mail server (%s).")
}

// unknown is the result of a message that may or may not have been sent.
func (p *post) unknown(m *parcel, why string) (*skill.Result, error) {
	r, err := p.result(Sending, m, "It is unknown whether the email %q to %s was sent (%s)")
	if err != nil {
		return nil, err
	}
	r.Status = skill.StatusError
	r.Content += fmt.Sprintf(": %s. It is not sent again by this call. Tell the user, who can ask the recipients or look for Message-ID <%v> in the log of the mail server; send it anew only if the user wants that.", why, r.Metadata["message_id"])
	r.Metadata["outcome"] = "unknown"
	return r, nil
}

// result tells of the message that is in the folder, which under a repeated
// key is the first one. The format takes subject, recipients and path.
func (p *post) result(folder string, m *parcel, format string) (*skill.Result, error) {
	name := shownPath(folder, m.tenant, m.file)
	f, err := os.Open(filepath.Join(p.dir, filepath.FromSlash(name)))
	if err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, "mail", "The message cannot be read back; check %s: %w", name, err)
	}
	defer func() { _ = f.Close() }() // only read
	r, err := gomail.CreateReader(f)
	if err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, "mail", "The message is damaged; remove %s: %w", name, err)
	}
	subject, _ := r.Header.Subject()
	messageID, _ := r.Header.MessageID()
	var to []string
	for _, key := range []string{"To", "Cc"} {
		list, _ := r.Header.AddressList(key)
		for _, a := range list {
			to = append(to, a.Address)
		}
	}
	people := strings.Join(to, ", ")
	if people == "" {
		people = "nobody yet"
	}
	return &skill.Result{
		Status:   skill.StatusOK,
		Content:  fmt.Sprintf(format, subject, people, name),
		Files:    []string{name},
		Metadata: map[string]any{"message_id": messageID, "to": to, "subject": subject, "id": idOf(folder, m.file)},
	}, nil
}

// draft puts a message into the folder of drafts. Nobody needs to be named
// yet.
func (p *post) draft(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	if !flags.Has(call, "subject") && !flags.Has(call, "body") {
		return nil, flags.Require(call, "subject", "body")
	}
	m, err := p.pack(ctx, call, env)
	if err != nil {
		return nil, err
	}
	if err := outfile.WriteOnce(p.folder(Drafts, m.tenant), m.file, m.message); err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	return p.result(Drafts, m, "The draft %q to %s is in the folder drafts (%s). It was not sent.")
}
