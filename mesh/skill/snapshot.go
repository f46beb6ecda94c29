package skill

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
)

// A snapshot is the content of a catalog at one time, by domain and name. It
// is immutable, and shares with the snapshot before it all that did not change:
// changing one skill costs as much as its domain is long, not as the catalog
// is. A nil snapshot is empty.
type snapshot struct{ shelves []*shelf }

// A shelf has the skills of one domain.
type shelf struct {
	domain  string
	index   *Index // nil without a SKILL.md
	entries []entry
}

// An entry is a skill as a catalog has it. The zero entry is none.
type entry struct {
	skill *Skill
	// text is what Search looks through.
	text string
	// from has the skill's files, or is nil.
	from *source
}

func newEntry(s *Skill, from *source) entry {
	return entry{s, strings.ToLower(s.Name + "\n" + s.Description + "\n" + strings.Join(s.Tags, "\n")), from}
}

func (e entry) compare(name string) int    { return strings.Compare(e.skill.Name, name) }
func (s *shelf) compare(domain string) int { return strings.Compare(s.domain, domain) }

func domainOf(name string) string {
	domain, _, _ := strings.Cut(name, ".")
	return domain
}

func (s *snapshot) all() []*shelf {
	if s == nil {
		return nil
	}
	return s.shelves
}

// shelf returns the domain, or nil.
func (s *snapshot) shelf(domain string) *shelf {
	if at, found := slices.BinarySearchFunc(s.all(), domain, (*shelf).compare); found {
		return s.shelves[at]
	}
	return nil
}

func (s *snapshot) get(name string) (entry, bool) {
	if shelf := s.shelf(domainOf(name)); shelf != nil {
		return shelf.get(name)
	}
	return entry{}, false
}

func (s *shelf) get(name string) (entry, bool) {
	at, found := slices.BinarySearchFunc(s.entries, name, entry.compare)
	if !found {
		return entry{}, false
	}
	return s.entries[at], true
}

// entries yields all of them, by name.
func (s *snapshot) entries() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for _, shelf := range s.all() {
			for _, e := range shelf.entries {
				if !yield(e) {
					return
				}
			}
		}
	}
}

func (s *snapshot) size() int {
	n := 0
	for _, shelf := range s.all() {
		n += len(shelf.entries)
	}
	return n
}

// edits are changes to a snapshot: by skill name, with the zero entry for
// removal, and by domain, with nil for removal.
type edits struct {
	entries map[string]entry
	indexes map[string]*Index
}

// with returns the snapshot after the edits.
func (s *snapshot) with(e edits) *snapshot {
	names := make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(e.entries)) {
		domain := domainOf(name)
		names[domain] = append(names[domain], name)
	}
	for domain := range e.indexes {
		if _, ok := names[domain]; !ok {
			names[domain] = nil
		}
	}
	return &snapshot{splice(s.all(), slices.Sorted(maps.Keys(names)), (*shelf).compare, func(domain string, old *shelf) (*shelf, bool) {
		next := &shelf{domain: domain}
		if old != nil {
			*next = *old
		}
		if index, edited := e.indexes[domain]; edited {
			next.index = index
		}
		next.entries = splice(next.entries, names[domain], entry.compare, func(name string, _ entry) (entry, bool) {
			return e.entries[name], e.entries[name].skill != nil
		})
		return next, next.index != nil || len(next.entries) > 0
	})}
}

// over returns the snapshot that has what s has, and else what under has.
func (s *snapshot) over(under *snapshot) *snapshot {
	domains := make([]string, len(s.all()))
	for i, shelf := range s.all() {
		domains[i] = shelf.domain
	}
	return &snapshot{splice(under.all(), domains, (*shelf).compare, func(domain string, old *shelf) (*shelf, bool) {
		mine := s.shelf(domain)
		if old == nil {
			return mine, true
		}
		names := make([]string, len(mine.entries))
		for i, e := range mine.entries {
			names[i] = e.skill.Name
		}
		return &shelf{domain, cmp.Or(mine.index, old.index), splice(old.entries, names, entry.compare,
			func(name string, _ entry) (entry, bool) { return mine.get(name) })}, true
	})}
}

// splice returns a copy of a sorted list in which, for each of the sorted keys,
// put has said what is there: given what was there before or zero, it returns
// the new element, or false for none.
func splice[T any](list []T, keys []string, compare func(T, string) int, put func(string, T) (T, bool)) []T {
	out := make([]T, 0, len(list)+len(keys))
	for _, key := range keys {
		at, found := slices.BinarySearchFunc(list, key, compare)
		out = append(out, list[:at]...)
		var old T
		if found {
			old = list[at]
			at++
		}
		if next, ok := put(key, old); ok {
			out = append(out, next)
		}
		list = list[at:]
	}
	return append(out, list...)
}

// since returns what is not any more, and what is new or another, compared to
// an earlier snapshot; both by name.
func (s *snapshot) since(then *snapshot) (gone, put []*Skill) {
	for was, is := range pairs(then.all(), s.all(), func(a, b *shelf) int { return a.compare(b.domain) }) {
		if was == is {
			continue
		}
		var before, after []entry
		if was != nil {
			before = was.entries
		}
		if is != nil {
			after = is.entries
		}
		for a, b := range pairs(before, after, func(a, b entry) int { return a.compare(b.skill.Name) }) {
			switch {
			case b.skill == nil:
				gone = append(gone, a.skill)
			case a.skill != b.skill:
				put = append(put, b.skill)
			}
		}
	}
	return gone, put
}

// pairs walks two sorted lists at once and yields equal elements together, all
// others with the zero value for the list that lacks them.
func pairs[T any](a, b []T, compare func(T, T) int) iter.Seq2[T, T] {
	return func(yield func(T, T) bool) {
		var none T
		for len(a) > 0 || len(b) > 0 {
			var order int
			switch {
			case len(a) == 0:
				order = 1
			case len(b) == 0:
				order = -1
			default:
				order = compare(a[0], b[0])
			}
			x, y := none, none
			if order <= 0 {
				x, a = a[0], a[1:]
			}
			if order >= 0 {
				y, b = b[0], b[1:]
			}
			if !yield(x, y) {
				return
			}
		}
	}
}
