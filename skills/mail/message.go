package mail

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/emersion/go-message"
	_ "github.com/emersion/go-message/charset" // teaches go-message the character sets of old mail
	gomail "github.com/emersion/go-message/mail"

	"agentmesh/mesh"
	"agentmesh/skills/mail/imapbox"
)

// Bounds of what is read and shown of a message, in bytes where not said.
const (
	maxFile       = 4 << 20  // read of a file to find it
	maxWhole      = 40 << 20 // read of a file that is shown, or whose attachment is saved
	maxHeaders    = 256 << 10
	maxText       = 512 << 10 // shown of all texts of a message
	maxLine       = 300       // one shown field
	maxAttachment = 20        // attachments listed
)

// A letter is what is shown of a message. Its fields are bounded, valid UTF-8
// and free of control characters; of the text, line breaks remain.
type letter struct {
	id, folder        string
	date              time.Time
	arrived           time.Time // by which lists are ordered
	from, to, cc      string
	subject           string
	messageID, answer string // Message-ID and In-Reply-To
	text              string
	attachments       []attachment
	problems          []string // why it may be shown incompletely
}

// An attachment is one of a letter.
type attachment struct {
	name, kind string
	size       int64 // bytes of its content
}

func (a attachment) String() string { return fmt.Sprintf("%s (%s, %d bytes)", a.name, a.kind, a.size) }

// parse reads a message of at most so many bytes from whatever the data is. It always returns a letter,
// which says in problems what could not be read.
func parse(r io.Reader, most int64) *letter {
	l, _, _ := pick(r, most, -1)
	return l
}

// pick is parse that also returns the content of an attachment, counted from 0, with an error if it
// is damaged.
func pick(r io.Reader, most int64, which int) (*letter, []byte, error) {
	l := new(letter)
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		l.problem("the file cannot be read to its end")
	}
	if int64(len(data)) > most {
		data = data[:most]
		l.problem("the file is longer than %d MiB; the rest is left out", most>>20)
	}
	e, err := message.ReadWithOptions(bytes.NewReader(data), &message.ReadOptions{MaxHeaderBytes: maxHeaders})
	if e == nil {
		l.problem("it is no message that can be understood; it is shown as it is")
		l.text = visible(string(data), maxText)
		return l, nil, nil
	}
	l.header(gomail.Header{Header: e.Header})
	l.understood(err)
	w := walker{letter: l, which: which}
	texts := w.texts(e, 0)
	l.text = visible(strings.Join(texts, "\n\n"), maxText)
	return l, w.content, w.err
}

func (l *letter) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, p := range l.problems {
		if p == text {
			return
		}
	}
	l.problems = append(l.problems, text)
}

// understood notes what a part is written in that is not known here.
func (l *letter) understood(err error) {
	switch {
	case message.IsUnknownCharset(err):
		l.problem("its character set is not known here")
	case message.IsUnknownEncoding(err):
		l.problem("its encoding is not known here")
	case err != nil && !errors.Is(err, io.EOF):
		l.problem("it is damaged")
	}
}

func (l *letter) header(h gomail.Header) {
	field := func(name string) string {
		text, err := h.Text(name) // the undecoded text where it cannot be decoded
		l.understood(err)
		return shown(text)
	}
	people := func(name string) string {
		list, err := h.AddressList(name)
		if err != nil || len(list) == 0 {
			return field(name)
		}
		names := make([]string, len(list))
		for i, a := range list {
			if names[i] = a.Address; a.Name != "" {
				names[i] = a.Name + " <" + a.Address + ">"
			}
		}
		return shown(strings.Join(names, ", "))
	}
	l.subject, l.messageID, l.answer = field("Subject"), field("Message-Id"), field("In-Reply-To")
	l.from, l.to, l.cc = people("From"), people("To"), people("Cc")
	l.date, _ = h.Date() // the zero time where there is none
}

// A walker goes through the parts of one message.
type walker struct {
	letter  *letter
	parts   int
	which   int    // of the attachments whose content is wanted; -1 for none
	content []byte // of it
	err     error  // why it is not whole
}

// texts returns the texts of the part and of those in it, and notes what else
// there is.
func (w *walker) texts(e *message.Entity, depth int) []string {
	if w.parts++; w.parts > imapbox.MaxParts || depth > imapbox.MaxDepth {
		w.letter.problem("it has more parts than are shown")
		return nil
	}
	kind := kindOf(e.Header)
	if mr := e.MultipartReader(); mr != nil {
		return w.multipart(mr, kind, depth)
	}
	a, ok := labelled(e.Header)
	if ok {
		w.attachment(e, a)
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(e.Body, maxText+1))
	w.letter.understood(err)
	if len(body) > maxText {
		w.letter.problem("its text is longer than %d KiB; the rest is left out", maxText>>10)
	}
	if kind == "text/html" {
		return []string{htmlText(body)}
	}
	return []string{string(body)}
}

// multipart reads parts. Of alternatives it takes the plainest that has text.
func (w *walker) multipart(mr message.MultipartReader, kind string, depth int) []string {
	defer func() { _ = mr.Close() }() // only read
	var all, plain, html []string
	for w.parts <= imapbox.MaxParts {
		part, err := mr.NextPart()
		if part == nil {
			w.letter.understood(err)
			break
		}
		w.letter.understood(err)
		texts := w.texts(part, depth+1)
		all = append(all, texts...)
		if t, _, _ := part.Header.ContentType(); t == "text/html" {
			html = append(html, texts...)
		} else {
			plain = append(plain, texts...)
		}
	}
	switch {
	case kind != "multipart/alternative":
		return all
	case strings.TrimSpace(strings.Join(plain, "")) != "":
		return plain
	}
	return html
}

// labelled is the attachment that the header says a part is, if it is one. Its size is not known.
func labelled(h message.Header) (a attachment, ok bool) {
	kind := kindOf(h)
	disposition, params, _ := h.ContentDisposition()
	return attachment{name: shown(cmp.Or(params["filename"], "without a name")), kind: mesh.Clip(oneLine(kind), maxShown)}, !imapbox.IsText(kind, disposition)
}

// kindOf is the media type of a part.
func kindOf(h message.Header) string {
	kind, _, err := h.ContentType()
	if err != nil {
		return "text/plain"
	}
	return cmp.Or(kind, "text/plain")
}

func (w *walker) attachment(e *message.Entity, a attachment) {
	var content bytes.Buffer
	into := io.Discard
	if len(w.letter.attachments) == w.which {
		into = &content
	}
	size, err := io.Copy(into, e.Body)
	w.letter.understood(err)
	if len(w.letter.attachments) == w.which {
		w.content, w.err = content.Bytes(), err
	}
	if len(w.letter.attachments) == maxAttachment {
		w.letter.problem("it has more attachments than are listed")
	}
	a.size = size
	w.letter.attachments = append(w.letter.attachments, a)
}

// shown is a field as one bounded line.
func shown(s string) string { return mesh.Clip(oneLine(s), maxLine) }
