// Package memory has the skills of the domain memory: what a user wants to be
// remembered beyond a conversation.
//
// The truth is in the mesh's State (kind "memory"), which has each user's values for
// itself. The index is a projection of it, a file for each user of each
// tenant, so that nobody finds what is another's; see sync.go for how it keeps
// up with other processes. It may be deleted at any time and comes back.
//
// Saving is idempotent by the call's key, as long as the memory remembers it: that
// is for the last 64 calls that saved it. All saves of a user, in whichever
// process, are decided one after the other, so that none of them misses the
// memory of which it is a duplicate. Handlers may be called concurrently.
//
// A memory is data. What others wrote into it is quoted when it is shown, and
// it is nobody's instruction. The package forgets nothing by itself: when each
// memory was last found is kept for whoever will.
package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/quote"
	"agentmesh/skills/internal/textindex"
)

// Kind is the kind of the State's values that are memories.
const Kind = "memory"

// Bounds.
const (
	maxContent = 8 << 10 // bytes
	maxTags    = 20
	maxTag     = 64 // bytes
	maxShown   = 60 // bytes of what was given, in messages
	maxLimit   = 20
	maxPerUser = 10_000 // memories
)

// Categories are what a memory may be.
func Categories() []string {
	return []string{"preference", "fact", "decision", "goal", "relationship", "context", "instruction"}
}

// A Memory is one thing to remember, as it is stored in JSON.
type Memory struct {
	ID         string   `json:"id"`
	Content    string   `json:"content"`
	Category   string   `json:"category"`
	Importance float64  `json:"importance"` // 0 to 1
	Tags       []string `json:"tags,omitempty"`
	// SourceType is where it comes from: "conversation".
	SourceType     string `json:"source_type"`
	UserID         string `json:"user_id"`
	ConversationID string `json:"conversation_id,omitempty"`

	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`
	// Accessed is when a search last found it, or zero.
	Accessed time.Time `json:"accessed_at,omitzero"`
	// Rev is the number, in the user's journal, of the change that made it so.
	Rev int64 `json:"rev"`
	// Keys are of the calls that made it so, the latest last.
	Keys []string `json:"keys,omitempty"`
}

// A Store has the memories of all users. Use [Open].
type Store struct {
	pool   *textindex.Pool
	ranker Ranker
	most   int // memories of a user

	mu sync.Mutex
	// seen has the users whose index was compared with the State.
	seen map[string]bool
	// filling has those whose memories are being given vectors.
	filling map[string]bool

	beside sync.WaitGroup // what nobody waits for but Close
	slots  chan struct{}
	closed context.Context //nolint:containedctx // of what is done beside calls
	close  context.CancelFunc
}

// An Option changes a default of [Open].
type Option func(*Store)

// WithRanker finds memories by r instead of by their words alone.
func WithRanker(r Ranker) Option { return func(s *Store) { s.ranker = r } }

// Open returns a Store whose indexes are in the folder, which is made when it
// is needed and holds nothing else. The caller closes the Store.
func Open(dir string, opts ...Option) *Store { //nolint:contextcheck // what is done beside calls outlives them
	s := &Store{
		pool:   textindex.NewPool(dir, textindex.Column{Name: "content", Weight: 1}, textindex.Column{Name: "tags", Weight: 1}),
		ranker: Words{}, most: maxPerUser, seen: make(map[string]bool), filling: make(map[string]bool), slots: make(chan struct{}, maxTouching),
	}
	s.closed, s.close = context.WithCancel(context.Background())
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Close waits until it is noted what was found and closes the indexes. No call
// may be running.
func (s *Store) Close() error {
	s.close()
	s.beside.Wait()
	return s.pool.Close()
}

// Handlers returns the handlers of the domain, by what skill files name.
func Handlers(s *Store) map[string]skill.Handler {
	return map[string]skill.Handler{"memory.save": skill.HandlerFunc(stateful(s.save)), "memory.search": skill.HandlerFunc(s.Search),
		"memory.settings": skill.HandlerFunc(stateful(s.set))}
}

// Search is the code of memory.search, for those who look before a model does.
func (s *Store) Search(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	return stateful(s.search)(ctx, call, env)
}

// stateful refuses calls that come without a State.
func stateful(h skill.Code) skill.Code {
	return func(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
		if env.State == nil {
			return nil, mesh.Errorf(mesh.Precondition, call.Skill, "Memories need the state service of the mesh; run the agent with --mesh")
		}
		return h(ctx, call, env)
	}
}

// indexOf returns the name of the index of the call's user.
func indexOf(env *skill.Env) string {
	sum := sha256.Sum256([]byte(string(env.Tenant) + "\x00" + env.User))
	return hex.EncodeToString(sum[:16])
}

// parse returns the memory that a call to save describes.
func parse(call *skill.Call, env *skill.Env) (*Memory, error) {
	if err := flags.Require(call, "content"); err != nil {
		return nil, err
	}
	m := &Memory{
		Content: strings.TrimSpace(quote.Visible(flags.Text(call, "content"))), Category: flags.Text(call, "category"), Importance: 0.5,
		SourceType: "conversation", UserID: env.User, ConversationID: env.Thread,
		Created: env.Now().UTC().Truncate(time.Millisecond), Keys: []string{hashed(call.Key)},
	}
	m.Updated = m.Created
	if m.Content == "" || len(m.Content) > maxContent {
		return nil, mesh.InvalidField(call.Skill, "content", "must have from 1 to %d bytes of visible text", maxContent)
	}
	if m.Category == "" {
		m.Category = "context"
	}
	if err := flags.Enum(call, "category", []string{m.Category}, Categories()...); err != nil {
		return nil, err
	}
	var err error
	if m.Importance, err = share(call, "importance", m.Importance); err != nil {
		return nil, err
	}
	m.Tags, err = tags(call)
	return m, err
}

// share reads a number from 0 to 1.
func share(call *skill.Call, name string, def float64) (float64, error) {
	if !flags.Has(call, name) {
		return def, nil
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(flags.Text(call, name)), 64)
	if within := f >= 0 && f <= 1; err != nil || !within { // NaN is not within
		return 0, mesh.InvalidField(call.Skill, name, "must be a number from 0 to 1")
	}
	return f, nil
}

// tags reads the tags in the form in which they are kept: lower case, with
// hyphens between words.
func tags(call *skill.Call) ([]string, error) {
	var out []string
	for _, raw := range flags.List(call, "tags") {
		tag := strings.ToLower(strings.Join(textindex.Fields(raw), "-"))
		if tag == "" || len(tag) > maxTag || !utf8.ValidString(tag) {
			return nil, mesh.InvalidField(call.Skill, "tags", "has %q, which is no tag; write it as project-x, with at most %d bytes", mesh.Clip(raw, maxShown), maxTag)
		}
		if !slices.Contains(out, tag) {
			out = append(out, tag)
		}
	}
	if len(out) > maxTags {
		return nil, mesh.InvalidField(call.Skill, "tags", "has %d elements; at most %d are allowed", len(out), maxTags)
	}
	return out, nil
}

func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}
