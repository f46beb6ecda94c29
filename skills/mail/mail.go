// Package mail has the skills of the domain mail.
//
// By default a message is not handed to a server: it is written, as a whole
// RFC 5322 message, into the folder outbox, from where people or a mail
// transport take it. A call with a key that was seen before writes nothing and
// has the same result. Handlers may be called concurrently.
//
// It does not read mail and keeps no addresses.
package mail

import (
	"bytes"
	"context"
	"fmt"
	"net/mail"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	gomail "github.com/emersion/go-message/mail"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/outfile"
)

// Outbox is the folder of messages, below the data folder.
const Outbox = "outbox"

// Bounds of a message.
const (
	maxRecipients = 100
	maxSubject    = 500     // bytes
	maxBody       = 1 << 20 // bytes
	maxShown      = 60      // bytes of what was given, in messages
)

// An Option changes a default of [Handlers].
type Option func(*outbox)

// WithFrom sets the sender. The default is "agentmesh <agentmesh@localhost>".
func WithFrom(from mail.Address) Option { return func(o *outbox) { o.from = from } }

// Handlers returns the handlers of the domain, by what skill files name. They
// write below dir, which they make when they need it.
func Handlers(dir string, opts ...Option) map[string]skill.Handler {
	o := &outbox{dir: dir, from: mail.Address{Name: "agentmesh", Address: "agentmesh@localhost"}}
	for _, opt := range opts {
		opt(o)
	}
	return map[string]skill.Handler{"mail.send": skill.HandlerFunc(o.send)}
}

type outbox struct {
	dir  string
	from mail.Address
}

// A draft is a message whose parts were checked.
type draft struct {
	to, cc        []*mail.Address
	subject, body string
}

func (o *outbox) send(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	d, err := check(call)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, mesh.Wrap("mail.send", err)
	}
	id := outfile.Name(env.Tenant, call.Key)
	data, err := o.compose(d, id, env.Now())
	if err != nil {
		return nil, mesh.Errorf(mesh.Unknown, "mail.send", "The message could not be written: %w", err)
	}
	folder := outfile.TenantFolder(env.Tenant)
	if err := outfile.WriteOnce(filepath.Join(o.dir, Outbox, folder), id+".eml", data); err != nil {
		return nil, mesh.Wrap("mail.send", err)
	}
	return o.result(path.Join(Outbox, folder, id+".eml"))
}

// result tells of the message that is in the outbox, which under a repeated
// key is the first one.
func (o *outbox) result(name string) (*skill.Result, error) {
	f, err := os.Open(filepath.Join(o.dir, filepath.FromSlash(name)))
	if err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, "mail.send", "The message in the outbox cannot be read back; check %s: %w", name, err)
	}
	defer func() { _ = f.Close() }() // only read
	r, err := gomail.CreateReader(f)
	if err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, "mail.send", "The message in the outbox is damaged; remove %s: %w", name, err)
	}
	subject, _ := r.Header.Subject()
	messageID, _ := r.Header.MessageID()
	var to []string
	for _, key := range []string{"To", "Cc"} {
		list, _ := r.Header.AddressList(key)
		for _, a := range list {
			to = append(to, a.Address)
		}
	}
	return &skill.Result{
		Content:  fmt.Sprintf("The email %q to %s is in the outbox (%s).", subject, strings.Join(to, ", "), name),
		Files:    []string{name},
		Metadata: map[string]any{"message_id": messageID, "to": to, "subject": subject},
	}, nil
}

func check(call *skill.Call) (*draft, error) {
	to, err := addresses("to", call.Strings("to"))
	if err != nil {
		return nil, err
	}
	cc, err := addresses("cc", call.Strings("cc"))
	if err != nil {
		return nil, err
	}
	d := &draft{to: to, cc: cc, subject: strings.TrimSpace(call.String("subject")), body: call.String("body")}
	switch {
	case len(to) == 0:
		return nil, mesh.InvalidField("mail.send", "to", "needs at least one address, as bob@example.com")
	case len(to)+len(cc) > maxRecipients:
		return nil, mesh.InvalidField("mail.send", "to", "has, with cc, %d addresses; at most %d are allowed", len(to)+len(cc), maxRecipients)
	case strings.ContainsFunc(d.subject, unicode.IsControl):
		return nil, mesh.InvalidField("mail.send", "subject", "must be one line without control characters; put further lines into the body")
	case len(d.subject) > maxSubject:
		return nil, mesh.InvalidField("mail.send", "subject", "is %d bytes long; at most %d are allowed", len(d.subject), maxSubject)
	case len(d.body) > maxBody:
		return nil, mesh.InvalidField("mail.send", "body", "is %d bytes long; at most %d are allowed", len(d.body), maxBody)
	}
	d.subject = strings.ToValidUTF8(d.subject, "\ufffd")
	d.body = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(d.body, "\ufffd"))
	return d, nil
}

// addresses reads each element as one or more addresses between commas, with or
// without names.
func addresses(field string, list []string) ([]*mail.Address, error) {
	var out []*mail.Address
	seen := make(map[string]bool)
	for _, text := range list {
		some, err := mail.ParseAddressList(text)
		odd := func(a *mail.Address) bool { return !plain(a) }
		if err != nil || slices.ContainsFunc(some, odd) {
			return nil, mesh.InvalidField("mail.send", field, "has %q, which is not an email address; write it as bob@example.com or Bob <bob@example.com>", mesh.Clip(text, maxShown))
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

func (o *outbox) compose(d *draft, id string, now time.Time) ([]byte, error) {
	var h gomail.Header
	h.SetAddressList("From", []*mail.Address{&o.from})
	h.SetAddressList("To", d.to)
	h.SetAddressList("Cc", d.cc)
	h.SetSubject(d.subject)
	h.SetDate(now)
	h.SetMessageID(id + "@" + domainOf(o.from.Address))
	h.Set("Mime-Version", "1.0")
	h.SetContentType("text/plain", map[string]string{"charset": "utf-8"})
	var b bytes.Buffer
	w, err := gomail.CreateSingleInlineWriter(&b, h)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write([]byte(d.body)); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func domainOf(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }
