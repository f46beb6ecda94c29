package memory

// WithMost keeps so many memories of a user instead of 10,000.
func WithMost(n int) Option { return func(s *Store) { s.most = n } }
