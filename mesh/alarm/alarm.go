// Package alarm keeps what a node goes on without: what it should read, or write, and
// cannot, while it works with what it had before.
//
// Parts of a node report to a [Set] how each attempt went, as often as they like. The Set
// tells only what changes: the log once when an attempt fails after one that did not, and
// once when one succeeds again. It may be used concurrently.
package alarm

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"agentmesh/mesh"
)

// A Source is what is read or written: a setting and, where that has several, which one.
// Names of settings are told to strangers, and which one is not.
type Source struct{ Setting, Of string }

// String names the source for operators.
func (s Source) String() string { return strings.TrimSpace(s.Setting + " " + s.Of) }

// An Alarm is a source that cannot be used.
type Alarm struct {
	Source
	// Since is when it was first reported.
	Since time.Time
	// Meanwhile says what the node goes on with, and Detail what is wrong by now, for
	// operators.
	Meanwhile, Detail string
}

// maxDetail bounds a Detail, in bytes: servers elsewhere have a say in some.
const maxDetail = 2 << 10

// The acts that a Set tells of.
const (
	Raised  = "alarm.raised"
	Cleared = "alarm.cleared"
)

// A Set is the alarms of a node. A nil Set keeps and tells nothing. Use [New].
type Set struct {
	logger *slog.Logger
	told   func(act string, s Source)

	mu  sync.Mutex
	all map[Source]Alarm
}

// New returns a set without alarms. The logger is told of each, and told, if it is not
// nil, of each act; it must not report to the set.
func New(logger *slog.Logger, told func(act string, s Source)) *Set {
	return &Set{logger: logger, told: told, all: map[Source]Alarm{}}
}

// Report notes how an attempt to use the source went, and what the node does meanwhile if
// that was not well.
func (s *Set) Report(ctx context.Context, of Source, meanwhile string, err error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, was := s.all[of]
	switch {
	case err != nil:
		detail := mesh.Clip(err.Error(), maxDetail)
		a = Alarm{of, cmp.Or(a.Since, time.Now()), meanwhile, detail}
		if s.all[of] = a; was {
			return
		}
		s.logger.ErrorContext(ctx, "an alarm was raised", "setting", of.Setting, "of", of.Of, "meanwhile", meanwhile, "err", detail)
	case was:
		delete(s.all, of)
		s.logger.InfoContext(ctx, "an alarm is over", "setting", of.Setting, "of", of.Of, "since", a.Since)
	default:
		return
	}
	if s.told != nil {
		act := Cleared
		if err != nil {
			act = Raised
		}
		s.told(act, of)
	}
}

// List returns the alarms, sorted by their sources.
func (s *Set) List() []Alarm {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Alarm, 0, len(s.all))
	for _, a := range s.all {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b Alarm) int {
		return cmp.Or(strings.Compare(a.Setting, b.Setting), strings.Compare(a.Of, b.Of))
	})
	return all
}

// Settings returns the names of the settings of which there are alarms, sorted: what
// anybody may know.
func (s *Set) Settings() []string {
	var names []string
	for _, a := range s.List() {
		names = append(names, a.Setting)
	}
	return slices.Compact(names)
}
