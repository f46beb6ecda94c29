package disk

import (
	"errors"
	"io"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
)

// Health is whether the store can commit.
type Health struct {
	// Fault is why the last commit failed; nil if it did not, or there is room again.
	// What is there is read all the same.
	Fault error
	// Final says that nothing is written any more: what is on disk is known only when
	// the folder is opened again.
	Final bool
	// Damage is the first thing that was found in the folder and is not what was written;
	// nil if nothing was. Threads that need it are closed; the others go on.
	Damage error
	// Changed is closed when the next Health is another.
	Changed <-chan struct{}
}

// Health returns whether the store can commit now.
func (s *Store) Health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.health
	h.Changed = s.changed
	return h
}

// probeTime is how long after a commit that failed, or a look, it is looked whether another
// one would succeed: those who are told of a fault may have stopped to write.
const probeTime = 500 * time.Millisecond

// noteHealth notes how a commit went, or a look whether one would succeed. The outcome is
// the error for whoever wanted it.
func (s *Store) noteHealth(err error) error {
	const op = "disk.commit"
	if err != nil {
		final := errors.Is(err, segment.ErrStopped)
		if final {
			err = mesh.Errorf(mesh.Unavailable, op,
				"The node's data folder failed; its operator must restart it and, if that fails, restore a copy: %w", err)
		} else {
			err = mesh.Errorf(mesh.Unavailable, op, "The node could not write to its disk; try again: %w", err)
		}
		s.setHealth(Health{Fault: err, Final: final})
		return err
	}
	s.setHealth(Health{})
	return nil
}

// lost returns the error of a read, and notes if it is of a file that has become shorter than
// what is known to be in it: another program has cut it off. Nothing is written then any more,
// which would stand behind a hole.
func (s *Store) lost(err error) error {
	if errors.Is(err, io.EOF) || isFault(err) {
		s.setHealth(Health{Final: true, Fault: mesh.Errorf(mesh.Unavailable, "disk.read",
			"The node's data folder failed: a file was cut off while it was in use; its operator must restore a copy: %w", err)})
	}
	return err
}

func (s *Store) setHealth(h Health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.health
	if was.Final {
		return
	}
	h.Damage = was.Damage
	s.health = h
	if (was.Fault == nil) != (h.Fault == nil) || was.Final != h.Final {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	if h.Fault != nil && !h.Final && !s.probing {
		s.probing = true
		time.AfterFunc(probeTime, s.probe)
	}
}

// noteDamage notes damage; false if it is not the first.
func (s *Store) noteDamage(d error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.health.Damage == nil
	if first {
		s.health.Damage = mesh.Errorf(mesh.DataLoss, "disk.check",
			"The node's data folder is damaged, and conversations are closed that need what is lost; its operator must restore a copy: %w", d)
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return first
}

// probe has the committer look whether it can commit again.
func (s *Store) probe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probing = false
	if !s.closed {
		s.look = true
		s.rouse()
	}
}

// lookAgain looks whether a commit would succeed, if that is wanted and not known.
func (s *Store) lookAgain() {
	s.mu.Lock()
	wanted := s.look && s.health.Fault != nil && !s.health.Final
	s.look = false
	s.mu.Unlock()
	if wanted && s.noteHealth(s.log.Try()) == nil {
		s.logger.Info("commits would succeed again", "path", s.path)
	}
}
