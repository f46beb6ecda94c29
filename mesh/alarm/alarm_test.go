package alarm_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh/alarm"
	"agentmesh/mesh/internal/logbuffer"
)

// What is wrong is told once when it begins and once when it ends, however often it is
// reported, and is kept as it was reported last, since when it began.
func TestAlarmsAreToldWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, began := new(logbuffer.Buffer), time.Now()
		var acts []string
		s := alarm.New(slog.New(slog.NewTextHandler(log, nil)), func(act string, of alarm.Source) { acts = append(acts, act+" "+of.String()) })
		report := func(setting, of string, err error) {
			s.Report(t.Context(), alarm.Source{Setting: setting, Of: of}, "the old ones count", err)
			time.Sleep(time.Second)
		}
		report("tokens", "", nil)
		for range 3 {
			report("tokens", "", errors.New("half of it"))
		}
		report("oidc", "two", errors.New("gone"))
		report("oidc", "one", errors.New("gone"))
		report("tokens", "", errors.New(strings.Repeat("all of it ", 10_000)))
		if got := s.Settings(); !slices.Equal(got, []string{"oidc", "tokens"}) {
			t.Errorf("anybody is told %q", got)
		}
		all := s.List()
		if len(all) != 3 || all[0].Of != "one" || all[1].Of != "two" {
			t.Fatalf("there are %+v", all)
		}
		a := all[2]
		if !a.Since.Equal(began.Add(time.Second)) || !strings.HasPrefix(a.Detail, "all of it") || len(a.Detail) > 4<<10 || a.Meanwhile != "the old ones count" {
			t.Errorf("the first is now %.200v", a)
		}
		for range 2 {
			report("tokens", "", nil)
			report("oidc", "one", nil)
			report("oidc", "two", nil)
		}
		want := []string{"alarm.raised tokens", "alarm.raised oidc two", "alarm.raised oidc one", "alarm.cleared tokens", "alarm.cleared oidc one", "alarm.cleared oidc two"}
		if !slices.Equal(acts, want) || strings.Count(log.String(), "\n") != len(want) || len(s.List()) != 0 || s.Settings() != nil {
			t.Errorf("told are %q, and\n%s", acts, log)
		}
		var none *alarm.Set
		none.Report(t.Context(), alarm.Source{}, "", errors.New("nobody hears that"))
	})
}
