package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/quote"
	"agentmesh/skills/internal/textindex"
)

const (
	maxAttempts = 20 // at what others change as well
	maxKeys     = 8  // calls that a memory remembers
	candidates  = 20 // for a duplicate
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
			"tags": slices.Clone(saved.Tags), "importance": saved.Importance},
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
			now.merge(m)
		}
		now.Rev = max(now.Rev, c.Seq)
		data, err := json.Marshal(now)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		if _, err := v.env.State.Put(ctx, Kind, v.key(c.ID), data, version); err == nil {
			return now, v.follow(ctx, v.env.Now())
		} else if !mesh.IsCode(err, mesh.Conflict) {
			return nil, mesh.Wrap(op, err)
		}
	}
	return nil, mesh.Errorf(mesh.Unavailable, op, "The memory is being changed by others all the time; try again")
}

// duplicate returns the id of the memory that says the same, or "": one of the
// same category that matches the text with a rank above 0.8.
func (v *view) duplicate(ctx context.Context, m *Memory) (string, error) {
	words := textindex.Words(m.Content)
	if len(words) == 0 {
		return "", nil
	}
	hits, err := v.ix.Search(ctx, textindex.Query{Words: words, Labels: [][]string{{"category:" + m.Category}}, Limit: candidates})
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

// merge adds what another memory says that means the same.
func (m *Memory) merge(other *Memory) {
	// Where each has words of its own, the later one counts.
	if !covers(m.Content, other.Content) {
		m.Content = other.Content
	}
	for _, tag := range other.Tags {
		if !slices.Contains(m.Tags, tag) && len(m.Tags) < maxTags {
			m.Tags = append(m.Tags, tag)
		}
	}
	m.Importance = max(m.Importance, other.Importance)
	m.Keys = append(m.Keys, other.Keys...)
	m.Keys = m.Keys[max(len(m.Keys)-maxKeys, 0):]
	m.Updated = other.Created
	if other.ConversationID != "" {
		m.ConversationID = other.ConversationID
	}
}

// likeness is how much two texts say the same, from 0 to 1: the share of their
// words that they have in common. Where each has words that the other lacks,
// these count fully, because "blue" may stand for "green" there; where one only
// adds to the other, they count half. Texts with different numbers, or of which
// one says no, are not alike at all.
func likeness(a, b string) float64 {
	if a == b {
		return 1
	}
	wordsA, wordsB := textindex.Telling(a), textindex.Telling(b)
	common := 0
	for w := range wordsA {
		switch {
		case wordsB[w]:
			common++
		case decisive(w):
			return 0
		}
	}
	for w := range wordsB {
		if !wordsA[w] && decisive(w) {
			return 0
		}
	}
	all := len(wordsA) + len(wordsB) - common
	switch {
	case all == 0:
		return 0
	case common == len(wordsA) || common == len(wordsB):
		return 2 * float64(common) / float64(len(wordsA)+len(wordsB))
	}
	return float64(common) / float64(all)
}

// decisive reports whether a word alone makes another statement.
func decisive(w string) bool {
	return strings.ContainsAny(w, "0123456789") || slices.Contains(strings.Fields("no not never non nor neither without cannot don doesn didn isn aren wasn weren won wouldn"), w)
}

// covers reports whether the text has all words of the other one.
func covers(text, other string) bool {
	words := textindex.Telling(text)
	for w := range textindex.Telling(other) {
		if !words[w] {
			return false
		}
	}
	return true
}

func decoded(h textindex.Hit) (*Memory, error) {
	m := new(Memory)
	return m, mesh.Wrap("memory.decoded", json.Unmarshal(h.Data, m))
}
