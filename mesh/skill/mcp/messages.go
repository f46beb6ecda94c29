package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// quietTime is how long nothing is logged of lines that are no messages after
// one was.
const quietTime = time.Minute

// Messages are the standard output of a process without what is no message.
// Each message is one line there; servers also print other lines, as those of a
// logger, and the SDK would end the connection for the first of them.
type messages struct {
	from   io.ReadCloser
	buf    *bufio.Reader
	rest   []byte // of the message that is being read
	err    error  // what comes after rest
	most   int    // how long a message may be, in bytes
	logger *slog.Logger
	now    func() time.Time

	skipped int       // lines that the log does not have yet
	told    time.Time // when it last got one
}

func newMessages(from io.ReadCloser, logger *slog.Logger) *messages {
	return &messages{from: from, buf: bufio.NewReader(from), most: maxMessage, logger: logger, now: time.Now}
}

// Close implements [io.Closer].
func (m *messages) Close() error { return m.from.Close() }

// Read implements [io.Reader].
func (m *messages) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		var text []byte
		text, m.err = m.line()
		switch {
		case len(bytes.TrimSpace(text)) == 0:
		case isMessage(text):
			m.rest = text
		default:
			m.skip(text)
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// line reads one line, also one that has no end before the error. Of a line that
// is too long it keeps the beginning, and errTooLong is the error if that could
// have been a message.
func (m *messages) line() ([]byte, error) {
	var text []byte
	long := false
	for {
		part, err := m.buf.ReadSlice('\n')
		switch {
		case long:
		case len(text)+len(part) > m.most:
			if start := bytes.TrimLeft(text, " \t"); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
				return nil, errTooLong
			}
			text, long = text[:min(len(text), 8*maxSaid)], true
		default:
			text = append(text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}

// isMessage reports whether the SDK takes the line.
func isMessage(text []byte) bool {
	var batch []json.RawMessage
	if json.Unmarshal(text, &batch) != nil {
		batch = []json.RawMessage{text}
	}
	for _, one := range batch {
		if _, err := jsonrpc.DecodeMessage(one); err != nil {
			return false
		}
	}
	return len(batch) > 0
}

// skip logs the line, unless the log has had one just now.
func (m *messages) skip(text []byte) {
	m.skipped++
	now := m.now()
	if !m.told.IsZero() && now.Sub(m.told) < quietTime {
		return
	}
	m.logger.Warn("mcp server printed what is no message of the protocol; skipped. Have it log to its standard error",
		"text", line(string(text), maxSaid), "lines", m.skipped)
	m.skipped, m.told = 0, now
}
