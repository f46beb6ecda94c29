package offline

import (
	"slices"
	"strings"
)

// A concept stands for words that mean the same to the planner. Concepts of
// verbs begin with "do:", those of nouns with "a:".
type concept = string

// What skills do.
const (
	doSearch concept = "do:search"
	doCreate concept = "do:create"
	doSend   concept = "do:send"
	doUpdate concept = "do:update"
	doRemove concept = "do:remove"
	doForget concept = "do:forget" // nothing but memories is meant by it
)

// What they are about.
const (
	aMail    concept = "a:mail"
	aMeeting concept = "a:meeting"
	aTask    concept = "a:task"
	aDoc     concept = "a:doc"
	aMemory  concept = "a:memory"
)

// subjects are the words by which catalogs name what a concept stands for.
var subjects = map[concept]string{
	aMail: "mail", aMeeting: "calendar meeting", aTask: "task", aDoc: "documentation", aMemory: "memory",
}

// The synonym table: concept, then its words. A word may have several
// concepts: "schedule" is both to create and a meeting.
var synonyms = map[concept]string{
	doSearch: "find search list show look get fetch check display query retrieve see view read give pull gather collect " +
		"summarize summarise lookup locate count tell explain describe research print report answer open recall",
	doCreate: "create add make set schedule book plan arrange organize organise build write draft record remind invite generate " +
		"put note compose prepare log register setup enter save remember store memorize memorise jot",
	doSend:   "send email e-mail mail forward write message notify tell let share inform deliver reply ping post compose",
	doUpdate: "update change mark edit modify complete finish close set rename move reschedule postpone resolve reopen adjust assign start append replace shift",
	doRemove: "archive delete remove cancel drop discard clear erase trash",
	doForget: "forget unlearn",

	aMail:    "email e-mail mail message inbox recipient",
	aMeeting: "meeting meet event calendar appointment schedule invite invitation call session agenda book booking reschedule postpone sync standup",
	aTask:    "task todo to-do chore reminder remind overdue due",
	aDoc:     "doc docs documentation document guide manual knowledge question how howto configure configuration explain answer faq",
	aMemory:  "memory memories remember recall preference",
}

// Verbs that are as often nouns: "email", "schedule". Whether one begins a
// clause shows in the word after it.
var nounVerbs = set("email e-mail mail message schedule book plan list report update set search check share open show start " +
	"note post invite change move look log query answer record reply count view draft close mark call order text ping call " +
	"give put print drop register research")

// Words that carry no meaning for matching.
var stopWords = set("a an the my our your his her their its this that these those me us you him them it i we they he she and or but then " +
	"to of in on at by for from with about into as is are was were be been am do does did can could would will shall should may might must " +
	"please also just now all any some every each there here what which who whose when where why if so not no yes have has had want need like " +
	"let let's lets i'd i'm up out one ones new more most very really than too after before once first finally next today tomorrow " +
	"tonight yesterday agent agents skill skills using use user used via per")

var (
	determiners  = set("a an the my our your his her their its this that these those all any some every each both another")
	pronouns     = set("it them him her me us you this that these those everyone everybody")
	prepositions = set("to of in on at by for from with about into as within without through regarding concerning re via before after " +
		"until till during between since because so but or nor that which who whose when where if while per under over")
	auxiliaries  = set("is are was were be been am do does did can could would will shall should may might must has have had")
	ends         = set("and or . , ; : ! ? & ) \n")
	questionHead = set("what what's how's who's where's when's which who whose when where why how is are was were do does did has have can could will would should")
	mailWords    = set("mail email e-mail message note letter reply answer")
	reportWords  = set("report reports result results list summary overview digest findings answer details information info outcome output status")
	plainActs    = set("get search list create update find show add set read make send write save remember change give tell look edit") // say nothing about a subject
	smallNumbers = map[string]int{"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
		"eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40,
		"sixty": 60, "ninety": 90}
)

// verbs are the base forms that may begin a clause, and concepts what stems
// mean; both come from the synonym table.
var verbs, concepts = lexicon()

func lexicon() (verbs map[string]bool, concepts map[string][]concept) {
	verbs, concepts = map[string]bool{}, map[string][]concept{}
	for c, words := range synonyms {
		for w := range strings.FieldsSeq(words) {
			if strings.HasPrefix(c, "do:") {
				verbs[w] = true
			}
			s := stem(w)
			concepts[s] = append(concepts[s], c)
		}
	}
	return verbs, concepts
}

// allActs and allThings are the concepts of each stem by their kind.
var allActs, allThings = withPrefix("do:"), withPrefix("a:")

func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	if strings.Contains(words, "\n") {
		m["\n"] = true
	}
	return m
}

// actsOf returns the verb concepts of a stem, and thingsOf the noun concepts.
func actsOf(stem string) []concept   { return allActs[stem] }
func thingsOf(stem string) []concept { return allThings[stem] }

// withPrefix has no room behind its lists: whoever appends gets a copy.
func withPrefix(prefix string) map[string][]concept {
	out := map[string][]concept{}
	for stem, all := range concepts {
		for _, c := range all {
			if strings.HasPrefix(c, prefix) {
				out[stem] = slices.Clip(append(out[stem], c))
			}
		}
	}
	return out
}

// politeness are the openings that say nothing, longest first.
var politeness = newPhrases(
	"i would like you to", "i would also like to", "i want you to", "i need you to", "i'd like you to", "would you be so kind as to", "i also want to", "i also need to",
	"i would like to", "would you mind", "could you please", "can you please", "would you please", "will you please", "please can you", "please could you",
	"i'd like to", "i want to", "i need to", "we need to", "we want to", "you should", "you can", "could you", "can you", "would you",
	"will you", "help me to", "help me", "let us", "let's", "lets", "go ahead and", "make sure to", "make sure you", "try to", "be sure to",
	"i need", "we need", "i want", "i'd like", "please", "kindly", "hey", "hi", "hello", "also", "just", "now", "ok", "okay", "well", "so", "thanks", "quickly",
)
