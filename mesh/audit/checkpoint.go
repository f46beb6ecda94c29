package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/security/grant"
)

// ActionCheckpoint is the action of records that have a checkpoint.
const ActionCheckpoint = "audit.checkpoint"

// A Head says how far the chain over a log of threads has come.
type Head struct {
	First, Last int64 // positions; 0 if no record has a hash
	Hash        Sum   // of all from First to Last
}

// Checkpoint signs how far the record and the log have come, and adds that to the
// record. It returns nil if nothing has happened since the last one.
func (s *Store) Checkpoint(by *grant.Signer, head Head, now time.Time) (*meshv1.AuditCheckpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.covered; s.act <= was.GetAuditSeq() && head.Last <= was.GetLogLast() {
		return nil, nil
	}
	c := &meshv1.AuditCheckpoint{Time: timestamppb.New(now), AuditSeq: s.log.Last(), AuditHash: bytes.Clone(s.hash[:]),
		LogFirst: head.First, LogLast: head.Last, LogHash: bytes.Clone(head.Hash[:]), Key: by.Public()[0]}
	c.Signature = by.SignRecord(content(c))
	return c, s.append([]*meshv1.AuditRecord{{Time: c.Time, Action: ActionCheckpoint, Checkpoint: c, Decision: meshv1.AuditRecord_DECISION_DONE}})
}

// content is what the signature of a checkpoint covers.
func content(c *meshv1.AuditCheckpoint) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(c.GetTime().AsTime().UnixNano()))
	b = binary.BigEndian.AppendUint64(b, uint64(c.GetAuditSeq()))
	b = append(b, c.GetAuditHash()...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.GetLogFirst()))
	b = binary.BigEndian.AppendUint64(b, uint64(c.GetLogLast()))
	return append(b, c.GetLogHash()...)
}

// keep adds the checkpoint to the file, as a line of JSON, and returns when it is there.
// For none it tries whether it could.
func keep(path string, c *meshv1.AuditCheckpoint) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if c != nil {
		err = addLine(f, c)
	}
	return errors.Join(err, f.Close())
}

// addLine adds the whole line, or nothing.
func addLine(f *os.File, c *meshv1.AuditCheckpoint) error {
	line, err := protojson.Marshal(c)
	if err != nil {
		return err
	}
	before, err := f.Stat()
	if err != nil {
		return err
	}
	if n, err := f.Write(append(line, '\n')); n > 0 && err != nil {
		return errors.Join(err, f.Truncate(before.Size()))
	} else if err != nil {
		return err
	}
	return f.Sync()
}

// maxLine bounds a line of a file of checkpoints.
const maxLine = 64 << 10

// ReadCheckpoints returns the checkpoints of a file that a node wrote. A last line that
// was cut off, as when power went, is left out; each other one must be whole.
func ReadCheckpoints(r io.Reader) (all []*meshv1.AuditCheckpoint, err error) {
	in := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		c := new(meshv1.AuditCheckpoint)
		if err := cmp.Or(err, protojson.Unmarshal(line, c)); err != nil {
			return nil, fmt.Errorf("line %d is no checkpoint: %w", n, err)
		}
		all = append(all, c)
	}
}
