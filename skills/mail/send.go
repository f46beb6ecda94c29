package mail

import (
	"bytes"
	"context"
	"errors"
	"net/mail"
	"path/filepath"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/outfile"
)

// A parcel is a message that is being written or sent.
type parcel struct {
	id      string // of its key
	file    string // its name in whatever folder it is in
	owner   mesh.Owner
	to      []*mail.Address // of the envelope
	message []byte          // once it is written
	draft   *draft
	record  *record
	ledger  outfile.Ledger
	folders []string // where it may be
}

// pack checks the call. Messages that are sent and drafts have ledgers of their own.
func (p *post) pack(ctx context.Context, call *skill.Call, env *skill.Env, folders ...string) (*parcel, error) {
	d, err := check(call)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	id := outfile.Name(env.Tenant, call.Key)
	return &parcel{
		id: id, file: id + suffix, owner: env.Owner(), to: append(d.to, d.cc...), draft: d, folders: folders,
		ledger: outfile.NewLedger(filepath.Join(p.dir, ledgers, folders[0], outfile.Distinct(env.Owner()))),
	}, nil
}

// write composes the message, which was not seen before, with the files that go along.
func (p *post) write(call *skill.Call, env *skill.Env, m *parcel) error {
	files, err := p.attached(call, env, m.draft.attached)
	if err != nil {
		return err
	}
	if m.message, err = m.draft.compose(p.sender(m.owner), m.id, env.Now(), files); err != nil {
		return mesh.Errorf(mesh.Unknown, call.Skill, "The message could not be written: %w", err)
	}
	if m.record, err = recordOf(m.folders[0], bytes.NewReader(m.message)); err != nil {
		return mesh.Errorf(mesh.Unknown, call.Skill, "The message could not be read back: %w", err)
	}
	return nil
}

// send sends the message, or puts it into the outbox. One call at a time works
// on a message; the others wait for it.
func (p *post) send(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	if err := flags.Require(call, "to", "subject", "body"); err != nil {
		return nil, err
	}
	m, err := p.pack(ctx, call, env, Sent, Outbox, Sending)
	if err != nil {
		return nil, err
	}
	if len(m.to) == 0 { // as of "," or of a group of nobody
		return nil, mesh.InvalidField(call.Skill, "to", "names nobody; give an address, as bob@example.com")
	}
	unlock, err := m.ledger.Lock(ctx, m.id)
	if err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	defer unlock()
	// What was done under this key with another configuration counts as well.
	if r, err := p.again(ctx, env, m); r != nil || err != nil {
		return r, err
	}
	if err := p.write(call, env, m); err != nil {
		return nil, err
	}
	if t := p.carrier(m.owner); t != nil {
		return p.deliver(ctx, env, m, t)
	}
	return p.put(ctx, env, m, Outbox)
}

// draft puts a message into the folder of drafts. Nobody needs to be named
// yet.
func (p *post) draft(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	if !flags.Has(call, "subject") && !flags.Has(call, "body") {
		return nil, flags.Require(call, "subject", "body")
	}
	m, err := p.pack(ctx, call, env, Drafts)
	if err != nil {
		return nil, err
	}
	unlock, err := m.ledger.Lock(ctx, m.id)
	if err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	defer unlock()
	if r, err := p.again(ctx, env, m); r != nil || err != nil {
		return r, err
	}
	if err := p.write(call, env, m); err != nil {
		return nil, err
	}
	return p.put(ctx, env, m, Drafts)
}

// put writes the message into the folder, after it was noted.
func (p *post) put(ctx context.Context, env *skill.Env, m *parcel, folder string) (*skill.Result, error) {
	const op = "mail.put"
	dir := p.folder(folder, m.owner)
	if err := outfile.Stage(dir, m.file, m.message); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if err := m.note(folder); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if _, err := outfile.Publish(dir, m.file); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return p.settled(ctx, env, m), nil
}

// settled is the result of a message that is where it goes, after the account has filed it.
func (p *post) settled(ctx context.Context, env *skill.Env, m *parcel) *skill.Result {
	note := p.handIn(ctx, env, m)
	r := p.result(m)
	r.Content += note
	return r
}

const cutShort = "an earlier delivery of it was cut short"

// deliver gives the message to the mail server.
func (p *post) deliver(ctx context.Context, env *skill.Env, m *parcel, t *Transport) (*skill.Result, error) {
	const op = "mail.send"
	sending := p.folder(Sending, m.owner)
	if err := m.note(Sending); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	// Without its file nothing was sent, and it is as if it had not been tried.
	err := outfile.WriteOnce(sending, m.file, m.message)
	if err == nil {
		err = t.deliver(ctx, m, func() {
			if err := m.note(Sent); err != nil {
				env.Logger.ErrorContext(ctx, "mail was sent, but could not be noted as such", "file", m.file, "err", err)
			}
			if err := outfile.Move(sending, p.folder(Sent, m.owner), m.file); err != nil {
				env.Logger.ErrorContext(ctx, "mail was sent, but its file could not be put into the folder sent", "file", m.file, "err", err)
			}
		})
	}
	var lost *lostError
	switch {
	case errors.As(err, &lost):
		env.Logger.WarnContext(ctx, "outcome of a delivery is unknown", "file", m.file, "err", lost.err)
		return p.unknown(m, lost.why), nil
	case err != nil:
		if exists(sending, m.file) {
			if err := outfile.Remove(sending, m.file); err != nil {
				env.Logger.ErrorContext(ctx, "mail was not sent, but its file is still in the folder sending", "file", m.file, "err", err)
			}
		}
		if err := m.ledger.Drop(m.id); err != nil {
			env.Logger.ErrorContext(ctx, "mail was not sent, but is still noted as being sent", "file", m.file, "err", err)
		}
		return nil, mesh.Wrap(op, err)
	}
	return p.settled(ctx, env, m), nil
}
