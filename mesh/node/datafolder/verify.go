package datafolder

import (
	"crypto/ed25519"
	"path/filepath"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/store/disk"
)

// Verified is what an offline look at a folder found.
type Verified struct {
	Records     int64 // of administrative acts and refusals
	Events      int   // of threads
	Checkpoints int   // that were compared
	Covered     int64 // the position of the log up to which the last one goes
	// Key is the key of the first checkpoint, kept ones first; nil without any.
	Key      ed25519.PublicKey
	Findings []audit.Finding
}

// Verify looks at a folder that no node uses, or a copy of one, and changes nothing: at
// the chains of hashes of threads and of the record, and whether they are what the
// checkpoints say, those in the folder and those that were kept elsewhere. They must be
// signed with one of the keys; with none, with that of the first checkpoint.
func Verify(dir string, keys []ed25519.PublicKey, kept []*meshv1.AuditCheckpoint) (*Verified, error) {
	acts, err := audit.Check(filepath.Join(dir, record))
	if err != nil {
		return nil, err
	}
	log, err := disk.Verify(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	all := append(append([]*meshv1.AuditCheckpoint(nil), kept...), acts.Checkpoints...)
	acts.Against(all, keys, func(last int64) (audit.Head, bool) {
		first, sum, ok := log.Head(last)
		return audit.Head{First: first, Last: last, Hash: sum}, ok
	})
	v := &Verified{Records: acts.Records, Events: log.Events, Checkpoints: len(all)}
	for _, c := range all {
		if v.Covered = max(v.Covered, c.GetLogLast()); v.Key == nil {
			v.Key = c.GetKey()
		}
	}
	for _, f := range log.Findings {
		v.Findings = append(v.Findings, audit.Finding(f))
	}
	v.Findings = append(v.Findings, acts.Findings...)
	return v, nil
}
