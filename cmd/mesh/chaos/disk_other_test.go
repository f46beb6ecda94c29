//go:build unix && !linux

package chaos_test

import "os"

// full has writes fail, as some do on a disk that is full.
func (m *target) full() error { return os.WriteFile(m.faulty(), []byte("write"), 0o600) }

// room ends what full began.
func (m *target) room() error { return os.Remove(m.faulty()) }
