// Package mail has the skills of the domain mail.
//
// The mail of a user, or what the users of a tenant share, is a set of folders of messages, each a file of its own in
// the form of RFC 5322: inbox, which somebody else fills; drafts; outbox, from
// where people or a mail transport take what is to be sent; and, where a mail
// server is configured, sending and sent. Skills see the folders of the call's
// owner only. An owner may have an account on an IMAP server beside them
// ([WithAccount]): its folders are looked at and moved to as well, and drafts and
// what was sent are put there.
//
// # Once per key
//
// The name of a message's file, and its Message-ID, follow from the key of the
// call that wrote it. What was done under a key is noted in a ledger beside the
// folders, for good, whatever becomes of the file: a call with a key that was
// seen before writes and sends nothing, whatever its arguments, and tells of
// what the first one did.
//
// A message for the outbox or the drafts is shown there after it was noted. With
// a mail server, it is noted and written to sending before the server is
// talked to, and goes to sent as soon as the server has accepted it, or away,
// with its note, if it has not. What is noted as sending is therefore a message
// whose delivery was cut short; it is told as unknown and never sent again under
// its key.
//
// What goes to an account is written to the folder here first and taken away when
// the account has it, which its Message-ID tells: a call that was cut off between
// the two does not put it there twice.
//
// # Mail is data
//
// What is shown of a message is bounded and plain: no control or invisible
// characters, no markup, every line of its text marked as quoted.
//
// Handlers may be called concurrently, also from several processes on one
// folder. The package runs no attachments and keeps no addresses.
package mail

import (
	"cmp"
	"net/mail"
	"path"
	"path/filepath"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/outfile"
	"agentmesh/skills/internal/tenantdir"
	"agentmesh/skills/mail/imapbox"
)

// The folders of messages, below the data folder. Below each of them, each owner has a
// folder of its own, but for what the default tenant shares.
const (
	Inbox   = "inbox"   // what came in; nothing here writes to it
	Drafts  = "drafts"  // what nobody is to send yet
	Outbox  = "outbox"  // what somebody else is to send
	Sending = "sending" // what was given to the mail server, with unknown outcome
	Sent    = "sent"    // what the mail server accepted
	Archive = "archive" // what was put aside
	Trash   = "trash"   // what is not wanted any more; nothing here empties it
)

// folders lists them in the order in which they are looked at.
func folders() []string { return []string{Inbox, Sent, Outbox, Drafts, Sending, Archive, Trash} }

const suffix = ".eml"

// An Option changes a default of [Handlers].
type Option func(*post)

// WithTransport sends messages by the transport, from its sender. By default
// they stay in the outbox.
func WithTransport(t *Transport) Option {
	return func(p *post) { p.transport = t }
}

// An Account is where an owner's mail is, beside the folders.
type Account struct {
	// Box is on an IMAP server.
	Box *imapbox.Account
	// Transport sends the owner's mail; nil for that of all.
	Transport *Transport
}

// WithAccount gives the owner an account. By default nobody has one.
func WithAccount(owner mesh.Owner, a Account) Option {
	return func(p *post) { p.accounts[owner] = a }
}

// WithFiles has attachments come from the drives below the folder, and be saved there: each
// user's own, or what the users of a tenant share. By default there are no attachments.
func WithFiles(dir string, shared bool) Option {
	return func(p *post) { p.files, p.filesShared = tenantdir.New(dir), shared }
}

// Handlers returns the handlers of the domain, by what skill files name. They
// write below dir, which they make when they need it.
func Handlers(dir string, opts ...Option) map[string]skill.Handler {
	p := newPost(dir, opts)
	return map[string]skill.Handler{
		"mail.send":   skill.HandlerFunc(p.send),
		"mail.draft":  skill.HandlerFunc(p.draft),
		"mail.search": skill.HandlerFunc(p.search),
		"mail.read":   skill.HandlerFunc(p.read),
		"mail.move":   skill.HandlerFunc(p.move),
		"mail.save":   skill.HandlerFunc(p.save),
	}
}

func newPost(dir string, opts []Option) *post {
	p := &post{dir: dir, accounts: map[mesh.Owner]Account{}}
	for _, opt := range opts {
		opt(p)
	}
	return p
}

type post struct {
	dir         string
	transport   *Transport // nil without a mail server
	accounts    map[mesh.Owner]Account
	files       *tenantdir.Dir // nil without drives
	filesShared bool
}

// carrier is what sends the owner's mail, or nil.
func (p *post) carrier(owner mesh.Owner) *Transport {
	return cmp.Or(p.accounts[owner].Transport, p.transport)
}

// sender is as whom the owner's mail goes out.
func (p *post) sender(owner mesh.Owner) mail.Address {
	if t := p.carrier(owner); t != nil {
		return t.from
	}
	return mail.Address{Name: "agentmesh", Address: "agentmesh@localhost"}
}

// drive is where the call's attachments come from and go to. The caller closes it.
func (p *post) drive(call *skill.Call, env *skill.Env) (*tenantdir.Root, error) {
	if p.files == nil {
		return nil, mesh.Errorf(mesh.Precondition, call.Skill, "There is no drive for attachments here; tell the operator of the mesh")
	}
	owner := mesh.Owner{Tenant: env.Tenant, User: env.User}
	if p.filesShared {
		owner.User = ""
	}
	return p.files.Open(owner)
}

// ledgers is the folder of what is known of keys, below the data folder.
const ledgers = ".mail-keys"

// folder is the owner's folder of that name, on the disk.
func (p *post) folder(name string, owner mesh.Owner) string {
	return filepath.Join(p.dir, filepath.FromSlash(shownPath(name, owner, "")))
}

// shownPath is the path of a message below the data folder, for people.
func shownPath(folder string, owner mesh.Owner, file string) string {
	return path.Join(folder, outfile.Folder(owner), file)
}
