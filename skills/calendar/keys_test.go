package calendar_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
	"agentmesh/skills/calendar"
)

// An event that another program took out of the folder does not come back by a
// repeated call.
func TestCreate_remembersItsKeyWhenTheFileIsTaken(t *testing.T) {
	b := setup(t)
	event := args{"title": "Review", "start": "2026-12-01T14:00"}
	first := b.create(t, "k", event)
	file := filepath.Join(b.dir, first.Files[0])
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for _, a := range []args{event, {"title": "Other", "start": "2026-12-02"}} {
		if r := b.call("calendar.create", "k", "default", a); !mesh.IsCode(r.Err, mesh.Precondition) || !strings.Contains(r.Content, "was taken away since; create another one") {
			t.Errorf("%+v", r)
		}
	}
	if list, err := filepath.Glob(filepath.Join(b.dir, "calendar", "*.ics")); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}

// A process that dies before the event is shown leaves it to the next call of
// the key; an event from before there was a ledger is known by its file.
func TestCreate_finishesWhatADeathLeft(t *testing.T) {
	b := setup(t)
	event := args{"title": "Review", "start": "2026-12-01T14:00"}
	first := b.create(t, "k", event)
	dir, file := filepath.Split(filepath.Join(b.dir, first.Files[0]))
	if err := os.Rename(filepath.Join(dir, file), filepath.Join(dir, "."+file+".staged")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, b.create(t, "k", args{"title": "Other", "start": "2026-12-02"})); diff != "" {
		t.Error(diff)
	}
	if err := os.RemoveAll(filepath.Join(b.dir, ".calendar-keys")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, b.create(t, "k", args{"title": "Other", "start": "2026-12-02"})); diff != "" {
		t.Error(diff)
	}
}

// A key changes one event, also when it comes with another one's id; and when
// an event cannot tell any more whether it did, it does not.
func TestUpdate_changesOneEventPerKey(t *testing.T) {
	b := setup(t)
	one := b.create(t, "1", args{"title": "One", "start": "2026-12-01T14:00"})
	two := b.create(t, "2", args{"title": "Two", "start": "2026-12-01T14:00"})
	if r := b.update("u", one, args{"title": "Changed"}); r.Failed() {
		t.Fatal(r.Content)
	}
	for _, a := range []args{{"title": "Changed"}, {"delete": true}} {
		if r := b.update("u", two, a); !mesh.IsCode(r.Err, mesh.Precondition) || !strings.Contains(r.Content, "another event was named before") {
			t.Errorf("%+v", r)
		}
	}
	file := filepath.Join(b.dir, one.Files[0])
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(data), "X-AGENTMESH-KEY:")
	if !ok {
		t.Fatalf("no key in %s", data)
	}
	_, after, _ = strings.Cut(after, "\r\n")
	if err := os.WriteFile(file, []byte(before+strings.Repeat("X-AGENTMESH-KEY:another\r\n", 100)+after), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.update("u", one, args{"title": "Again"}); !mesh.IsCode(r.Err, mesh.Precondition) || !strings.Contains(r.Content, "changed too often since to tell") {
		t.Errorf("%+v", r)
	}
	if r := b.update("new", one, args{"title": "New"}); r.Failed() || !strings.Contains(r.Content, `"New"`) {
		t.Errorf("%+v", r)
	}
}

// Whole days keep their dates where clocks skip midnight, and moments that are
// skipped are later, not earlier.
func TestCreate_keepsDaysWhoseMidnightIsSkipped(t *testing.T) {
	loc, err := time.LoadLocation("America/Havana")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	handlers := calendar.Handlers(dir)
	env := &skill.Env{Tenant: "default", Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 0, loc) }}
	for _, tt := range []struct {
		args       args
		start, end string
		when       string
	}{
		{args{"start": "2027-03-14"}, "DTSTART;VALUE=DATE:20270314", "DTEND;VALUE=DATE:20270315", "2027-03-14 (Sun), all day"},
		{args{"start": "2027-03-13"}, "DTSTART;VALUE=DATE:20270313", "DTEND;VALUE=DATE:20270314", "2027-03-13 (Sat), all day"},
		{args{"start": "2027-03-13", "end": "2027-03-14"}, "DTSTART;VALUE=DATE:20270313", "DTEND;VALUE=DATE:20270315", "2027-03-13 (Sat) to 2027-03-14 (Sun), all day"},
		{args{"start": "2027-03-14T00:30"}, "DTSTART:20270314T053000Z", "DTEND:20270314T063000Z", "2027-03-14 (Sun), 01:30 to 02:30 CDT"},
	} {
		tt.args["title"] = "x"
		r, err := skilltest.Do(context.Background(), handlers["calendar.create"], &skill.Call{Skill: "calendar.create", Key: tt.when, Args: tt.args}, env)
		if err != nil || !strings.Contains(r.Content, tt.when) {
			t.Fatalf("%v: %+v, %v", tt.args, r, err)
		}
		data, err := os.ReadFile(filepath.Join(dir, r.Files[0]))
		if err != nil || !strings.Contains(string(data), tt.start+"\r\n") || !strings.Contains(string(data), tt.end+"\r\n") {
			t.Errorf("%v: %v\n%s", tt.args, err, data)
		}
	}
	r, err := skilltest.Do(context.Background(), handlers["calendar.list"], &skill.Call{Skill: "calendar.list", Args: args{"from": "2027-03-14", "to": "2027-03-14"}}, env)
	if err != nil || r.Metadata["count"] != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A file that became a link is not read, whatever it leads to.
func TestUpdate_followsNoLink(t *testing.T) {
	b := setup(t)
	mine := b.create(t, "k", args{"title": "Mine", "start": "2026-12-01T14:00"})
	theirs := b.call("calendar.create", "k", "acme", args{"title": "Theirs", "start": "2026-12-01T14:00"})
	file := filepath.Join(b.dir, mine.Files[0])
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(b.dir, theirs.Files[0]), file); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*skill.Result{
		b.update("u", mine, args{"title": "Taken over"}), b.call("calendar.list", "", "default", nil),
		b.call("calendar.create", "k", "default", args{"title": "Mine", "start": "2026-12-01T14:00"}),
	} {
		if strings.Contains(r.Content, "Theirs") {
			t.Errorf("%+v", r)
		}
	}
	if r := b.update("u2", mine, args{"duration": "400h", "start": "2026-12-01"}); !r.Failed() {
		t.Errorf("%+v", r)
	}
	if r := b.call("calendar.create", "k3", "default", args{"title": "x", "start": "2026-12-01", "duration": "10000h"}); !strings.Contains(r.Content, "'duration' is") {
		t.Errorf("%+v", r)
	}
}
