package imapbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/emersion/go-imap/v2"

	"agentmesh/mesh"
)

// The folders that most accounts have, whatever their server calls them.
const (
	Inbox   = "inbox"
	Sent    = "sent"
	Drafts  = "drafts"
	Archive = "archive"
	Trash   = "trash"
	Junk    = "junk"
)

// maxFolders bounds how many folders one call looks into.
const maxFolders = 50

// A Folder is one of the account.
type Folder struct {
	// Name is how it is called here: Inbox and the like, or the server's own name.
	Name string
	// virtual says that it shows messages of other folders again.
	virtual bool
	path    string // the server's name
}

// roles are by which attribute (RFC 6154), or else by which usual name, a folder is known.
var roles = []struct {
	name  string
	attr  imap.MailboxAttr
	usual []string
}{
	{Sent, imap.MailboxAttrSent, []string{"sent", "sent items", "sent messages", "sent mail"}},
	{Drafts, imap.MailboxAttrDrafts, []string{"drafts", "draft"}},
	{Archive, imap.MailboxAttrArchive, []string{"archive", "archives"}},
	{Trash, imap.MailboxAttrTrash, []string{"trash", "deleted items", "deleted messages", "bin"}},
	{Junk, imap.MailboxAttrJunk, []string{"junk", "spam", "junk e-mail", "bulk mail"}},
}

// list asks which folders there are, once in a session.
func (s *session) list() ([]Folder, error) {
	if s.folders != nil {
		return s.folders, nil
	}
	var opts *imap.ListOptions
	if s.Caps().Has(imap.CapSpecialUse) && s.Caps().Has(imap.CapListExtended) {
		opts = &imap.ListOptions{ReturnSpecialUse: true}
	}
	found, err := s.List("", "*", opts).Collect()
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(d *imap.ListData) bool {
		return slices.Contains(d.Attrs, imap.MailboxAttrNoSelect) || slices.Contains(d.Attrs, imap.MailboxAttrNonExistent)
	})
	names := rolesOf(found)
	for _, d := range found {
		f := Folder{Name: d.Mailbox, path: d.Mailbox,
			virtual: slices.Contains(d.Attrs, imap.MailboxAttrAll) || slices.Contains(d.Attrs, imap.MailboxAttrFlagged)}
		if strings.EqualFold(d.Mailbox, "INBOX") {
			f.Name = Inbox
		} else if role := names[d.Mailbox]; role != "" {
			f.Name = role
		}
		s.folders = append(s.folders, f)
	}
	slices.SortStableFunc(s.folders, func(a, b Folder) int { return strings.Compare(rank(a), rank(b)) })
	return s.folders, nil
}

// rolesOf says which folders are known as what, by the server's names. What has a usual name at the
// top, or right below the inbox, comes before what has it within another folder.
func rolesOf(found []*imap.ListData) map[string]string {
	names := map[string]string{}
	for _, r := range roles {
		for _, is := range []func(*imap.ListData) bool{
			func(d *imap.ListData) bool { return slices.Contains(d.Attrs, r.attr) },
			func(d *imap.ListData) bool {
				above, last := split(d)
				return slices.Contains(r.usual, last) && (above == "" || above == "inbox")
			},
			func(d *imap.ListData) bool {
				_, last := split(d)
				return slices.Contains(r.usual, last)
			},
		} {
			if at := slices.IndexFunc(found, is); at >= 0 {
				if names[found[at].Mailbox] == "" {
					names[found[at].Mailbox] = r.name
				}
				break
			}
		}
	}
	return names
}

// split is a name in small letters, in two: INBOX.Sent is sent, within inbox.
func split(d *imap.ListData) (above, last string) {
	name := strings.ToLower(d.Mailbox)
	if d.Delim == 0 {
		return "", name
	}
	at := strings.LastIndex(name, string(d.Delim))
	return name[:max(0, at)], name[at+1:]
}

// rank has the inbox come first, and others by name.
func rank(f Folder) string {
	if f.Name == Inbox {
		return ""
	}
	return f.Name
}

// folder finds the folder of that name.
func (s *session) folder(field, name string) (Folder, error) {
	all, err := s.list()
	if err != nil {
		return Folder{}, err
	}
	for _, by := range []func(Folder) bool{
		func(f Folder) bool { return f.path == name },
		func(f Folder) bool { return strings.EqualFold(f.Name, name) || strings.EqualFold(f.path, name) },
	} {
		if i := slices.IndexFunc(all, by); i >= 0 {
			return all[i], nil
		}
	}
	var names []string
	for _, f := range all[:min(len(all), maxFolders)] {
		names = append(names, strconv.Quote(mesh.Clip(f.Name, 80)))
	}
	return Folder{}, mesh.InvalidField("imapbox", field, "is %q, which the account does not have; it has %s", mesh.Clip(name, 80), strings.Join(names, ", "))
}

// usual reports whether most accounts have a folder that is called so.
func usual(name string) bool {
	for _, r := range roles {
		if strings.EqualFold(r.name, name) {
			return true
		}
	}
	return false
}

// wanted are the folders of those names, as far as there are usual ones; no names are all but the
// virtual ones, the trash and the junk. It also returns how many were left out because there are too many.
func (s *session) wanted(names []string) (folders []Folder, more int, err error) {
	if len(names) == 0 {
		all, err := s.list()
		if err != nil {
			return nil, 0, err
		}
		folders = slices.DeleteFunc(slices.Clone(all), func(f Folder) bool { return f.virtual || f.Name == Trash || f.Name == Junk })
	}
	for _, name := range names {
		f, err := s.folder("folder", name)
		if mesh.IsCode(err, mesh.Invalid) && usual(name) {
			continue // the account happens not to have it
		}
		if err != nil {
			return nil, 0, err
		}
		if !slices.Contains(folders, f) {
			folders = append(folders, f)
		}
	}
	more = max(0, len(folders)-maxFolders)
	return folders[:len(folders)-more], more, nil
}

// open makes the folder the one of the commands that follow, and returns its UIDVALIDITY.
func (s *session) open(f Folder, readOnly bool) (validity uint32, err error) {
	data, err := s.Select(f.path, &imap.SelectOptions{ReadOnly: readOnly}).Wait()
	if err != nil {
		return 0, err
	}
	return data.UIDValidity, nil
}

// mark begins an id that is of a message on a server.
const mark = "i-"

// idOf names a message.
func idOf(f Folder, validity uint32, uid imap.UID) string {
	return fmt.Sprintf("%s%d-%s-%s", mark, uid, strconv.FormatUint(uint64(validity), 36), f.digest())
}

func (f Folder) digest() string {
	sum := sha256.Sum256([]byte(f.path))
	return hex.EncodeToString(sum[:4])
}

// IsID reports whether the text may be the id of a message on a server.
func IsID(id string) bool {
	_, _, _, ok := parseID(id)
	return ok
}

func parseID(id string) (uid imap.UID, validity uint32, digest string, ok bool) {
	rest, ok := strings.CutPrefix(id, mark)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) != 3 {
		return 0, 0, "", false
	}
	n, err1 := strconv.ParseUint(parts[0], 10, 32)
	v, err2 := strconv.ParseUint(parts[1], 36, 32)
	return imap.UID(n), uint32(v), parts[2], err1 == nil && err2 == nil && n > 0
}

// at opens the folder of the message. The error is NotFound if there is none, or it was numbered
// anew.
func (s *session) at(id string, readOnly bool) (Folder, imap.UID, error) {
	uid, validity, digest, _ := parseID(id)
	all, err := s.list()
	if err != nil {
		return Folder{}, 0, err
	}
	i := slices.IndexFunc(all, func(f Folder) bool { return f.digest() == digest })
	if i < 0 {
		return Folder{}, 0, gone(id)
	}
	now, err := s.open(all[i], readOnly)
	if err == nil && now != validity {
		err = gone(id)
	}
	return all[i], uid, err
}

func gone(id string) error {
	return mesh.Errorf(mesh.NotFound, "imapbox", "There is no message %s; find its id with mail.search", mesh.Clip(id, 60))
}
