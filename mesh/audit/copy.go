package audit

import "agentmesh/mesh/store/segment"

// Files returns the record as it is now, as a copy of the folder has it, and the seq of its
// last record. Nothing is ever taken out of it, so the files can be read as long as one likes.
func (s *Store) Files() (files []segment.File, last int64) { return s.log.Files() }
