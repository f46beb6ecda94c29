package disk

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog"
)

// damageAt is the record with that number, which is not what was written.
func (s *Store) damageAt(number int64) *segment.Damage {
	path, offset := s.log.Place(number)
	return &segment.Damage{Path: path, Offset: offset, First: number, Last: number}
}

// dataLoss is the answer for a thread that is closed because of damage at that place.
func dataLoss(place string, cause error) error {
	return mesh.Errorf(mesh.DataLoss, "disk.read",
		"The conversation can be neither read nor continued: the node's data is damaged at %s; its operator must restore a copy: %w", place, cause)
}

// placeOf names a place without the folder.
func placeOf(d *segment.Damage) string {
	return fmt.Sprintf("%s, byte %d, record %d", filepath.Base(d.Path), d.Offset, d.First)
}

// damage closes the threads that have one of the records: nothing of them is read or
// written any more. Health tells that, also if there are none.
func (s *Store) damage(d *segment.Damage) {
	var closed []mesh.ThreadKey
	for _, info := range s.between(mesh.Pos(d.First), mesh.Pos(d.Last)) {
		if s.hasOneOf(info, d) && s.close(info.Key, dataLoss(placeOf(d), d)) {
			closed = append(closed, info.Key)
		}
	}
	s.tell(d, closed)
}

// close closes the thread; false if it was closed before.
func (s *Store) close(key mesh.ThreadKey, why error) bool {
	s.index.Lock()
	defer s.index.Unlock()
	if s.ill[key] != nil {
		return false
	}
	s.ill[key] = why
	return true
}

// tell says what was found, in the log and to those who look at Health.
func (s *Store) tell(d error, closed []mesh.ThreadKey) {
	s.index.RLock()
	n := len(s.ill)
	s.index.RUnlock()
	if s.noteDamage(d) || len(closed) > 0 {
		s.logger.Error("the data folder is damaged; the conversations that need it are closed, and nothing is repaired",
			"path", s.path, "err", d, "closed", closed, "all", n)
	}
}

// between returns the threads that are not closed and may have events at these positions.
func (s *Store) between(first, last mesh.Pos) []threadlog.Info {
	s.index.RLock()
	defer s.index.RUnlock()
	var out []threadlog.Info
	for tenant := range maps.Keys(s.book.Tenants()) {
		for _, info := range s.book.Idle(tenant, first-1, 1<<62) {
			if info.FirstPos <= last && s.ill[info.Key] == nil {
				out = append(out, info)
			}
		}
	}
	return out
}

// hasOneOf reports whether one of the damaged records is an event of the thread, as far as
// the index tells.
func (s *Store) hasOneOf(info threadlog.Info, d *segment.Damage) bool {
	for after := mesh.Seq(0); after < info.Last; {
		places, err := s.places(info.Key, after, 1<<16)
		if err != nil || len(places) == 0 {
			return false // it is closed, or deleted
		}
		i, found := slices.BinarySearch(places, mesh.Pos(d.First))
		if found || i < len(places) && places[i] <= mesh.Pos(d.Last) {
			return true
		}
		after += mesh.Seq(len(places))
	}
	return false
}

// indexLost closes a thread whose index cannot be read. The log has it all.
func (s *Store) indexLost(key mesh.ThreadKey, cause error) error {
	if s.isClosed() {
		return mesh.Errorf(mesh.Unavailable, "disk.index", "The node is shutting down; try again: %w", cause)
	}
	cause = s.threads.fail(cause)
	err := mesh.Errorf(mesh.DataLoss, "disk.index",
		"The conversation can be neither read nor continued: the node's index is damaged (%s); "+
			"its operator must restart it, which makes the index again: %w", filepath.Base(s.threads.path), cause)
	if s.close(key, err) {
		s.tell(fmt.Errorf("%s: %w", s.threads.path, cause), []mesh.ThreadKey{key})
	}
	return err
}

// broken is the error of a read of the thread that failed.
func (s *Store) broken(op string, key mesh.ThreadKey, err error) error {
	var d *segment.Damage
	if !errors.As(err, &d) {
		return s.failed(op, err)
	}
	s.damage(d)
	if s.close(key, dataLoss(placeOf(d), d)) { // it needs what another has
		s.tell(d, []mesh.ThreadKey{key})
	}
	s.index.RLock()
	defer s.index.RUnlock()
	return mesh.Wrap(op, s.ill[key])
}
