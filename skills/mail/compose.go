package mail

import (
	"bytes"
	"net/mail"
	"slices"
	"strings"
	"time"
	"unicode"

	gomail "github.com/emersion/go-message/mail"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
)

// Bounds of a message that is written.
const (
	maxRecipients = 100
	maxSubject    = 500     // bytes
	maxBody       = 1 << 20 // bytes
	maxShown      = 60      // bytes of what was given, in messages
)

// A draft is a message whose parts were checked.
type draft struct {
	to, cc        []*mail.Address
	subject, body string
	attached      []string    // paths in the drive
	event         *Invitation // nil for all but invitations
}

// check reads the parts of a message from the call.
func check(call *skill.Call) (*draft, error) {
	to, err := addresses(call, "to")
	if err != nil {
		return nil, err
	}
	cc, err := addresses(call, "cc")
	if err != nil {
		return nil, err
	}
	d := &draft{to: to, cc: cc, subject: strings.TrimSpace(flags.Text(call, "subject")), body: flags.Text(call, "body")}
	switch {
	case len(to)+len(cc) > maxRecipients:
		return nil, mesh.InvalidField(call.Skill, "to", "has, with cc, %d addresses; at most %d are allowed", len(to)+len(cc), maxRecipients)
	case strings.ContainsFunc(d.subject, unicode.IsControl):
		return nil, mesh.InvalidField(call.Skill, "subject", "must be one line without control characters; put further lines into the body")
	case len(d.subject) > maxSubject:
		return nil, mesh.InvalidField(call.Skill, "subject", "is %d bytes long; at most %d are allowed", len(d.subject), maxSubject)
	case len(d.body) > maxBody:
		return nil, mesh.InvalidField(call.Skill, "body", "is %d bytes long; at most %d are allowed", len(d.body), maxBody)
	}
	if d.attached, err = attachedPaths(call); err != nil {
		return nil, err
	}
	d.subject = strings.ToValidUTF8(d.subject, "\ufffd")
	d.body = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(d.body, "\ufffd"))
	return d, nil
}

// addresses reads each element as one or more addresses between commas, with or
// without names.
func addresses(call *skill.Call, field string) ([]*mail.Address, error) {
	var out []*mail.Address
	seen := make(map[string]bool)
	for _, text := range flags.List(call, field) {
		some, err := mail.ParseAddressList(text)
		odd := func(a *mail.Address) bool { return !plain(a) }
		if err != nil || slices.ContainsFunc(some, odd) {
			return nil, mesh.InvalidField(call.Skill, field, "has %q, which is not an email address; write it as bob@example.com or Bob <bob@example.com>", mesh.Clip(text, maxShown))
		}
		for _, a := range some {
			if key := strings.ToLower(a.Address); !seen[key] {
				seen[key] = true
				out = append(out, a)
			}
		}
	}
	return out, nil
}

// plain reports whether the address can be written without quoting tricks:
// visible ASCII, and nothing in the name that could end a header line.
func plain(a *mail.Address) bool {
	local, domain, _ := strings.Cut(a.Address, "@")
	odd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"<>()[],;:\@`, r) }
	return local != "" && domain != "" && !strings.ContainsFunc(local, odd) && !strings.ContainsFunc(domain, odd) &&
		!strings.ContainsFunc(a.Name, unicode.IsControl)
}

// compose writes the message, with the files. Its Message-ID follows from id.
func (d *draft) compose(from mail.Address, id string, now time.Time, files []file) ([]byte, error) {
	var h gomail.Header
	h.SetAddressList("From", []*mail.Address{&from})
	h.SetAddressList("To", d.to)
	h.SetAddressList("Cc", d.cc)
	h.SetSubject(d.subject)
	h.SetDate(now)
	h.SetMessageID(id + "@" + domainOf(from.Address))
	h.Set("Mime-Version", "1.0")
	var b bytes.Buffer
	if d.event != nil {
		err := d.invite(&b, h)
		return b.Bytes(), err
	}
	if len(files) > 0 {
		err := compound(&b, h, d.body, files)
		return b.Bytes(), err
	}
	h.SetContentType("text/plain", map[string]string{"charset": "utf-8"})
	w, err := gomail.CreateSingleInlineWriter(&b, h)
	if err != nil {
		return nil, err
	}
	if err := written(w, []byte(d.body)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func domainOf(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }
