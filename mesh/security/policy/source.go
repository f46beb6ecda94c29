package policy

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"agentmesh/mesh/alarm"
)

// A Source has the policies of a folder, as they are now. A nil Source has none.
type Source struct {
	dir    string
	logger *slog.Logger
	alarms *alarm.Set
	set    atomic.Pointer[Set]
	seen   string // what the folder looked like when it was read; Open's, and then Run's
}

// Open reads the folder, as [Load]. The logger and the alarms are told what becomes of
// changes.
func Open(dir string, logger *slog.Logger, alarms *alarm.Set) (*Source, error) {
	s := &Source{dir: dir, logger: logger, alarms: alarms, seen: look(dir)}
	set, err := Load(dir)
	s.set.Store(set)
	return s, err
}

// Set returns the policies of this moment.
func (s *Source) Set() *Set {
	if s == nil {
		return nil
	}
	return s.set.Load()
}

// Judge is that of the policies of this moment.
func (s *Source) Judge(op string, r Request, refusal error) (by string, err error) {
	return s.Set().Judge(op, r, refusal)
}

// lookEvery is how often Run looks at the folder.
const lookEvery = time.Second

// Run reads the folder again when it has changed, and calls changed then, until ctx is
// done. It waits until nothing changes from one look to the next: of a file that is being
// written, what is there already could be whole policies. A folder with a mistake changes
// nothing but raises an alarm, and is read again until it has none: who may read it can
// change without a trace.
func (s *Source) Run(ctx context.Context, changed func()) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for last, failed := s.seen, false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := look(s.dir)
		if quiet := now == last; !quiet || now == s.seen && !failed {
			last = now
			continue
		}
		s.seen = now
		set, err := Load(s.dir)
		s.alarms.Report(ctx, alarm.Source{Setting: "policies"}, "the policies of before go on to count", err)
		if failed = err != nil; failed {
			continue
		}
		s.set.Store(set)
		s.logger.InfoContext(ctx, "policies were read again", "policies", set.Len())
		changed()
	}
}

// look says what the folder looks like: which files there are, and when each was changed.
func look(dir string) string {
	var b strings.Builder
	note := func(name string) {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&b, "%q %v %d %v\n", name, info.Mode(), info.Size(), info.ModTime().UnixNano())
		} else {
			fmt.Fprintf(&b, "%q %v\n", name, err)
		}
	}
	note(dir)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		note(name)
		below, _ := os.ReadDir(name) // nothing of a file
		for _, e := range below {
			note(filepath.Join(name, e.Name()))
		}
	}
	return b.String()
}
