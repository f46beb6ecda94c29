package calendar_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-ical"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/skill"
	"agentmesh/skills/calendar"
)

// A mailbag keeps what is sent, once per key.
type mailbag struct {
	mu   sync.Mutex
	sent map[string]calendar.Invitation
	fail error
	lost bool // nobody knows whether it was sent
}

func (m *mailbag) Sender(*skill.Env) string { return "ann@example.com" }

func (m *mailbag) Invite(_ context.Context, _ *skill.Env, key string, i calendar.Invitation) (string, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return "", false, m.fail
	}
	if _, ok := m.sent[key]; !ok {
		m.sent[key] = i
	}
	if m.lost {
		return "It is unknown whether they were told.", false, nil
	}
	return "They were told.", true, nil
}

// take returns what was sent under the key, as other programs read it.
func (m *mailbag) take(t *testing.T, key string) (calendar.Invitation, *ical.Event) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	i, ok := m.sent[key]
	if !ok {
		t.Fatalf("nothing was sent under %s: %v", key, m.sent)
	}
	cal, err := ical.NewDecoder(strings.NewReader(string(i.Data))).Decode()
	if err != nil {
		t.Fatal(err)
	}
	if method, _ := cal.Props.Text(ical.PropMethod); method != i.Method {
		t.Errorf("the method is %q, in the mail %q", method, i.Method)
	}
	ev := cal.Events()[0]
	if p := ev.Props.Get(ical.PropOrganizer); p == nil || p.Value != "mailto:ann@example.com" || len(cal.Events()) != 1 {
		t.Errorf("sent is\n%s", i.Data)
	}
	if strings.Contains(string(i.Data), "X-AGENTMESH") {
		t.Errorf("it tells of our keys:\n%s", i.Data)
	}
	return i, &ev
}

// Who takes part is told of an event, of a change and of its end, once each, and nobody without
// being asked to.
func TestInvite_tellsOfAnEventByMail(t *testing.T) {
	bag := &mailbag{sent: map[string]calendar.Invitation{}}
	b := setup(t, calendar.WithPost(bag))
	given := args{"title": "Review", "start": "2026-12-01T14:00", "attendees": []any{"bob@example.com", "ann@example.com"}}
	if b.create(t, "k0", given); len(bag.sent) != 0 {
		t.Errorf("unasked, %v", bag.sent)
	}
	given["invite"] = true
	r := b.create(t, "k1", given)
	if again := b.create(t, "k1", given); cmp.Diff(r, again) != "" || len(bag.sent) != 1 || !strings.HasSuffix(r.Content, " They were told.") {
		t.Errorf("%+v, and again %+v", r, again)
	}
	first, ev := bag.take(t, "k1/REQUEST")
	if p := ev.Props.Get(ical.PropAttendee); first.Method != "REQUEST" || cmp.Diff([]string{"bob@example.com"}, first.To) != "" || first.Subject != "Invitation: Review" ||
		p.Params.Get("RSVP") != "TRUE" || p.Params.Get("PARTSTAT") != "NEEDS-ACTION" || !strings.Contains(first.Text, `"Review" on 2026-12-01 (Tue), 14:00 to 15:00 CET`) {
		t.Errorf("sent are %+v\n%s", first, first.Data)
	}
	id := r.Metadata["id"]
	b.update("k2", r, args{"start": "2026-12-01T15:00", "invite": true})
	_, moved := bag.take(t, "k2/REQUEST")
	if n := moved.Props.Get(ical.PropSequence); n == nil || n.Value != "1" {
		t.Errorf("the change is sent as\n%v", moved.Props)
	}
	b.update("k3", r, args{"delete": true, "invite": true})
	if over, ev := bag.take(t, "k3/CANCEL"); ev.Props.Get(ical.PropSequence).Value != "2" || over.Subject != "Cancelled: Review" || ev.Props.Get(ical.PropStatus).Value != "CANCELLED" {
		t.Errorf("the end is sent as %+v", over)
	}
	if r := b.call("calendar.update", "k3", "default", args{"id": id, "delete": true, "invite": true}); r.Failed() || len(bag.sent) != 3 {
		t.Errorf("repeated, %+v: %v", r, bag.sent)
	}
}

// An event is there also if nobody could be told, and it is said how to try again.
func TestInvite_saysWhoWasNotTold(t *testing.T) {
	bag := &mailbag{sent: map[string]calendar.Invitation{}, fail: errors.New("down")}
	b := setup(t, calendar.WithPost(bag))
	r := b.create(t, "k", args{"title": "Review", "start": "2026-12-01T14:00", "attendees": []any{"bob@example.com"}, "invite": true})
	if r.Metadata["invited"] != false || !strings.Contains(r.Content, "Nobody was invited: ") || !strings.Contains(r.Content, "calendar.update --id "+r.Metadata["id"].(string)+" --invite") {
		t.Errorf("%+v", r)
	}
	bag.fail = nil
	if r := b.call("calendar.update", "k2", "default", args{"id": r.Metadata["id"], "invite": true}); r.Failed() || len(bag.sent) != 1 {
		t.Errorf("%+v", r)
	}
	for words, given := range map[string]args{
		"'attendees' is missing; name those who are invited": {"title": "x", "start": "2026-12-01", "invite": true},
		"There is no mail server by which invitations":       {"title": "x", "start": "2026-12-01", "invite": true, "attendees": "a@example.com"},
	} {
		b := b
		if strings.HasPrefix(words, "There") {
			b = setup(t)
		}
		if r := b.call("calendar.create", "k3", "default", given); !r.Failed() || !strings.Contains(r.Content, words) {
			t.Errorf("%+v, want %q", r, words)
		}
	}
}

// What became of telling them is said, of an invitation, of the end of an event and of one of its dates; and what
// nobody knows is not said to be so.
func TestInvite_saysWhetherTheyWereTold(t *testing.T) {
	bag := &mailbag{sent: map[string]calendar.Invitation{}}
	folder, account := setup(t, calendar.WithPost(bag)), setup(t, newDAV(t, "Work").account(t), calendar.WithPost(bag))
	for i, b := range []*bench{folder, account, folder, account} {
		lost := i > 1
		bag.lost = lost
		words, key := map[bool]string{false: " They were told.", true: " It is unknown whether they were told."}[lost], fmt.Sprint(lost)
		r := b.create(t, key, args{"title": "Review", "start": "2026-12-01T14:00", "repeat": "daily", "attendees": []any{"bob@example.com"}, "invite": true})
		if r.Metadata["invited"] != !lost || !strings.HasSuffix(r.Content, words) {
			t.Errorf("invited, %+v", r)
		}
		for _, of := range []string{"@20261202T130000Z", ""} {
			r := b.update(key+of, r, args{"id": r.Metadata["id"].(string) + of, "delete": true, "invite": true})
			if r.Failed() || r.Metadata["told"] != !lost || !strings.HasSuffix(r.Content, words) {
				t.Errorf("cancelled, %+v", r)
			}
		}
	}
}

// A server that invites does so, as the user of the account; one date of a series is told of alone.
func TestInvite_leavesItToAServerThatInvites(t *testing.T) {
	bag := &mailbag{sent: map[string]calendar.Invitation{}}
	srv := newDAV(t, "Work")
	srv.put("s.ics", strings.ReplaceAll(standup, "SUMMARY", "ATTENDEE:mailto:bob@example.com\nSUMMARY"))
	b := setup(t, srv.account(t), calendar.WithPost(bag))
	_, ids := b.listed(t, "2026-11-22", "2026-12-20")
	if r := b.call("calendar.update", "k1", "default", args{"id": ids["2026-12-07"], "delete": true, "invite": true}); r.Failed() {
		t.Fatal(r.Content)
	}
	if _, ev := bag.take(t, "k1/CANCEL"); ev.Props.Get(ical.PropDateTimeStamp).Value != "20261120T150000Z" || ev.Props.Get(ical.PropRecurrenceID) == nil || ev.Props.Get(ical.PropRecurrenceRule) != nil {
		t.Errorf("the whole series is cancelled: %v", ev.Props)
	}
	srv.set(func() { srv.schedules = true })
	r := b.create(t, "k2", args{"title": "Review", "start": "2026-12-01T14:00", "attendees": []any{"bob@example.com"}, "invite": true})
	if !strings.HasSuffix(r.Content, "The calendar server tells the attendees.") || len(bag.sent) != 1 {
		t.Errorf("%+v: %v", r, bag.sent)
	}
	srv.put("o.ics", one("o", "DTSTART:20261201T130000Z\nSUMMARY:Theirs\nORGANIZER:mailto:boss@example.com\nATTENDEE:mailto:ann@example.com\n"))
	for _, id := range mapped(b.call("calendar.list", "", "default", args{"from": "2026-12-01", "to": "2026-12-01"}).Content, "Theirs") {
		if r := b.call("calendar.update", "k3", "default", args{"id": id, "title": "Mine", "invite": true}); !r.Failed() || !strings.Contains(r.Content, "boss@example.com invites to this event") {
			t.Errorf("%+v", r)
		}
	}
	srv.set(func() { srv.after = func(r *http.Request) bool { return r.Method == http.MethodOptions } })
	if r := b.call("calendar.create", "k4", "default", args{"title": "x", "start": "2026-12-02", "attendees": "a@example.com", "invite": true}); !r.Failed() {
		t.Errorf("%+v", r)
	}
}

// Nobody is invited twice, whatever the user is called who logs in: the server invites as the
// address that it knows, and is told not to where it knows none and mail goes out.
func TestInvite_isBySomebodyOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		user, want string
		addresses  []string
		mails      int
	}{
		"the server knows the address":   {"ann", "ORGANIZER:mailto:ann@work.example", []string{"/ann/", "MAILTO:ann@work.example", "mailto:a@work.example"}, 0},
		"it knows the login":             {"a@work.example", "ORGANIZER:mailto:a@work.example", []string{"mailto:ann@work.example", "mailto:A@work.example"}, 0},
		"it says none, and the login is": {"ann@example.com", "ORGANIZER:mailto:ann@example.com", []string{"/ann/"}, 0},
		"it says none":                   {"ann", "SCHEDULE-AGENT=CLIENT", []string{"/ann/"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bag := &mailbag{sent: map[string]calendar.Invitation{}}
			srv := newDAV(t, "Work")
			srv.user, srv.schedules, srv.addresses = tt.user, true, tt.addresses
			b := setup(t, srv.account(t), calendar.WithPost(bag))
			b.create(t, "k1", args{"title": "Review", "start": "2026-12-01T14:00", "attendees": []any{"bob@example.com"}, "invite": true})
			if text := unfold(srv.all()[0]); !strings.Contains(text, tt.want) || strings.Contains(text, "CLIENT") != (tt.mails > 0) || len(bag.sent) != tt.mails {
				t.Errorf("mails are %v, the server has\n%s", bag.sent, text)
			}
			for _, i := range bag.sent {
				if strings.Contains(unfold(string(i.Data)), "SCHEDULE-AGENT") {
					t.Errorf("sent is\n%s", i.Data)
				}
			}
		})
	}
}

func unfold(text string) string { return strings.ReplaceAll(text, "\r\n ", "") }

// mapped returns the ids of the lines that have the word.
func mapped(list, word string) (ids []string) {
	for line := range strings.SplitSeq(list, "\n") {
		if m := marks.FindStringSubmatch(line); m != nil && strings.Contains(line, word) {
			ids = append(ids, m[1])
		}
	}
	return ids
}
