package node

import "time"

// Sessions are those with agents that the conversation is handed over to.
type Sessions struct {
	// Retention is how long what such an agent noted in a conversation is kept after it last
	// noted something, so that its user can come back to it; 30 days by default. 0 keeps
	// nothing of a session that is over.
	Retention *time.Duration `yaml:"retention"`
}

// Bounds of Sessions.Retention, beside 0.
const (
	defaultRetention = 30 * 24 * time.Hour
	minRetention     = time.Minute
	maxRetention     = 10 * 366 * 24 * time.Hour
)

// fill checks the settings and sets what is left out.
func (s *Sessions) fill() error {
	if s.Retention == nil {
		usual := defaultRetention
		s.Retention = &usual
	}
	if d := *s.Retention; d != 0 && (d < minRetention || d > maxRetention) {
		return invalid("sessions.retention", "must be %v to %v, or 0 to keep nothing, and is %v; leave it out for %v", minRetention, maxRetention, d, defaultRetention)
	}
	return nil
}
