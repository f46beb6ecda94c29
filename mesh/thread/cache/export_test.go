package cache

// SaveAfter has threads saved after so many events, also when their state goes from memory.
func (s *States) SaveAfter(events int64) { s.every, s.last = events, events }
