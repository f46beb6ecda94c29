package imapbox

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"agentmesh/mesh"
)

// Bounds of messages of a folder.
const (
	maxHeads    = 2000      // whose heads one call fetches
	maxArrivals = 10_000    // of which one call asks when they arrived
	maxFound    = 1_000_000 // that a server finds
)

// A Query says which messages are looked for; what is empty does not matter.
type Query struct {
	Folders       []string // none for all but trash and junk
	Words         []string // all of them, anywhere in the message
	From, To      string   // part of a name or address; To looks at copies too
	Since, Before time.Time
	// Most is how many are wanted, of those that arrived last.
	Most int
}

// A Head is what is shown of a message in a list. Its texts are what the sender wrote.
type Head struct {
	ID, Folder   string
	Date         time.Time
	Arrived      time.Time // by which lists are ordered; senders say the date
	From, To, Cc string
	Subject      string
}

// A Found is what a search came to.
type Found struct {
	// Heads are the messages that arrived last, the last first, at most as many as were wanted:
	// more of them begin with the same.
	Heads []Head
	// Count is how many there are in all.
	Count int
	// Unseen counts folders that were not looked into, as there are too many.
	Unseen int
	// Folders are the names of those that were.
	Folders []string
}

// Search has the server find messages. Errors: Invalid for a folder that there is not,
// Unavailable, Denied and Precondition for what is wrong with the server or the account.
func (a *Account) Search(ctx context.Context, q Query) (*Found, error) {
	found := new(Found)
	err := a.within(ctx, func(s *session) error {
		folders, more, err := s.wanted(q.Folders)
		if err != nil {
			return err
		}
		found.Unseen = more
		for _, f := range folders {
			if err := s.searchIn(f, q, found); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// In a folder they are in order already, also those of one moment.
	slices.SortStableFunc(found.Heads, func(a, b Head) int { return b.Arrived.Compare(a.Arrived) })
	found.Heads = found.Heads[:min(len(found.Heads), q.Most)]
	return found, nil
}

// searchIn adds what the folder has. Dates are days for servers, in no zone: the days around
// are asked for, and what is not of the time is left out here.
func (s *session) searchIn(f Folder, q Query, found *Found) error {
	validity, err := s.open(f, true)
	if err != nil {
		return err
	}
	found.Folders = append(found.Folders, f.Name)
	uids, err := s.uids(q.criteria())
	if err != nil {
		return err
	}
	found.Count += len(uids)
	most := min(q.Most, maxHeads)
	if q.dated() {
		most = maxHeads
	}
	if uids, err = s.newest(uids, most); len(uids) == 0 || err != nil {
		return err
	}
	messages, err := s.Fetch(imap.UIDSetNum(uids...), &imap.FetchOptions{UID: true, Envelope: true, InternalDate: true}).Collect()
	if err != nil {
		return err
	}
	slices.SortFunc(messages, lastFirst)
	for _, m := range messages {
		h := Head{ID: idOf(f, validity, m.UID), Folder: f.Name}
		h.fill(m.Envelope, m.InternalDate)
		if !q.Since.IsZero() && h.Date.Before(q.Since) || !q.Before.IsZero() && !h.Date.Before(q.Before) {
			found.Count--
			continue
		}
		found.Heads = append(found.Heads, h)
	}
	return nil
}

// newest are those of the messages that arrived last. Which have the highest UIDs may be old mail
// that was moved into the folder.
func (s *session) newest(uids []imap.UID, most int) ([]imap.UID, error) {
	if len(uids) <= most {
		return uids, nil
	}
	uids = uids[max(0, len(uids)-maxArrivals):]
	messages, err := s.Fetch(imap.UIDSetNum(uids...), &imap.FetchOptions{UID: true, InternalDate: true}).Collect()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(messages, lastFirst)
	uids = nil
	for _, m := range messages[:min(len(messages), most)] {
		uids = append(uids, m.UID)
	}
	return uids, nil
}

// lastFirst orders messages of a folder.
func lastFirst(a, b *imapclient.FetchMessageBuffer) int {
	return cmp.Or(b.InternalDate.Compare(a.InternalDate), cmp.Compare(b.UID, a.UID))
}

func (q Query) dated() bool { return !q.Since.IsZero() || !q.Before.IsZero() }

func (q Query) criteria() *imap.SearchCriteria {
	const day = 24 * time.Hour
	c := &imap.SearchCriteria{Text: q.Words}
	header := func(name, value string) imap.SearchCriteria {
		return imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{{Key: name, Value: value}}}
	}
	if q.From != "" {
		c.And(new(header("From", q.From)))
	}
	if q.To != "" {
		c.Or = append(c.Or, [2]imap.SearchCriteria{header("To", q.To), header("Cc", q.To)})
	}
	if !q.Since.IsZero() {
		c.SentSince = q.Since.UTC().Add(-day)
	}
	if !q.Before.IsZero() {
		c.SentBefore = q.Before.UTC().Add(2 * day)
	}
	return c
}

// fill takes what the server says of the message. Who sends a message says when; nobody can have
// sent it later than a day after it arrived.
func (h *Head) fill(e *imap.Envelope, arrived time.Time) {
	h.Date, h.Arrived = arrived, arrived
	if e == nil {
		return
	}
	if !e.Date.IsZero() && (arrived.IsZero() || e.Date.Before(arrived.Add(24*time.Hour))) {
		h.Date = e.Date
	}
	h.From, h.To, h.Cc = people(e.From), people(e.To), people(e.Cc)
	h.Subject = e.Subject
}

func people(list []imap.Address) string {
	var names []string
	for _, a := range list {
		switch addr := a.Addr(); {
		case addr == "": // the ends of a group
		case a.Name != "":
			names = append(names, a.Name+" <"+addr+">")
		default:
			names = append(names, addr)
		}
	}
	return strings.Join(names, ", ")
}

// uids searches the folder that is open, and returns what is found in ascending order. Servers may
// tell it as ranges, a few bytes for any number.
func (s *session) uids(c *imap.SearchCriteria) ([]imap.UID, error) {
	data, err := s.UIDSearch(c, nil).Wait()
	if err != nil {
		return nil, err
	}
	set, _ := data.All.(imap.UIDSet)
	var n int64
	for _, r := range set {
		n += int64(r.Stop) - int64(r.Start) + 1
		if r.Start == 0 || r.Stop < r.Start || n > maxFound {
			return nil, mesh.Errorf(mesh.Unavailable, "imapbox", "The mail server %s finds more messages in a folder than the %d that are taken, or none that can be; ask for less, or tell the operator of the mesh", s.host, maxFound)
		}
	}
	uids, _ := set.Nums()
	slices.Sort(uids)
	return uids, nil
}

// holds reports whether the folder that is open has a message of exactly that Message-ID, and of
// that UID or a higher one, and returns the highest. Servers find all whose Message-ID contains
// it, and senders choose theirs.
func (s *session) holds(messageID string, from imap.UID) (uid imap.UID, ok bool, err error) {
	if messageID == "" {
		return 0, false, nil
	}
	uids, err := s.uids(&imap.SearchCriteria{
		UID:    []imap.UIDSet{{{Start: from}}}, // up to the highest, which it always has
		Header: []imap.SearchCriteriaHeaderField{{Key: "Message-ID", Value: messageID}},
	})
	if err != nil {
		return 0, false, mesh.Wrap("imapbox.holds", err)
	}
	uids = slices.DeleteFunc(uids, func(u imap.UID) bool { return u < from })
	if uids = uids[max(0, len(uids)-maxHeads):]; len(uids) == 0 {
		return 0, false, nil
	}
	messages, err := s.Fetch(imap.UIDSetNum(uids...), &imap.FetchOptions{UID: true, Envelope: true}).Collect()
	if err != nil {
		return 0, false, mesh.Wrap("imapbox.holds", err)
	}
	for _, m := range messages {
		if m.Envelope != nil && m.Envelope.MessageID == messageID && m.UID >= from {
			uid = max(uid, m.UID)
		}
	}
	return uid, uid > 0, nil
}
