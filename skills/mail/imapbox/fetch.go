package imapbox

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"

	"agentmesh/mesh"
)

// Bounds of what is fetched of one message, in bytes where not said.
const (
	maxWhole = 256 << 10 // a message of at most so much is fetched as it is
	// maxUnparted is of one whose parts the server does not tell well enough.
	maxUnparted = 4 << 20
	maxHeader   = 256 << 10
	maxText     = 512 << 10 // of each text
	// MaxParts is how many parts of a message are looked at, and MaxDepth how many within each other.
	MaxParts = 100
	MaxDepth = 8
	// MaxAttachment is what an attachment may have, as it is sent: about 25 MiB of content.
	MaxAttachment = 35 << 20
)

// A Message is one as it is read.
type Message struct {
	Folder  string
	Arrived time.Time
	// Raw is the message in the form of RFC 5322. Of a large one, attachments are empty, and
	// texts are cut.
	Raw []byte
	// Sizes are the bytes of the attachments that are empty in Raw, in their order; nil if none
	// is.
	Sizes []int64
	// Cut says that Raw lacks more than that: the end of a text or of the message, or parts.
	Cut bool
}

// IsText reports whether a part is text of the message; all others are attachments.
func IsText(kind, disposition string) bool {
	return !strings.EqualFold(disposition, "attachment") && (kind == "text/plain" || kind == "text/html")
}

// Read returns the message of that id. Errors: NotFound, and those of Search.
func (a *Account) Read(ctx context.Context, id string) (m *Message, err error) {
	err = a.within(ctx, func(s *session) error {
		m, _, err = s.read(id)
		return err
	})
	return m, err
}

// Attachment returns an attachment as it is sent: the part's header with its body. Which one,
// choose says of the message that it is given, counting from 0; it says -1 if it needs none, as
// Raw has it. Errors are those of Read and of choose, Invalid for one that is too large.
func (a *Account) Attachment(ctx context.Context, id string, choose func(*Message) (int, error)) (raw []byte, err error) {
	err = a.within(ctx, func(s *session) error {
		m, parts, err := s.read(id)
		if err != nil {
			return err
		}
		at, err := choose(m)
		if at < 0 || err != nil {
			return err
		}
		parts = slices.DeleteFunc(parts, func(p part) bool { return p.text || p.multi })
		if at >= len(parts) {
			return mesh.Errorf(mesh.NotFound, "imapbox", "The message has no attachment %d", at+1)
		}
		raw, err = s.part(id, parts[at])
		return err
	})
	return raw, err
}

// A part is one of a message, in the order of the message.
type part struct {
	path     []int
	size     int64 // as it is sent
	decoded  int64 // about, of its content
	text     bool
	multi    bool
	boundary string
	within   int // the place of the part that it is in; -1 for the message itself
}

// header is the section that has the part's header.
func (p part) header() *imap.FetchItemBodySection {
	if p.within < 0 {
		return &imap.FetchItemBodySection{Specifier: imap.PartSpecifierHeader, Peek: true, Partial: &imap.SectionPartial{Size: maxHeader}}
	}
	return &imap.FetchItemBodySection{Specifier: imap.PartSpecifierMIME, Part: p.path, Peek: true, Partial: &imap.SectionPartial{Size: maxHeader}}
}

// body is the section that has so much of the part's body.
func (p part) body(most int64) *imap.FetchItemBodySection {
	return &imap.FetchItemBodySection{Part: p.path, Peek: true, Partial: &imap.SectionPartial{Size: most}}
}

// read fetches the message, and what it consists of.
func (s *session) read(id string) (*Message, []part, error) {
	f, uid, err := s.at(id, true)
	if err != nil {
		return nil, nil, err
	}
	b, err := s.one(id, uid, &imap.FetchOptions{UID: true, RFC822Size: true, InternalDate: true, BodyStructure: &imap.FetchItemBodyStructure{Extended: true}})
	if err != nil {
		return nil, nil, err
	}
	m := &Message{Folder: f.Name, Arrived: b.InternalDate}
	parts, more := partsOf(b.BodyStructure)
	if b.RFC822Size <= maxWhole || !parted(parts) {
		whole := &imap.FetchItemBodySection{Peek: true, Partial: &imap.SectionPartial{Size: maxUnparted + 1}}
		got, err := s.one(id, uid, &imap.FetchOptions{UID: true, BodySection: []*imap.FetchItemBodySection{whole}})
		if err != nil {
			return nil, nil, err
		}
		m.Raw, m.Cut = cut(got.FindBodySection(whole), maxUnparted)
		return m, parts, nil
	}
	opts := &imap.FetchOptions{UID: true}
	for _, p := range parts {
		opts.BodySection = append(opts.BodySection, p.header())
		if p.text {
			opts.BodySection = append(opts.BodySection, p.body(maxText+1))
		}
	}
	got, err := s.one(id, uid, opts)
	if err != nil {
		return nil, nil, err
	}
	m.Cut = more
	m.assemble(parts, got.FindBodySection)
	return m, parts, nil
}

// cut is at most so much of the text, and reports whether there is more.
func cut(text []byte, most int) ([]byte, bool) {
	return text[:min(len(text), most)], len(text) > most
}

// part fetches one, with its header.
func (s *session) part(id string, p part) ([]byte, error) {
	if p.size > MaxAttachment {
		return nil, mesh.Errorf(mesh.Invalid, "imapbox", "The attachment has %d bytes as it is sent; at most %d are fetched. Save it with a mail program", p.size, MaxAttachment)
	}
	uid, _, _, _ := parseID(id) // its folder is open
	header, body := p.header(), p.body(MaxAttachment)
	got, err := s.one(id, uid, &imap.FetchOptions{UID: true, BodySection: []*imap.FetchItemBodySection{header, body}})
	if err != nil {
		return nil, err
	}
	return slices.Concat(got.FindBodySection(header), got.FindBodySection(body)), nil
}

// partsOf lists what the message consists of, each before what is in it, as far as it is looked
// at, and reports whether there is more.
func partsOf(b imap.BodyStructure) (parts []part, more bool) {
	if b == nil {
		return nil, false
	}
	places := map[string]int{}
	b.Walk(func(path []int, b imap.BodyStructure) bool {
		if len(parts) == MaxParts || len(path) > MaxDepth {
			more = true
			return false
		}
		p := part{path: slices.Clone(path), within: -1}
		if n := len(path); n > 0 {
			if at, ok := places[fmt.Sprint(path[:n-1])]; ok {
				p.within = at
			}
		}
		places[fmt.Sprint(path)] = len(parts)
		switch b := b.(type) {
		case *imap.BodyStructureMultiPart:
			p.multi = true
			if b.Extended != nil {
				p.boundary = b.Extended.Params["boundary"]
			}
		case *imap.BodyStructureSinglePart:
			disposition := ""
			if d := b.Disposition(); d != nil {
				disposition = d.Value
			}
			p.text, p.size, p.decoded = IsText(b.MediaType(), disposition), int64(b.Size), int64(b.Size)
			if strings.EqualFold(b.Encoding, "base64") { // lines of 76 and their ends
				p.decoded = p.size / 78 * 57
			}
		}
		parts = append(parts, p)
		return true
	})
	return parts, more
}

// parted reports whether a message can be made of the parts.
func parted(parts []part) bool {
	return len(parts) > 0 && !slices.ContainsFunc(parts, func(p part) bool { return p.multi && p.boundary == "" })
}

// assemble makes the message of the parts' headers and the texts, and notes what it leaves out.
func (m *Message) assemble(parts []part, section func(*imap.FetchItemBodySection) []byte) {
	var b bytes.Buffer
	var open []int // the parts that are begun and have others in them
	end := func() {
		fmt.Fprintf(&b, "\r\n--%s--\r\n", parts[open[len(open)-1]].boundary)
		open = open[:len(open)-1]
	}
	m.Sizes = []int64{}
	for i, p := range parts {
		for len(open) > 0 && open[len(open)-1] != p.within {
			end()
		}
		if len(open) > 0 {
			fmt.Fprintf(&b, "\r\n--%s\r\n", parts[p.within].boundary)
		}
		b.Write(section(p.header()))
		switch {
		case p.multi:
			open = append(open, i)
		case p.text:
			text, more := cut(section(p.body(maxText+1)), maxText)
			m.Cut = m.Cut || more
			b.Write(text)
		default:
			m.Sizes = append(m.Sizes, p.decoded)
		}
	}
	for len(open) > 0 {
		end()
	}
	m.Raw = b.Bytes()
}
