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

// A Begun is what is known of a move before it begins, by which one that was cut off is told from
// one that did nothing.
type Begun struct {
	MessageID string `json:"message_id,omitempty"`
	// Validity and Next are the UIDVALIDITY and the UIDNEXT of the target: what was moved has
	// Next or more. Without them nothing is known to have been moved.
	Validity uint32   `json:"validity,omitempty"`
	Next     imap.UID `json:"next,omitempty"`
}

// A Moving says which message goes where.
type Moving struct {
	ID, To string
	// Begun is what was noted of it; nil for one that was not begun.
	Begun *Begun
	// Note is told of one that was not begun, before it is moved; its error keeps it where it is.
	Note func(Begun) error
}

// Move puts the message into the folder. One that was begun and is not where it was, but came
// into the folder since, was moved, and nothing happens. A server without MOVE may have been cut
// off between the copy and the deletion: what came is not copied again. In doubt it is, for two
// of a message are better than none. Errors: Invalid for a folder that there is not, Unsupported
// if the server cannot move safely, NotFound, those of Search, and Note's.
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
		if m.Begun != nil {
			if was, err = s.there(target, *m.Begun, &p); err != nil {
				return err
			}
		}
		source, uid, err := s.at(m.ID, false)
		begun := Begun{}
		if err == nil {
			begun.MessageID, err = s.messageID(m.ID, uid)
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
		if m.Begun == nil {
			if begun.Validity, begun.Next, err = s.next(target); err != nil {
				return err
			}
			if err := m.Note(begun); err != nil {
				return err
			}
		}
		return s.move(imap.UIDSetNum(uid), target, was, &p)
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

// next returns the UIDVALIDITY and the UIDNEXT of a folder that is not open.
func (s *session) next(f Folder) (validity uint32, next imap.UID, err error) {
	data, err := s.Status(f.path, &imap.StatusOptions{UIDValidity: true, UIDNext: true}).Wait()
	if err != nil {
		return 0, 0, err
	}
	return data.UIDValidity, data.UIDNext, nil
}

// there reports whether a message of that Message-ID came into the folder since, and where it is.
func (s *session) there(f Folder, since Begun, p *Place) (bool, error) {
	validity, err := s.open(f, true)
	if err != nil || since.Validity != validity || since.Next == 0 {
		return false, err
	}
	return s.found(f, validity, since.MessageID, since.Next, p)
}

// found reports whether the folder, which is open, has a message of that Message-ID and that UID
// or a higher one, and where it is.
func (s *session) found(f Folder, validity uint32, messageID string, from imap.UID, p *Place) (bool, error) {
	uid, ok, err := s.holds(messageID, from)
	if ok {
		p.ID = idOf(f, validity, uid)
	}
	return ok, err
}

// move moves a message of the folder that is open. Without MOVE, nothing is deleted before the
// server has said that it copied it.
func (s *session) move(set imap.UIDSet, target Folder, was bool, p *Place) error {
	if s.Caps().Has(imap.CapMove) {
		data, err := s.Client.Move(set, target.path).Wait()
		if err != nil {
			return err
		}
		p.ID = idIn(target, data.UIDValidity, data.DestUIDs)
		return nil
	}
	if !was {
		data, err := s.Copy(set, target.path).Wait()
		if err != nil {
			return err
		}
		p.ID = idIn(target, data.UIDValidity, data.DestUIDs)
	}
	if err := s.Store(set, &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagDeleted}}, nil).Close(); err != nil {
		return err
	}
	return s.UIDExpunge(set).Close()
}

// idIn names the one message of the set, or is "".
func idIn(f Folder, validity uint32, set imap.NumSet) string {
	uids, ok := set.(imap.UIDSet)
	if !ok || len(uids) != 1 || uids[0].Start != uids[0].Stop {
		return ""
	}
	return idOf(f, validity, uids[0].Start)
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
		validity, err := s.open(target, true)
		if err != nil {
			return err
		}
		if ok, err := s.found(target, validity, messageID, 1, &p); ok || err != nil {
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
