package mcp

import "time"

// SetGrace changes how long servers may take for each step of ending. It is
// called before Run.
func SetGrace(s *Servers, d time.Duration) {
	for _, r := range s.remotes {
		r.dialer.grace = d
	}
}
