package calendar_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

type args = map[string]any

// update calls calendar.update for the event that r tells of.
func (b *bench) update(key string, r *skill.Result, changes args) *skill.Result {
	all := args{"id": r.Metadata["id"]}
	for k, v := range changes {
		all[k] = v
	}
	return b.call("calendar.update", key, "default", all)
}

// S3-054: calendar.update changes what is given and leaves the rest.
func TestUpdate_changesWhatIsGiven(t *testing.T) {
	event := args{"title": "Review", "start": "2026-12-01T14:00", "duration": "30m", "location": "Room 1", "attendees": "bob@example.com"}
	day := args{"title": "Offsite", "start": "2026-10-24", "end": "2026-10-25"}
	tests := map[string]struct {
		event, changes args
		want           string
	}{
		"the start, as long as before": {event, args{"start": "2026-12-02T09:00"}, `"Review" on 2026-12-02 (Wed), 09:00 to 09:30 CET was changed`},
		"the end":                      {event, args{"end": "2026-12-01T16:00"}, `"Review" on 2026-12-01 (Tue), 14:00 to 16:00 CET was changed`},
		"the duration":                 {event, args{"duration": "2h"}, `14:00 to 16:00 CET was changed`},
		"start and end":                {event, args{"start": "2026-12-02T09:00", "end": "2026-12-02T09:10"}, `09:00 to 09:10 CET was changed`},
		"a moment into a day":          {event, args{"start": "2026-12-02"}, `2026-12-02 (Wed), all day was changed`},
		"a day into a moment":          {day, args{"start": "2026-12-02T09:00"}, `09:00 to 10:00 CET was changed`},
		"days, as many as before":      {day, args{"start": "2026-11-30"}, `2026-11-30 (Mon) to 2026-12-01 (Tue), all day was changed`},
		"the title":                    {event, args{"title": "Retro\nspective"}, `"Retro spective" on 2026-12-01 (Tue), 14:00 to 14:30 CET was changed`},
		"attendees":                    {event, args{"attendees": []any{"ann@example.com", "bob@example.com"}}, "Attendees: ann@example.com, bob@example.com."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			first := b.create(t, "k", tt.event)
			r := b.update("u", first, tt.changes)
			if r.Failed() || !strings.Contains(r.Content, tt.want) {
				t.Fatalf("result is %+v, want %q", r, tt.want)
			}
			if r.Metadata["version"] == first.Metadata["version"] || r.Metadata["id"] != first.Metadata["id"] || r.Metadata["uid"] != first.Metadata["uid"] {
				t.Errorf("from %v to %v", first.Metadata, r.Metadata)
			}
		})
	}
	b := setup(t)
	first := b.create(t, "k", event)
	if r := b.update("u", first, args{"location": "none", "attendees": "NONE", "description": "x"}); strings.Contains(r.Content, "Attendees") || r.Failed() {
		t.Errorf("result is %+v", r)
	}
	listed := b.call("calendar.list", "", "default", nil)
	if got := marks.ReplaceAllString(listed.Content, ""); !strings.HasSuffix(got, "1. 2026-12-01 (Tue), 14:00 to 14:30 CET: Review") {
		t.Errorf("listed is %q", got)
	}
}

// What other programs wrote stays, also what is not understood here.
func TestUpdate_keepsWhatItDoesNotKnow(t *testing.T) {
	b := setup(t)
	dir := filepath.Join(b.dir, "calendar")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "other@program.ics")
	lines := []string{"BEGIN:VCALENDAR", "BEGIN:VEVENT", "UID:abc@example.com", "SEQUENCE:4", "DTSTART;TZID=Europe/Oslo:20261201T090000",
		"DURATION:PT45M", "SUMMARY:Weekly", "RRULE:FREQ=WEEKLY", "X-COLOUR;X-KIND=dark:blue", "ATTENDEE;PARTSTAT=ACCEPTED:mailto:bob@example.com",
		"BEGIN:VALARM", "ACTION:DISPLAY", "DESCRIPTION:x", "TRIGGER:-PT5M", "END:VALARM", "END:VEVENT", "END:VCALENDAR", ""}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\r\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	m := marks.FindStringSubmatch(b.call("calendar.list", "", "default", nil).Content)
	if m == nil {
		t.Fatal("the event is not listed")
	}
	r := b.call("calendar.update", "u", "default", args{"id": m[1], "version": m[2], "title": "Weekly call", "attendees": "bob@example.com, ann@example.com"})
	if r.Failed() {
		t.Fatal(r.Content)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"UID:abc@example.com", "SEQUENCE:5", "SUMMARY:Weekly call", "RRULE:FREQ=WEEKLY", "X-COLOUR;X-KIND=dark:blue",
		"ATTENDEE;PARTSTAT=ACCEPTED:mailto:bob@example.com", "ATTENDEE:mailto:ann@example.com", "BEGIN:VALARM", "DURATION:PT45M", "PRODID:"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the file lacks %q:\n%s", want, data)
		}
	}
	if r := b.call("calendar.update", "u2", "default", args{"id": m[1], "start": "2026-12-02T09:00"}); !r.Failed() || !strings.Contains(r.Content, "is repeated; only the time of day of all its dates can be changed here") {
		t.Errorf("result is %+v", r)
	}
}

// A change that is based on a version that is gone is refused, whoever made
// the newer one; and it says how to go on.
func TestUpdate_refusesAStaleVersion(t *testing.T) {
	b := setup(t)
	first := b.create(t, "k", args{"title": "Review", "start": "2026-12-01T14:00"})
	stale := first.Metadata["version"]
	second := b.update("u1", first, args{"title": "Retro", "version": stale})
	if second.Failed() {
		t.Fatal(second.Content)
	}
	r := b.update("u2", first, args{"title": "Lost", "version": stale})
	if !mesh.IsCode(r.Err, mesh.Conflict) || !strings.Contains(r.Content, `The event "Retro" was changed meanwhile`) || !strings.Contains(r.Content, "calendar.list") {
		t.Errorf("result is %+v", r)
	}
	file := filepath.Join(b.dir, first.Files[0])
	data, _ := os.ReadFile(file)
	if err := os.WriteFile(file, []byte(strings.Replace(string(data), "SUMMARY:Retro", "SUMMARY:By hand", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.update("u3", first, args{"title": "Lost", "version": second.Metadata["version"]}); !mesh.IsCode(r.Err, mesh.Conflict) || !strings.Contains(r.Content, "By hand") {
		t.Errorf("result is %+v", r)
	}
}

// Changes of several callers are all kept, and each is made once.
func TestUpdate_losesNoChangeAndRepeatsNone(t *testing.T) {
	b := setup(t)
	first := b.create(t, "k", args{"title": "Review", "start": "2026-12-01T14:00"})
	changes := map[string]args{"a": {"title": "Retro"}, "b": {"location": "Room 2"}, "c": {"attendees": "bob@example.com"}, "d": {"start": "2026-12-03T10:00"}}
	var wg sync.WaitGroup
	for key, change := range changes {
		for range 2 {
			wg.Go(func() {
				if r := b.update(key, first, change); r.Failed() {
					t.Error(r.Content)
				}
			})
		}
	}
	wg.Wait()
	data, _ := os.ReadFile(filepath.Join(b.dir, first.Files[0]))
	for _, want := range []string{"SUMMARY:Retro", "LOCATION:Room 2", "ATTENDEE:mailto:bob@example.com", "DTSTART:20261203T090000Z", "SEQUENCE:4\r\n"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the file lacks %q:\n%s", want, data)
		}
	}
	b.update("e", first, args{"title": "Last word"})
	if r := b.update("a", first, changes["a"]); r.Failed() || !strings.Contains(r.Content, "Last word") {
		t.Errorf("a repeated call gave %+v", r)
	}
}

func TestUpdate_deletesForGood(t *testing.T) {
	b := setup(t)
	event := args{"title": "Review", "start": "2026-12-01T14:00"}
	first := b.create(t, "k", event)
	r := b.update("d", first, args{"delete": true})
	if r.Failed() || !strings.Contains(r.Content, "was deleted") {
		t.Fatalf("result is %+v", r)
	}
	if again := b.update("d", first, args{"delete": ""}); cmp.Diff(r, again) != "" {
		t.Errorf("repeated, the call gave %+v", again)
	}
	if r := b.call("calendar.list", "", "default", nil); !strings.HasPrefix(r.Content, "No events found") {
		t.Errorf("listed is %q", r.Content)
	}
	if r := b.update("u", first, args{"title": "Back"}); !mesh.IsCode(r.Err, mesh.NotFound) || !strings.Contains(r.Content, "was deleted") {
		t.Errorf("a change gave %+v", r)
	}
	if r := b.call("calendar.create", "k", "default", event); !r.Failed() || !strings.Contains(r.Content, "deleted since") {
		t.Errorf("creating it again under its key gave %+v", r)
	}
}

// S3-158: what is missing or wrong is said so that a model can correct it.
func TestUpdate_refusesWithRemedy(t *testing.T) {
	b := setup(t)
	first := b.create(t, "k", args{"title": "Review", "start": "2026-12-01T14:00"})
	foreign := b.call("calendar.create", "f", "acme", args{"title": "Foreign", "start": "2026-12-01"})
	before, _ := os.ReadFile(filepath.Join(b.dir, first.Files[0]))
	id := first.Metadata["id"]
	for want, a := range map[string]args{
		"Missing required field: 'id'":             {"title": "x"},
		"name what is to change":                   {"id": id},
		"'delete' is given beside changes":         {"id": id, "delete": true, "title": "x"},
		`There is no event "nope"`:                 {"id": "nope", "title": "x"},
		`There is no event "../../etc/passwd"`:     {"id": "../../etc/passwd", "title": "x"},
		"There is no event":                        {"id": foreign.Metadata["id"], "title": "x"},
		`'start' is "tomorrow"; write it as`:       {"id": id, "start": "tomorrow"},
		"'end' must be after start":                {"id": id, "end": "2026-12-01T13:00"},
		"give one of them":                         {"id": id, "end": "2026-12-01T16:00", "duration": "1h"},
		"'title' has no visible text":              {"id": id, "title": "\x01"},
		"'attendees' has \"Bob\", which is not an": {"id": id, "attendees": "Bob"},
	} {
		if r := b.call("calendar.update", "u", "default", a); !r.Failed() || !strings.Contains(r.Content, want) {
			t.Errorf("%+v, want %q", r, want)
		}
	}
	if after, _ := os.ReadFile(filepath.Join(b.dir, first.Files[0])); string(after) != string(before) {
		t.Errorf("the event became\n%s", after)
	}
}
