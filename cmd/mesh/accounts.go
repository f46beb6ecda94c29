package main

import (
	"context"
	"path/filepath"

	"agentmesh/mesh/node"
	"agentmesh/mesh/skill"
	"agentmesh/skills/calendar"
	"agentmesh/skills/calendar/davcal"
	"agentmesh/skills/mail"
	"agentmesh/skills/mail/imapbox"
)

// mailOptions say how mail is sent and where it is. The operator named these servers: they may be
// on this machine.
func mailOptions(cfg *node.Config) ([]mail.Option, error) {
	opts := []mail.Option{mail.WithFiles(filepath.Join(cfg.Data, filesFolder), cfg.Shares("files"))}
	t, err := mailTransport(cfg.SMTP)
	if err != nil {
		return nil, err
	}
	if t != nil {
		opts = append(opts, mail.WithTransport(t))
	}
	for i := range cfg.Accounts {
		a, account := &cfg.Accounts[i], mail.Account{}
		if s := a.IMAP; s.Address != "" {
			if account.Box, err = imapbox.New(imapbox.Settings{Addr: s.Address, User: s.User, Password: s.Password, TLS: s.TLS}); err != nil {
				return nil, err
			}
		}
		if account.Transport, err = mailTransport(a.SMTP); err != nil {
			return nil, err
		}
		opts = append(opts, mail.WithAccount(a.Owner(), account))
	}
	return opts, nil
}

// calendarOptions say where calendars are, and how invitations go by mail.
func calendarOptions(cfg *node.Config, mailed []mail.Option) (opts []calendar.Option, err error) {
	opts = append(opts, calendar.WithPost(invitations{mail.NewInviter(cfg.Data, cfg.Shares("mail"), mailed...)}))
	for i := range cfg.Accounts {
		a := &cfg.Accounts[i]
		if a.CalDAV.URL == "" {
			continue
		}
		account, err := davcal.New(davcal.Settings{URL: a.CalDAV.URL, User: a.CalDAV.User, Password: a.CalDAV.Password, Calendar: a.CalDAV.Calendar})
		if err != nil {
			return nil, err
		}
		opts = append(opts, calendar.WithAccount(a.Owner(), account))
	}
	return opts, nil
}

// mailTransport returns what sends mail through the server, nil if there is none.
func mailTransport(s node.SMTP) (*mail.Transport, error) {
	if s.Address == "" {
		return nil, nil
	}
	return mail.NewTransport(mail.SMTP{Addr: s.Address, User: s.User, Password: s.Password, TLS: s.TLS, From: s.From})
}

// invitations to events of calendars go by mail.
type invitations struct{ mail.Inviter }

func (p invitations) Invite(ctx context.Context, env *skill.Env, key string, i calendar.Invitation) (words string, sent bool, err error) {
	return p.Inviter.Invite(ctx, env, key, mail.Invitation(i))
}
