// Package text is the catalogue of the sentences that the mesh writes for people
// and models: what a task says of itself, what the user is asked, what a model is
// told of its calls and of how to go on. Each entry is a function whose parameters
// are its data. An entry is written here once, and read by people and models only:
// whatever a program acts on travels beside it, as a field, an event or extension
// data.
//
// What is wrong with a request is said by the errors of package mesh, where it is
// found out. Their words come from [Sprintf] too. Prompts, descriptions of tools,
// help and the pages of the command line are documents of their packages.
//
// [Scramble] is for tests: it replaces the words of every entry by random ones and
// leaves its data, so that a program that reads a sentence finds nothing in it.
//
// All functions may be called concurrently.
package text

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// Sprintf is fmt.Sprintf for the words of the mesh: the format is a sentence, and
// what it formats is data. It knows neither "*" nor indexes of arguments.
func Sprintf(format string, data ...any) string {
	if s := scrambled.Load(); s != nil {
		return s.sprintf(format, data)
	}
	return fmt.Sprintf(format, data...)
}

// scrambled is set while sentences are replaced.
var scrambled atomic.Pointer[scrambler]

// Scramble has all sentences of the process be random words from now on, with
// their data, their line breaks and the marks of lists left where they are. It is
// for tests alone. The function that it returns ends it.
func Scramble(seed uint64) (end func()) {
	before := scrambled.Swap(&scrambler{seed: seed, random: newRandom(seed, 0)})
	return func() { scrambled.Store(before) }
}

// stable is Sprintf for what is written anew whenever a log is read: the same words
// each time.
func stable(format string, data ...any) string {
	s := scrambled.Load()
	if s == nil {
		return fmt.Sprintf(format, data...)
	}
	h := fnv.New64a()
	h.Write([]byte(format))
	return (&scrambler{random: newRandom(s.seed, h.Sum64())}).sprintf(format, data)
}

func newRandom(seed, stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, stream)) //nolint:gosec // words of tests are no secrets
}

// Scrambled reports whether sentences are random words at present.
func Scrambled() bool { return scrambled.Load() != nil }

// A scrambler makes sentences of random words.
type scrambler struct {
	seed   uint64
	mu     sync.Mutex
	random *rand.Rand
}

var verb = regexp.MustCompile(`%[-+# 0]*[0-9]*(?:\.[0-9]+)?[a-zA-Z%]`)

// sprintf renders the format with random words between its data.
func (s *scrambler) sprintf(format string, data []any) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	from, arg := 0, 0
	for _, at := range verb.FindAllStringIndex(format, -1) {
		b.WriteString(s.literal(format[from:at[0]]))
		switch v := format[at[0]:at[1]]; {
		case v == "%%":
			b.WriteByte('%')
		case arg < len(data):
			fmt.Fprintf(&b, v, data[arg])
			arg++
		}
		from = at[1]
	}
	b.WriteString(s.literal(format[from:]))
	return b.String()
}

// literal replaces the words of each line of a piece of a format, with what is
// between them and the marks that end sentences.
func (s *scrambler) literal(piece string) string {
	lines := strings.Split(piece, "\n")
	for i, line := range lines {
		first, last := strings.IndexFunc(line, unicode.IsLetter), strings.LastIndexFunc(line, unicode.IsLetter)
		if first < 0 {
			continue
		}
		said := make([]string, 1+s.random.IntN(4))
		for i := range said {
			said[i] = s.word()
		}
		_, size := utf8.DecodeRuneInString(line[last:])
		lines[i] = unmarked.Replace(line[:first]) + strings.Join(said, " ") + unmarked.Replace(line[last+size:])
	}
	return strings.Join(lines, "\n")
}

var unmarked = strings.NewReplacer(".", "", ",", "", ";", "", ":", "", "?", "", "!", "")

// word is one that no language of ours has, and no answer to a question.
func (s *scrambler) word() string {
	const consonants, vowels = "bdgkpvwxz", "aeiou"
	word := []byte{'z'}
	for range 2 + s.random.IntN(3) {
		word = append(word, vowels[s.random.IntN(len(vowels))], consonants[s.random.IntN(len(consonants))])
	}
	return string(word)
}
