package datafolder

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"slices"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/blob"
	"agentmesh/mesh/security/cards"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/security/keyfile"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/threadlog/eventpb"
)

// Verified is what an offline look at a folder found.
type Verified struct {
	Records     int64 // of administrative acts and refusals
	Events      int   // of threads
	Checkpoints int   // that were compared
	// Keys are those of the checkpoints.
	Keys     []ed25519.PublicKey
	Findings []audit.Finding
}

// Verify looks at a folder that no node uses, or a copy of one, and changes nothing: at
// values, at the chains of hashes of threads and of the record, and whether they are what the
// checkpoints say, those in the folder and those that were kept elsewhere. They must be
// signed with one of the keys; without any, with those of the checkpoints that were kept.
func Verify(dir string, keys []ed25519.PublicKey, kept []*meshv1.AuditCheckpoint) (*Verified, error) {
	v, _, err := verify(dir, keys, kept)
	return v, err
}

// verify also returns to which blobs the events of threads refer.
func verify(dir string, keys []ed25519.PublicKey, kept []*meshv1.AuditCheckpoint) (*Verified, map[mesh.ThreadKey]map[string]bool, error) {
	acts, err := audit.Check(filepath.Join(dir, record))
	if err != nil {
		return nil, nil, err
	}
	refs := references{}
	log, err := disk.Verify(filepath.Join(dir, file), refs.see)
	if err != nil {
		return nil, nil, err
	}
	if len(keys) == 0 {
		keys = keysOf(kept)
	}
	all := append(append([]*meshv1.AuditCheckpoint(nil), kept...), acts.Checkpoints...)
	acts.Against(all, keys, func(last int64) (audit.Head, bool) {
		first, sum, ok := log.Head(last)
		return audit.Head{First: first, Last: last, Hash: sum}, ok
	})
	v := &Verified{Records: acts.Records, Events: log.Events, Checkpoints: len(all), Keys: keysOf(all)}
	for _, f := range log.Findings {
		v.Findings = append(v.Findings, audit.Finding(f))
	}
	v.Findings = append(v.Findings, acts.Findings...)
	return v, refs, nil
}

// references are the hashes of the blobs to which the events of threads refer.
type references map[mesh.ThreadKey]map[string]bool

// see adds what an event refers to; nil stands for the end of the thread.
func (r references) see(key mesh.ThreadKey, event []byte) {
	if event == nil {
		delete(r, key)
		return
	}
	if !bytes.Contains(event, []byte(mesh.BlobScheme)) {
		return
	}
	e, err := eventpb.Decode(event)
	if err != nil { // which the hashes say, if it was written so
		return
	}
	for b := range mesh.Blobs(mesh.PartsOf(e.Body)) {
		if r[key] == nil {
			r[key] = map[string]bool{}
		}
		r[key][b.Hash] = true
	}
}

// VerifyAll is [Verify] without checkpoints that were kept elsewhere, and says which large files
// are missing or damaged, and which of the folder's keys a node could not use.
func VerifyAll(dir string) (*Verified, error) {
	v, refs, err := verify(dir, nil, nil)
	if err != nil {
		return nil, err
	}
	found, err := blob.Check(filepath.Join(dir, blobs), refs)
	if err != nil {
		return nil, mesh.Errorf(mesh.Precondition, "datafolder.VerifyAll", "the large files in %s cannot be read; see that you may read them: %w", dir, err)
	}
	for _, f := range found {
		v.Findings = append(v.Findings, audit.Finding(f))
	}
	v.Findings = append(v.Findings, secrets(dir)...)
	return v, nil
}

// secrets says which of the folder's keys cannot be read. One that is not there is made by
// the next start.
func secrets(dir string) (found []audit.Finding) {
	for _, k := range []struct {
		name string
		load func(path string) error
	}{
		{"grant.key", func(path string) error { _, err := grant.LoadOrCreateKey(path); return err }},
		{"card.key", func(path string) error { _, err := cards.LoadOrCreate(path, ""); return err }},
		{"context.key", func(path string) error { _, err := keyfile.LoadOrCreateSecret(path); return err }},
	} {
		path := filepath.Join(dir, k.name)
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if err := k.load(path); err != nil {
			found = append(found, audit.Finding{Where: k.name, What: mesh.DetailOf(err)})
		}
	}
	return found
}

// keysOf returns the keys of the checkpoints.
func keysOf(all []*meshv1.AuditCheckpoint) (keys []ed25519.PublicKey) {
	for _, c := range all {
		if !slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool { return bytes.Equal(k, c.GetKey()) }) {
			keys = append(keys, c.GetKey())
		}
	}
	return keys
}
