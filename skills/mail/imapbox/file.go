package imapbox

import (
	"context"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"agentmesh/mesh"
)

// A Place is where a message is.
type Place struct {
	// ID is "" if the server does not tell it.
	ID, Folder string
}

// one fetches something of a message of the folder that is open.
func (s *session) one(id string, uid imap.UID, opts *imap.FetchOptions) (*imapclient.FetchMessageBuffer, error) {
	got, err := s.Fetch(imap.UIDSetNum(uid), opts).Collect()
	if err != nil {
		return nil, err
	}
	for _, m := range got {
		if m.UID == uid {
			return m, nil
		}
	}
	return nil, gone(id)
}

// A Moving says which message goes where.
type Moving struct {
	ID, To string
	// Again says that it was begun before, of the message of that Message-ID.
	Again     bool
	MessageID string
	// Note is told the Message-ID of one that was not begun, before it is moved; its error keeps
	// it where it is.
	Note func(messageID string) error
}

// Move puts the message into the folder. One that was begun and is not where it was, but in the
// folder, was moved, and nothing happens. Errors: Invalid for a folder that there is not,
// Unsupported if the server cannot move safely, NotFound, those of Search, and Note's.
func (a *Account) Move(ctx context.Context, m Moving) (p Place, err error) {
	err = a.within(ctx, func(s *session) error {
		target, err := s.folder("to", m.To)
		if err != nil {
			return err
		}
		if !s.Caps().Has(imap.CapMove) && !s.Caps().Has(imap.CapUIDPlus) {
			return mesh.Errorf(mesh.Unsupported, "imapbox", "The mail server %s can neither move messages (MOVE) nor delete a single one (UIDPLUS); move it with a mail program", s.host)
		}
		p = Place{Folder: target.Name}
		was := false
		if m.Again {
			if was, err = s.there(target, m.MessageID, &p); err != nil {
				return err
			}
		}
		source, uid, err := s.at(m.ID, false)
		messageID := ""
		if err == nil {
			messageID, err = s.messageID(m.ID, uid)
		}
		switch {
		case was && mesh.IsCode(err, mesh.NotFound):
			return nil
		case err != nil:
			return err
		case source.path == target.path:
			p.ID = m.ID
			return nil
		}
		if !m.Again {
			if err := m.Note(messageID); err != nil {
				return err
			}
		}
		return s.move(uid, target, was, &p)
	})
	return p, err
}

// messageID returns that of a message of the folder that is open.
func (s *session) messageID(id string, uid imap.UID) (string, error) {
	m, err := s.one(id, uid, &imap.FetchOptions{UID: true, Envelope: true})
	if err != nil || m.Envelope == nil {
		return "", err
	}
	return m.Envelope.MessageID, nil
}

// there reports whether the folder has a message of that Message-ID, and where.
func (s *session) there(f Folder, messageID string, p *Place) (bool, error) {
	validity, err := s.open(f, true)
	if err != nil {
		return false, err
	}
	uid, ok, err := s.holds(messageID)
	if ok {
		p.ID = idOf(f, validity, uid)
	}
	return ok, err
}

// move moves a message of the folder that is open. A server without MOVE may have been cut off
// between the copy and the deletion: what the target has is not copied again.
func (s *session) move(uid imap.UID, target Folder, was bool, p *Place) error {
	set := imap.UIDSetNum(uid)
	if was && !s.Caps().Has(imap.CapMove) {
		if err := s.Store(set, &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagDeleted}}, nil).Close(); err != nil {
			return err
		}
		return s.UIDExpunge(set).Close()
	}
	data, err := s.Client.Move(set, target.path).Wait()
	if err != nil {
		return err
	}
	p.ID = ""
	if uids, ok := data.DestUIDs.(imap.UIDSet); ok {
		if nums, ok := uids.Nums(); ok && len(nums) == 1 {
			p.ID = idOf(target, data.UIDValidity, nums[0])
		}
	}
	return nil
}

// Put adds the message to the folder of that name unless it has one of that Message-ID already.
// The error is NotFound if the account has no such folder; others are those of Search, and
// Exhausted if the account is full.
func (a *Account) Put(ctx context.Context, folder, messageID string, message []byte, draft bool) (p Place, err error) {
	err = a.within(ctx, func(s *session) error {
		target, err := s.folder("folder", folder)
		if mesh.IsCode(err, mesh.Invalid) {
			return mesh.Errorf(mesh.NotFound, "imapbox", "The account has no folder %s", folder)
		}
		if err != nil {
			return err
		}
		p.Folder = target.Name
		if ok, err := s.there(target, messageID, &p); ok || err != nil {
			return err
		}
		flag := imap.FlagSeen
		if draft {
			flag = imap.FlagDraft
		}
		cmd := s.Append(target.path, int64(len(message)), &imap.AppendOptions{Flags: []imap.Flag{flag}})
		if _, err := cmd.Write(message); err != nil {
			_ = cmd.Close() // the connection is broken
			return err
		}
		if err := cmd.Close(); err != nil {
			return err
		}
		data, err := cmd.Wait()
		if err == nil && data.UID > 0 {
			p.ID = idOf(target, data.UIDValidity, data.UID)
		}
		return err
	})
	return p, err
}
