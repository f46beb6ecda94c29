package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/grant"
)

// hashPrefix names the hash of a token in a file.
const hashPrefix = "sha256:"

// Hash returns the hash of a token as it is written into a token file. Tokens
// must be long and random: the hash is fast, and protects nothing that can be
// guessed.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// Tokens is the mode in which callers are known by bearer tokens. Use LoadTokens.
type Tokens struct {
	path    string
	grants  *grant.Verifier
	logger  *slog.Logger
	alarms  *alarm.Set
	now     func() time.Time
	entries atomic.Pointer[[]*entry]
	told    func(act string, p mesh.Principal)
	marked  func(map[string]Mark)
	ended   func()
	seen    os.FileInfo // when the file was read last; LoadTokens' and then Run's, as the next
	loaded  bool        // the file was read before
}

// An entry is one token of the file.
type entry struct {
	name        string
	hash        [sha256.Size]byte
	principal   mesh.Principal
	from, until time.Time // zero for no bound
	disabled    bool
	since       time.Time // when it came; zero if it was there from the start

	end context.CancelFunc // of what was begun with the token
}

// refuse returns why the token does not count now, or nil.
func (e *entry) refuse(now time.Time) error {
	switch {
	case e.disabled:
		return Refused("was disabled")
	case now.Before(e.from):
		return Refused("counts from " + e.from.UTC().Format(time.RFC3339))
	case !e.stands(now):
		return Refused("expired at " + e.until.UTC().Format(time.RFC3339))
	}
	return nil
}

// stands reports whether the token counts now.
func (e *entry) stands(now time.Time) bool {
	return !e.disabled && !now.Before(e.from) && (e.until.IsZero() || now.Before(e.until))
}

// credentialPrefix is before a token's name in the Credential of a Principal.
const credentialPrefix = "token:"

// begin has the principal carry what it is proved by, until the entry's end.
func (e *entry) begin() {
	var ended context.Context
	ended, e.end = context.WithCancel(context.Background())
	e.principal.Credential, e.principal.Issued, e.principal.Expires, e.principal.Ended = credentialPrefix+e.name, e.from, e.until, ended
}

// same reports whether an entry of another reading is this one.
func (e *entry) same(o *entry) bool {
	return e.name == o.name && e.hash == o.hash && e.principal.Tenant == o.principal.Tenant && e.principal.User == o.principal.User &&
		slices.Equal(e.principal.Roles, o.principal.Roles) && e.from.Equal(o.from) && e.until.Equal(o.until) && e.disabled == o.disabled
}

// unchanged reports whether it is the same file as before; nil is none.
func unchanged(before, now os.FileInfo) bool {
	return before != nil && now != nil && os.SameFile(before, now) &&
		before.ModTime().Equal(now.ModTime()) && before.Size() == now.Size() && before.Mode() == now.Mode()
}

var (
	_ rpc.Authenticator = (*Tokens)(nil)
	_ Prover            = (*Tokens)(nil)
)

// An Option changes a default of [LoadTokens].
type Option func(*Tokens)

// WithLogger has the logger told that a changed file was read, and the alarms that it
// cannot be. The default tells nobody.
func WithLogger(l *slog.Logger, alarms *alarm.Set) Option {
	return func(t *Tokens) { t.logger, t.alarms = l, alarms }
}

// WithAudit has f told which credentials come and go while the node runs: with the acts
// credential.added, credential.revoked and credential.expired. One that is changed goes
// and comes.
func WithAudit(f func(act string, p mesh.Principal)) Option { return func(t *Tokens) { t.told = f } }

// WithMarks has f told how the tokens are, whenever the file was read and can be used.
func WithMarks(f func(map[string]Mark)) Option { return func(t *Tokens) { t.marked = f } }

// A Mark is what is known of a token beside its name: whose it is, and a digest of all that
// the file says of it, by which one sees that this was changed. It proves nothing.
type Mark struct {
	Tenant mesh.TenantID `json:"tenant"`
	User   string        `json:"user"`
	Digest string        `json:"digest"`
}

// mark digests the entry.
func (e *entry) mark() Mark {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %x %q %q %q %d %d %t", e.name, e.hash, e.principal.Tenant, e.principal.User, e.principal.Roles,
		e.from.Unix(), e.until.Unix(), e.disabled))
	return Mark{e.principal.Tenant, e.principal.User, hex.EncodeToString(sum[:16])}
}

// Marks returns how the tokens are now, by their names.
func (t *Tokens) Marks() map[string]Mark {
	all := map[string]Mark{}
	for _, e := range *t.entries.Load() {
		all[e.name] = e.mark()
	}
	return all
}

// WithEnded has f called when tokens have ended, once for those that end together.
func WithEnded(f func()) Option { return func(t *Tokens) { t.ended = f } }

// WithClock has the time read from now instead of time.Now.
func WithClock(now func() time.Time) Option { return func(t *Tokens) { t.now = now } }

// LoadTokens reads the token file, YAML or JSON: a list of entries as
//
//   - name: alice-laptop            # for people; unique
//     hash: sha256:9f86d0...        # Hash of the token; unique
//     tenant: acme
//     user: alice
//     roles: [user, agent-publisher]
//     not_before: 2027-01-01        # optional, as the next two
//     expires: 2027-06-30T18:00:00Z
//     disabled: false
//
// There are no other fields, but that roles may be called permissions, and be those
// that were before there were roles. Errors are Invalid and name file, line, entry and
// field; a file that cannot be read, or that others than its owner may write, is
// Precondition. Grants are checked with the verifier; without one, calls under a grant
// are refused.
func LoadTokens(path string, grants *grant.Verifier, opts ...Option) (*Tokens, error) {
	t := &Tokens{path: path, grants: grants, logger: slog.New(slog.DiscardHandler), now: time.Now, told: func(string, mesh.Principal) {}, ended: func() {},
		marked: func(map[string]Mark) {}}
	for _, opt := range opts {
		opt(t)
	}
	t.entries.Store(&[]*entry{})
	if err := t.read(); err != nil {
		return nil, err
	}
	return t, nil
}

// read takes over what the file says. When that cannot be, all stays as it is.
func (t *Tokens) read() error {
	const op = "auth.LoadTokens"
	info, err := os.Stat(t.path)
	if t.seen = info; err == nil && info.Mode().Perm()&0o022 != 0 {
		return mesh.Errorf(mesh.Precondition, op, "the token file %s can be written by others than its owner; run chmod go-w %s", t.path, t.path)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(t.path)
	}
	if err != nil {
		return mesh.Errorf(mesh.Precondition, op,
			"the token file %s cannot be read; create it, or start with auth none: %w", t.path, err)
	}
	fresh, err := parseTokens(t.path, data)
	if err != nil {
		return err
	}
	before := *t.entries.Load()
	loaded := t.loaded
	t.loaded = true
	for i, e := range fresh {
		if at := slices.IndexFunc(before, e.same); at >= 0 {
			fresh[i] = before[at]
			continue
		}
		e.begin()
		if loaded {
			e.since = t.now()
			t.told("credential.added", e.principal)
		}
	}
	t.entries.Store(&fresh)
	t.end("credential.revoked", before, func(e *entry) bool { return !slices.Contains(fresh, e) })
	t.marked(t.Marks())
	return nil
}

// lookEvery is how often Run looks at the file and the clock.
const lookEvery = time.Second

// Run reads the file again whenever it has changed, and ends what was begun with tokens
// that are not in it any more, or that have expired, until ctx is done. A file with a
// mistake changes nothing but raises an alarm, and is read again until it has none: who
// may read it can change without a trace.
func (t *Tokens) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for failed := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if info, err := os.Stat(t.path); failed || err != nil || !unchanged(t.seen, info) {
			err := t.read()
			t.alarms.Report(ctx, alarm.Source{Setting: "tokens"}, "the tokens of before go on to count", err)
			if failed = err != nil; !failed {
				t.logger.InfoContext(ctx, "the token file was read again", "tokens", len(*t.entries.Load()))
			}
		}
		t.end("credential.expired", *t.entries.Load(), func(e *entry) bool { return !e.stands(t.now()) && t.now().After(e.from) })
	}
}

// end ends what was begun with those of the entries that are over, once.
func (t *Tokens) end(act string, entries []*entry, over func(*entry) bool) {
	some := false
	for _, e := range entries {
		if e.principal.Ended.Err() == nil && over(e) {
			e.end()
			t.told(act, e.principal)
			some = true
		}
	}
	if some {
		t.ended()
	}
}

// apart is how far nodes may be apart in reading the file.
const apart = 5 * time.Second

// Stands reports whether the credential, as in a Principal, with which somebody called at
// the time counts still. Of those that are no tokens it knows nothing, and says yes.
func (t *Tokens) Stands(credential string, at time.Time) bool {
	name, ok := strings.CutPrefix(credential, credentialPrefix)
	if !ok {
		return true
	}
	for _, e := range *t.entries.Load() {
		if e.name == name { // which may be another token's meanwhile
			return e.stands(t.now()) && !at.Add(apart).Before(e.since)
		}
	}
	return false
}

// Authenticate implements [rpc.Authenticator] as [Bearer] of these tokens alone.
func (t *Tokens) Authenticate(ctx context.Context, c rpc.Credentials) (mesh.Principal, error) {
	return bearers{t.grants, []Prover{t}}.Authenticate(ctx, c)
}

// Prove implements [Prover].
func (t *Tokens) Prove(token string) (mesh.Principal, bool, error) {
	e := t.find(token)
	if e == nil {
		return mesh.Principal{}, false, nil
	}
	return e.principal, true, e.refuse(t.now())
}

// find looks at every entry, however early it finds the token, so that the
// time it takes says nothing.
func (t *Tokens) find(token string) *entry {
	sum := sha256.Sum256([]byte(token))
	entries, found := *t.entries.Load(), -1
	for i := range entries {
		match := subtle.ConstantTimeCompare(sum[:], entries[i].hash[:])
		found = subtle.ConstantTimeSelect(match, i, found)
	}
	if found < 0 {
		return nil
	}
	return entries[found]
}
