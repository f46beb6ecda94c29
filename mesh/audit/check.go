package audit

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/store/segment"
)

// A Finding is something that is not what was written or signed.
type Finding struct {
	// Where is the place, as "audit record 17" or "thread acme/ID event 3".
	Where string
	What  string
}

// A Checked is what an offline look at a folder found.
type Checked struct {
	Records  int64 // the seq of the last one
	Findings []Finding
	// Checkpoints are those in the record.
	Checkpoints []*meshv1.AuditCheckpoint

	sums []Sum // by seq - 1
}

func (c *Checked) find(where, format string, args ...any) {
	c.Findings = append(c.Findings, Finding{where, fmt.Sprintf(format, args...)})
}

// Check looks at all records of the folder, which it does not change. It says what of
// them is not chained as it was written; whoever made the whole chain anew is found by
// [Checked.Against]. The error is for a folder that cannot be read.
func Check(dir string) (*Checked, error) {
	c := new(Checked)
	var before Sum // as the record before has it, so that one fault is found once
	next := int64(1)
	place := func(n int64) string { return fmt.Sprintf("audit record %d", n) }
	until := func(n int64) {
		for ; next < n; next++ {
			c.find(place(next), "is missing")
			c.sums = append(c.sums, Sum{})
		}
	}
	add := func(n int64, r segment.Record) {
		until(n)
		next++
		if copy(before[:], r.Hash) < len(before) {
			before = Sum{}
		}
		c.sums = append(c.sums, before)
	}
	log, err := segment.Open(dir, segment.Options{ReadOnly: true, Broken: func(n int64, r segment.Record) {
		add(n, r)
		c.find(place(n), "is not what was written: its checksum is another")
	}}, func(n int64, r segment.Record) error {
		follows := before
		add(n, r)
		rec, err := decode(n, r)
		switch {
		case err != nil:
			c.find(place(n), "is no record: %v", err)
		case link(follows, r.Data) != before:
			c.find(place(n), "does not follow the one before: its hash is another")
		case rec.GetCheckpoint() != nil:
			c.Checkpoints = append(c.Checkpoints, proto.CloneOf(rec.GetCheckpoint()))
		}
		return nil
	})
	if err != nil && !errors.Is(err, segment.ErrDamaged) {
		return nil, err
	}
	if err == nil {
		until(log.Last() + 1)
		err = log.Close()
	}
	if c.Records = next - 1; err != nil {
		c.find(fmt.Sprintf("audit after record %d", c.Records), "%v", err)
	}
	return c, nil
}

// Against says what of the record, and of the log of threads, is not what the
// checkpoints say, which are signed with one of the keys; without any, each with its own,
// which proves nothing of who made it. head returns how the log's chain was at a position, false if it does not
// reach so far.
func (c *Checked) Against(all []*meshv1.AuditCheckpoint, keys []ed25519.PublicKey, head func(last int64) (Head, bool)) {
	for _, cp := range all {
		where := "checkpoint of " + cp.GetTime().AsTime().UTC().Format(time.RFC3339)
		by := keys
		if len(by) == 0 {
			by = []ed25519.PublicKey{cp.GetKey()}
		}
		if !signed(cp, by) {
			c.find(where, "is not signed with the node's key")
			continue
		}
		if n := cp.GetAuditSeq(); n > c.Records {
			c.find(where, "covers %d audit records, and there are %d: the others are gone", n, c.Records)
		} else if n > 0 && !bytes.Equal(c.sums[n-1][:], cp.GetAuditHash()) {
			c.find(where, "the audit records up to %d are not those that were signed", n)
		}
		if cp.GetLogLast() == 0 {
			continue
		}
		switch is, ok := head(cp.GetLogLast()); {
		case !ok:
			c.find(where, "covers the log of threads up to position %d, and it does not reach so far: what is missing is gone", cp.GetLogLast())
		case is.First != cp.GetLogFirst() || !bytes.Equal(is.Hash[:], cp.GetLogHash()):
			c.find(where, "the log of threads from position %d to %d is not what was signed", cp.GetLogFirst(), cp.GetLogLast())
		}
	}
}

// signed reports whether one of the keys signed the checkpoint.
func signed(cp *meshv1.AuditCheckpoint, keys []ed25519.PublicKey) bool {
	for _, key := range keys {
		if grant.VerifyRecord(key, content(cp), cp.GetSignature()) {
			return true
		}
	}
	return false
}
