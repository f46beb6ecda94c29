package calendar_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/skills/calendar"
	"agentmesh/skills/calendar/davcal"
)

// berlin describes the zone of an event to those who do not know it.
const berlin = `BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:STANDARD
DTSTART:19961027T030000
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:19810329T020000
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
END:DAYLIGHT
END:VTIMEZONE
`

// radicale starts Debian's server with a calendar that has the object, and returns an account on
// it, found from the server's address.
func radicale(t *testing.T, object string) *davcal.Account {
	t.Helper()
	program, err := exec.LookPath("radicale")
	if err != nil {
		t.Skip("no radicale (Debian's radicale)")
	}
	dir := t.TempDir()
	address := rpctest.Free(t)
	conf := fmt.Sprintf("[server]\nhosts = %s\n[auth]\ntype = htpasswd\nhtpasswd_filename = %s\nhtpasswd_encryption = plain\n[storage]\nfilesystem_folder = %s\n",
		address, filepath.Join(dir, "users"), filepath.Join(dir, "data"))
	for name, text := range map[string]string{"conf": conf, "users": "ann:s3cret-pw\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), program, "--config", filepath.Join(dir, "conf"))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	makeCalendar := func() error {
		req, err := http.NewRequestWithContext(t.Context(), "MKCALENDAR", "http://"+address+"/ann/office/", nil)
		if err != nil {
			return err
		}
		req.SetBasicAuth("ann", "s3cret-pw")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer http.DefaultClient.CloseIdleConnections()
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusCreated {
			return fmt.Errorf("MKCALENDAR: %s", resp.Status)
		}
		return nil
	}
	for range 200 { // until it listens
		if err = makeCalendar(); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Fatalf("radicale does not serve: %v", err)
	}
	a, err := davcal.New(davcal.Settings{URL: "http://" + address + "/", User: "ann", Password: "s3cret-pw"})
	if err == nil {
		err = a.Put(t.Context(), "s.ics", []byte(object), "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The skills work with a server of others as with ours of the tests: it is found, conditions hold,
// series and their exceptions are kept.
func TestInteropAccountsOnRadicale(t *testing.T) {
	a := radicale(t, "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//EN\r\n"+strings.ReplaceAll(berlin+standup, "\n", "\r\n")+"END:VCALENDAR\r\n")
	b := setup(t, calendar.WithAccount(mesh.Owner{Tenant: "default"}, a))
	expect := func(want ...string) map[string]string {
		t.Helper()
		lines, ids := b.listed(t, "2026-11-29", "2026-12-10")
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Error(diff)
		}
		return ids
	}
	versions := marks.FindStringSubmatch(b.call("calendar.list", "", "default", args{"from": "2026-11-30", "to": "2026-12-01"}).Content)
	if r := b.call("calendar.update", "u0", "default", args{"id": versions[1], "version": versions[2], "location": "Room 1"}); r.Failed() {
		t.Errorf("of the version that is listed, %+v", r)
	}
	if r := b.call("calendar.update", "u00", "default", args{"id": versions[1], "location": "none"}); r.Failed() {
		t.Error(r.Content)
	}
	ids := expect("2026-11-30 (Mon), 09:00 to 09:15 CET: Stand-up, repeated", "2026-12-03 (Thu), 10:00 to 10:15 CET: Stand-up on Thursday, repeated",
		"2026-12-07 (Mon), 09:00 to 09:15 CET: Stand-up, repeated", "2026-12-09 (Wed), 09:00 to 09:15 CET: Stand-up, repeated")
	review := b.create(t, "k", args{"title": "Übersicht", "start": "2026-12-01T14:00", "attendees": []any{"bob@example.com"}})
	for key, given := range map[string]args{
		"u1": {"id": ids["2026-11-30"], "start": "2026-12-01T11:00"}, "u2": {"id": ids["2026-12-07"], "delete": true},
		"u3": {"id": review.Metadata["id"], "version": review.Metadata["version"], "start": "2026-12-02T14:00"},
	} {
		for range 2 {
			if r := b.call("calendar.update", key, "default", given); r.Failed() {
				t.Fatalf("%s: %s", key, r.Content)
			}
		}
	}
	expect("2026-12-01 (Tue), 11:00 to 11:15 CET: Stand-up, repeated", "2026-12-02 (Wed), 14:00 to 15:00 CET: Übersicht, with bob@example.com",
		"2026-12-03 (Thu), 10:00 to 10:15 CET: Stand-up on Thursday, repeated", "2026-12-09 (Wed), 09:00 to 09:15 CET: Stand-up, repeated")
	if err := a.Put(t.Context(), review.Metadata["uid"].(string)+".ics", []byte("BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n"), `"of-before"`); !mesh.IsCode(err, mesh.Conflict) {
		t.Errorf("writing over an unknown version gave %v", err)
	}
	series, _, _ := strings.Cut(ids["2026-12-09"], "@")
	if r := b.call("calendar.update", "u4", "default", args{"id": series, "delete": true}); r.Failed() {
		t.Error(r.Content)
	}
	oslo, err := time.LoadLocation("Europe/Oslo")
	if err != nil {
		t.Fatal(err)
	}
	b.In(oslo)
	b.create(t, "k2", args{"title": "Yoga", "start": "2026-11-30T18:00", "repeat": "weekly", "until": "2027-06-01"})
	expect("2026-11-30 (Mon), 18:00 to 19:00 CET: Yoga, repeated", "2026-12-02 (Wed), 14:00 to 15:00 CET: Übersicht, with bob@example.com",
		"2026-12-07 (Mon), 18:00 to 19:00 CET: Yoga, repeated")
}
