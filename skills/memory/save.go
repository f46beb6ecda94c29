package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/quote"
	"agentmesh/skills/internal/textindex"
)

const (
	maxAttempts = 20 // at what others change as well
	maxKeys     = 64 // calls that a memory remembers
	candidates  = 50 // for a duplicate
	maxSummary  = 100
)

func (s *Store) save(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	m, err := parse(call, env)
	if err != nil {
		return nil, err
	}
	var saved *Memory
	if err := s.with(ctx, env, func(v *view) error {
		for range maxAttempts {
			if err := v.await(ctx, m.Keys[0]); err != nil {
				return err
			}
			saved, err = v.save(ctx, m, s.most)
			if !mesh.IsCode(err, mesh.Conflict) {
				return err
			}
			if err := v.sync(ctx, false); err != nil {
				return err
			}
		}
		return mesh.Errorf(mesh.Conflict, call.Skill, "Memories are being saved by others all the time; try again")
	}); err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	action, note := "created", ""
	if !saved.Updated.Equal(saved.Created) || len(saved.Keys) > 1 {
		action, note = "updated", " (it was known and is brought up to date)"
	}
	return &skill.Result{
		Content: "Saved: " + mesh.Clip(quote.Line(saved.Content), maxSummary) + note,
		Metadata: map[string]any{"memory_id": saved.ID, "action": action, "category": saved.Category,
			"tags": append([]string{}, saved.Tags...), "importance": saved.Importance},
	}, nil
}

// save decides what the memory is, a new one, of which there are at most so
// many, or one that is known, and stores it. The error is Conflict if the
// journal or the memory changed meanwhile.
func (v *view) save(ctx context.Context, m *Memory, most int) (*Memory, error) {
	const op = "memory.save"
	key := m.Keys[0]
	done, err := v.ix.Search(ctx, textindex.Query{Labels: [][]string{{"key:" + key}}, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(done) > 0 {
		return decoded(done[0])
	}
	for _, c := range v.journal.Changes {
		if c.Key == key { // of a call that died before it stored the memory
			return v.store(ctx, c, m)
		}
	}
	id, err := v.duplicate(ctx, m)
	if err != nil {
		return nil, err
	}
	if id == "" {
		n, err := v.ix.Size(ctx)
		if err != nil {
			return nil, err
		}
		if n >= most {
			return nil, mesh.Errorf(mesh.Exhausted, op, "There are %d memories of this user, and no more are kept; save what belongs to a known one in its words", n)
		}
		// In order of time, and unlike those of other calls.
		id = fmt.Sprintf("m-%012x-%s", m.Created.UnixMilli(), key[:8])
	}
	c, err := v.announce(ctx, id, key)
	if err != nil {
		return nil, err
	}
	return v.store(ctx, c, m)
}

// await gives others the time to store what they announced, so that none of it is
// missed. Who died meanwhile stores nothing, and is not waited for later on.
func (v *view) await(ctx context.Context, key string) error {
	const (
		polls, between = 100, 20 * time.Millisecond
		young          = 5 * time.Second
	)
	for range polls {
		if !slices.ContainsFunc(v.mark.Pending, func(c change) bool { return c.Key != key && v.env.Now().Sub(c.At) < young }) {
			return nil
		}
		select {
		case <-time.After(between):
		case <-ctx.Done():
			return mesh.Wrap("memory.await", ctx.Err())
		}
		if err := v.sync(ctx, false); err != nil {
			return err
		}
	}
	return nil
}

// store does what was announced, unless another has done it.
func (v *view) store(ctx context.Context, c change, m *Memory) (*Memory, error) {
	const op = "memory.store"
	for range maxAttempts {
		now, version, err := v.read(ctx, c.ID)
		switch {
		case mesh.IsCode(err, mesh.NotFound):
			fresh := *m
			now = &fresh
			now.ID = c.ID
		case err != nil:
			return nil, err
		case slices.Contains(now.Keys, c.Key):
			return now, v.follow(ctx, v.env.Now())
		default:
			now.merge(m, now.Rev > c.Seq)
		}
		now.Rev = max(now.Rev, c.Seq)
		data, err := json.Marshal(now)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		if _, err := v.env.State.Put(ctx, Kind, c.ID, data, version); err == nil {
			return now, v.follow(ctx, v.env.Now())
		} else if !mesh.IsCode(err, mesh.Conflict) {
			return nil, mesh.Wrap(op, err)
		}
	}
	return nil, mesh.Errorf(mesh.Unavailable, op, "The memory is being changed by others all the time; try again")
}

// duplicate returns the id of the memory that says the same, or "": one of the
// same category with a rank above 0.8, see [likeness].
func (v *view) duplicate(ctx context.Context, m *Memory) (string, error) {
	words := textindex.Words(m.Content)
	if len(words) == 0 {
		return "", nil
	}
	hits, err := v.ix.Search(ctx, textindex.Query{Words: words, Labels: [][]string{{"category:" + m.Category}}, Plain: true, Limit: candidates})
	if err != nil {
		return "", err
	}
	best, id := 0.8, ""
	for _, h := range hits {
		if rank := likeness(h.Texts[0], m.Content); rank > best {
			best, id = rank, h.ID
		}
	}
	return id, nil
}

// merge adds a later memory that means the same, whose text has all the words of
// this one. If it is late, something else was added since, and that text stays.
func (m *Memory) merge(later *Memory, late bool) {
	if !late {
		m.Content = later.Content
	}
	for _, tag := range later.Tags {
		if !slices.Contains(m.Tags, tag) && len(m.Tags) < maxTags {
			m.Tags = append(m.Tags, tag)
		}
	}
	m.Importance = max(m.Importance, later.Importance)
	m.Keys = append(m.Keys, later.Keys...)
	m.Keys = m.Keys[max(len(m.Keys)-maxKeys, 0):]
	m.Updated = later.Created
	if later.ConversationID != "" {
		m.ConversationID = later.ConversationID
	}
}

// likeness is how much a new text says the same as an old one, from 0 to 1.
//
// Which words turn a statement, nobody can list for all languages; so nothing
// that was said is dropped for looking alike. A text is the same memory only if
// it has every word of the old one, in the same order but for a part of it that
// may have moved to the front, and adds no number and no short word, as those
// that say no are in most languages, but such as "in" and "with". Words that say nothing, as "the", do not
// count, and neither do usual English endings. Then the new text takes the place
// of the old one, and the rank falls with what it adds:
//
//	2 x words of the old / (words of the old + words of the new)
//
// All else is 0: "Ann likes tea" after "Ann likes no tea", or after "Ann likes
// tea and coffee", are memories of their own, as are "cats eat mice" and "mice eat
// cats". The price is that the same in other words is kept twice.
func likeness(old, text string) float64 {
	if old == text {
		return 1
	}
	before, now := telling(old), telling(text)
	var kept []string
	for _, w := range now {
		switch {
		case slices.Contains(before, w):
			kept = append(kept, w)
		case decisive(w):
			return 0
		}
	}
	if len(before) == 0 || !moved(before, kept) {
		return 0
	}
	return 2 * float64(len(before)) / float64(len(before)+len(now))
}

// telling returns the words of a text that say something, each once, without
// usual endings.
func telling(text string) []string {
	var out []string
	for _, w := range textindex.Fields(text) {
		if stem := textindex.Stem(w); !slices.Contains(harmless, w) && !slices.Contains(out, stem) {
			out = append(out, stem)
		}
	}
	return out
}

// harmless are words that turn no statement, whether they are there or not. The
// "s" is what is left of "Ann's".
var harmless = strings.Fields("a an the this that is are was were am be been s")

// decisive reports whether a word that is added may make another statement.
func decisive(w string) bool {
	const short = 5 // letters
	return !slices.Contains(joining, w) && utf8.RuneCountInString(w) <= short || strings.ContainsFunc(w, unicode.IsDigit)
}

// joining are short words with which a text goes on. In place of one another
// they do turn a statement: "to Oslo", "from Oslo".
var joining = strings.Fields("and at by for from in of on to with")

// moved reports whether the words are those of the other list, in its order but
// for the last ones, which may have come to the front.
func moved(from, to []string) bool {
	if len(from) != len(to) {
		return false
	}
	at := slices.Index(from, to[0])
	return at >= 0 && slices.Equal(slices.Concat(from[at:], from[:at]), to)
}

func decoded(h textindex.Hit) (*Memory, error) {
	m := new(Memory)
	return m, mesh.Wrap("memory.decoded", json.Unmarshal(h.Data, m))
}
