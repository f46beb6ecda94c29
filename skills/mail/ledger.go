package mail

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	gomail "github.com/emersion/go-message/mail"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/outfile"
	"agentmesh/skills/mail/imapbox"
)

// A record is what is known of a message by its key.
type record struct {
	// Folder is where it went: Drafts, Outbox, Sending or Sent. The file may
	// have been taken from there since.
	Folder    string   `json:"folder"`
	To        []string `json:"to"`
	Subject   string   `json:"subject"`
	MessageID string   `json:"message_id"`
	// Place is where the account has it, which took it from the folder here.
	Place *imapbox.Place `json:"place,omitempty"`
}

// recordOf reads the head of a message.
func recordOf(folder string, message io.Reader) (*record, error) {
	r, err := gomail.CreateReader(message)
	if err != nil {
		return nil, err
	}
	n := &record{Folder: folder}
	n.Subject, _ = r.Header.Subject()
	n.MessageID, _ = r.Header.MessageID()
	for _, key := range []string{"To", "Cc"} {
		list, _ := r.Header.AddressList(key)
		for _, a := range list {
			n.To = append(n.To, a.Address)
		}
	}
	return n, nil
}

// recorded returns what is known of the message, or nil. Messages from before
// there was a ledger are known by their files.
func (p *post) recorded(m *parcel) (*record, error) {
	const op = "mail.ledger"
	data, err := m.ledger.Get(m.id)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if data != nil {
		n := new(record)
		if err := json.Unmarshal(data, n); err != nil {
			return nil, mesh.Errorf(mesh.Unavailable, op, "What is known of the message is damaged; ask the operator to look at %s in %s: %w", m.id, ledgers, err)
		}
		return n, nil
	}
	for _, folder := range m.folders {
		name := shownPath(folder, m.owner, m.file)
		f, err := outfile.Open(filepath.Dir(filepath.Join(p.dir, filepath.FromSlash(name))), m.file)
		if err != nil {
			continue
		}
		n, err := recordOf(folder, f)
		_ = f.Close() // only read
		if err != nil {
			return nil, mesh.Errorf(mesh.Unavailable, op, "The message is damaged; remove %s: %w", name, err)
		}
		return n, nil
	}
	return nil, nil
}

// note keeps what is known of the message, on the disk when it returns.
func (m *parcel) note(folder string) error {
	m.record.Folder = folder
	data, err := json.Marshal(m.record)
	if err != nil {
		return mesh.Wrap("mail.ledger", err)
	}
	return m.ledger.Put(m.id, data)
}

// again is the result of a call whose key was seen before, or nil if it was
// not. It finishes what the earlier call had decided and not done.
func (p *post) again(ctx context.Context, env *skill.Env, m *parcel) (*skill.Result, error) {
	n, err := p.recorded(m)
	if n == nil || err != nil {
		return nil, err
	}
	m.record = n
	switch n.Folder {
	case Sending:
		return p.unknown(m, cutShort), nil
	case Sent:
		if exists(p.folder(Sending, m.owner), m.file) {
			if err := outfile.Move(p.folder(Sending, m.owner), p.folder(Sent, m.owner), m.file); err != nil {
				return nil, mesh.Wrap("mail.again", err)
			}
		}
	default:
		if _, err := outfile.Publish(p.folder(n.Folder, m.owner), m.file); err != nil {
			return nil, mesh.Wrap("mail.again", err)
		}
	}
	return p.settled(ctx, env, m), nil
}

func exists(dir, file string) bool {
	_, err := os.Lstat(filepath.Join(dir, file))
	return err == nil
}

// told says what became of a message in a folder: the first takes subject,
// recipients and path; the second comes after it when the file is there no more.
var told = map[string][2]string{
	Drafts:  {"The draft %q to %s is in the folder drafts (%s). It was not sent.", "The draft %q to %s was put into the folder drafts (%s) and was taken from there since. It was not sent by this call."},
	Outbox:  {"The email %q to %s is in the outbox (%s).", "The email %q to %s was put into the outbox (%s) and was taken from there since. It is not sent again by this call."},
	Sent:    {"The email %q to %s was accepted by the mail server (%s).", "The email %q to %s was accepted by the mail server (%s, from where it was taken since). It is not sent again by this call."},
	Sending: {"It is unknown whether the email %q to %s was sent (%s)", "It is unknown whether the email %q to %s was sent (%s, from where it was taken since)"},
}

// filed says the same of a message that the account has: it takes subject, recipients and folder.
var filed = map[string]string{
	Drafts: "The draft %q to %s is in the folder %s of the account. It was not sent.",
	Sent:   "The email %q to %s was accepted by the mail server; a copy is in the folder %s of the account.",
}

// result tells of the message as it is recorded, which under a repeated key is
// the first one.
func (p *post) result(m *parcel) *skill.Result {
	n, folder := m.record, m.record.Folder
	if folder == Sent && exists(p.folder(Sending, m.owner), m.file) {
		folder = Sending // it could not be moved
	}
	name := shownPath(folder, m.owner, m.file)
	people := strings.Join(n.To, ", ")
	if people == "" {
		people = "nobody yet"
	}
	if n.Place != nil {
		return &skill.Result{
			Status: skill.StatusOK, Content: fmt.Sprintf(filed[n.Folder], n.Subject, people, shown(n.Place.Folder)),
			Metadata: map[string]any{"message_id": n.MessageID, "to": n.To, "subject": n.Subject, "id": n.Place.ID},
		}
	}
	format, files := told[n.Folder][1], []string(nil)
	if exists(p.folder(folder, m.owner), m.file) {
		format, files = told[n.Folder][0], []string{name}
	}
	return &skill.Result{
		Status: skill.StatusOK, Content: fmt.Sprintf(format, n.Subject, people, name), Files: files,
		Metadata: map[string]any{"message_id": n.MessageID, "to": n.To, "subject": n.Subject, "id": idOf(folder, m.file)},
	}
}

// unknown is the result of a message that may or may not have been sent.
func (p *post) unknown(m *parcel, why string) *skill.Result {
	r := p.result(m)
	r.Status = skill.StatusError
	r.Content += fmt.Sprintf(": %s. It is not sent again by this call. Tell the user, who can ask the recipients or look for Message-ID <%s> in the log of the mail server; send it anew only if the user wants that.", why, m.record.MessageID)
	r.Metadata["outcome"] = "unknown"
	return r
}
