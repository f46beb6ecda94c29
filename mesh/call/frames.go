package call

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
)

// values are the JSON values of an answer: the data of server-sent events, or what
// stands in the body itself, one value after the other.
func values(resp *http.Response) iter.Seq2[[]byte, error] {
	kind := kindOf(resp.Header.Get("Content-Type"))
	if kind == eventStream {
		return func(yield func([]byte, error) bool) { events(resp.Body, yield) }
	}
	return func(yield func([]byte, error) bool) {
		dec := json.NewDecoder(&bounded{resp.Body, maxAnswer})
		for {
			var raw json.RawMessage
			err := dec.Decode(&raw)
			if errors.Is(err, io.EOF) {
				return
			}
			if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
				err = notJSON(rest(dec), err)
			}
			if !yield(raw, err) || err != nil {
				return
			}
		}
	}
}

// rest is what a decoder could not read, as far as it is at hand.
func rest(dec *json.Decoder) []byte {
	b, _ := io.ReadAll(io.LimitReader(dec.Buffered(), maxExcerpt))
	return b
}

// events reads server-sent events: data in one line or more, with comments and other
// fields between them, which are passed over.
func events(body io.Reader, yield func([]byte, error) bool) {
	in := bufio.NewReaderSize(body, 16<<10)
	var data []byte
	begun := false // the event has data
	for first := true; ; first = false {
		line, err := lineOf(in, maxAnswer-len(data))
		if first {
			line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		}
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if begun {
				data = append(data, '\n')
			}
			data, begun = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
		}
		if err != nil && !errors.Is(err, io.EOF) {
			yield(nil, err)
			return
		}
		if ended := err != nil; ended || len(line) == 0 {
			switch {
			case len(bytes.TrimSpace(data)) == 0 && !ended:
			case len(bytes.TrimSpace(data)) == 0:
				return
			case ended && !json.Valid(data): // the last event is half of one
				yield(nil, io.ErrUnexpectedEOF)
				return
			case !yield(data, nil) || ended:
				return
			}
			data, begun = data[:0], false
		}
	}
}

// lineOf reads a line of at most so many bytes, without its end.
func lineOf(in *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		if len(line) > most {
			return nil, tooLong(0, maxAnswer)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimRight(line, "\r\n"), err
	}
}

// bounded is a body that fails when it is too long.
type bounded struct {
	io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, tooLong(0, maxAnswer)
	}
	return n, err
}
