package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Bounds of a stream: of one event in bytes and in lines, and of text that is
// no event, in bytes.
const (
	maxEvent = 4 << 20
	maxLines = 100
	maxStray = maxErrorBody
)

// An eventReader passes on the data of an event stream (HTML standard,
// "Server-sent events"), each event as one line, and nothing else: the library
// would take a keep-alive comment for part of an error message, and a body that
// is no event stream for one that was cut off. It is lenient where servers are
// sloppy: an event ends where its JSON does, with or without a blank line.
//
// Text that is no event stream is the error response that it contains, or a
// protocolError.
type eventReader struct {
	in    *bufio.Reader
	body  io.Closer
	data  []byte // of the event so far
	lines int    // in data
	stray []byte // what is no event
	begun bool   // whether the first line was read
	cr    bool   // whether a CR was read last
	some  bool   // whether there was any event
	out   []byte // rest of what is being passed on
	err   error
}

func newEventReader(body io.ReadCloser) *eventReader {
	return &eventReader{in: bufio.NewReader(body), body: body}
}

// Read implements [io.Reader].
func (d *eventReader) Read(p []byte) (int, error) {
	for len(d.out) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		line, err := d.line()
		if !d.begun {
			line, d.begun = bytes.TrimPrefix(line, []byte("\ufeff")), true
		}
		if problem := d.take(line, err != nil); problem != nil {
			d.err = problem
		} else if err != nil {
			d.err = d.end(err)
		}
	}
	n := copy(p, d.out)
	d.out = d.out[n:]
	return n, nil
}

// line reads one line, without its end, which is CR, LF or both.
func (d *eventReader) line() ([]byte, error) {
	var line []byte
	for {
		b, err := d.in.ReadByte()
		if err != nil {
			return line, err
		}
		after := d.cr
		d.cr = b == '\r'
		switch {
		case b == '\n' && after: // the line has ended before
		case b == '\n' || b == '\r':
			return line, nil
		case len(line) >= maxEvent:
			return nil, &protocolError{fmt.Errorf("a line of the stream is longer than %d MiB", maxEvent>>20)}
		default:
			line = append(line, b)
		}
	}
}

// take takes in one line. last says that the stream ends with it.
func (d *eventReader) take(line []byte, last bool) error {
	field, value, colon := bytes.Cut(line, []byte(":"))
	switch {
	case len(line) == 0:
		if !last && d.lines > 0 {
			d.emit() // the event has ended, and whoever reads it will say what is wrong with it
		}
		return nil
	case colon && string(field) == "data":
		d.data = append(append(d.data, ' '), bytes.TrimSpace(value)...)
		d.lines++
		if text := bytes.TrimSpace(d.data); string(text) == "[DONE]" || json.Valid(text) {
			d.emit()
		} else if d.lines >= maxLines || len(d.data) > maxEvent {
			return &protocolError{errors.New("an event of the stream does not end")}
		}
		return nil
	case colon && (len(field) == 0 || string(field) == "event" || string(field) == "id" || string(field) == "retry"):
		return nil
	case !d.some:
		d.stray = append(append(d.stray, line...), '\n')
		if len(d.stray) > maxStray {
			return d.foreign()
		}
	}
	return nil
}

// emit passes the event on.
func (d *eventReader) emit() {
	text := bytes.TrimSpace(d.data)
	if len(text) == 0 {
		d.data, d.lines = d.data[:0], 0
		return
	}
	if bytes.HasPrefix(text, []byte(`{"error":`)) {
		// The library would decode it itself, and lose it if it is not as OpenAI
		// writes it; with a space it is an event like others.
		text = append([]byte("{ "), text[1:]...)
	}
	d.out = append(append([]byte("data: "), text...), '\n')
	d.data, d.lines, d.some = d.data[:0], 0, true
}

// end returns the error that the stream ends with.
func (d *eventReader) end(err error) error {
	if errors.Is(err, io.EOF) && !d.some && len(bytes.TrimSpace(d.stray)) > 0 {
		return d.foreign()
	}
	return err
}

// foreign is the error for text that is no event stream.
func (d *eventReader) foreign() error {
	if said := errorIn(d.stray); said != nil {
		return said
	}
	start, _, _ := bytes.Cut(bytes.TrimSpace(d.stray), []byte("\n"))
	return &protocolError{fmt.Errorf("the response is no event stream; it begins with %q", start[:min(len(start), 60)])}
}

// Close implements [io.Closer].
func (d *eventReader) Close() error { return d.body.Close() }
