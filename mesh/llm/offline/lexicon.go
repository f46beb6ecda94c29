package offline

import "strings"

// An act is what a verb tells to do, and what a skill does.
type act uint8

const (
	actNone act = iota
	actFind
	actCreate
	actSend
	actChange
	actRemove
	actRemember
	actForget
	actDraft
)

// verbs are the base forms that may begin an order.
var verbs = func() map[string]act {
	out := map[string]act{}
	for a, words := range map[act]string{
		actFind:     "find search list show look get fetch check display see view read give open print count lookup locate gather collect summarize summarise recall tell explain describe research query forecast",
		actCreate:   "create add make set schedule book plan arrange organize organise build write record remind invite put note compose save setup jot generate log",
		actSend:     "send email e-mail mail forward notify tell message let inform post alert ping deliver text",
		actChange:   "update change mark edit modify complete finish close set rename move reschedule postpone resolve reopen assign append replace add put start block",
		actRemove:   "archive delete remove cancel drop clear erase trash discard hide",
		actRemember: "remember memorize memorise",
		actForget:   "forget unlearn",
		actDraft:    "draft prepare",
	} {
		for w := range strings.FieldsSeq(words) {
			if out[w] == actNone || a < out[w] {
				out[w] = a
			}
		}
	}
	return out
}()

// also are second meanings of verbs.
var also = map[string][]act{
	"set": {actChange}, "add": {actChange}, "put": {actChange}, "tell": {actSend}, "write": {actSend, actChange}, "remember": {actCreate}, "note": {actRemember}, "save": {actRemember},
	"jot": {actRemember}, "record": {actRemember}, "remind": {actSend}, "prepare": {actCreate}, "compose": {actDraft}, "recall": {actRemember}, "append": {actCreate},
}

func actsOf(verb string) []act {
	if a := verbs[verb]; a != actNone {
		return append([]act{a}, also[verb]...)
	}
	return nil
}

// nounVerbs are as often nouns: whether one begins an order shows in the word
// after it.
var nounVerbs = set("email e-mail mail message schedule book plan report set search check show open start note post change move look log query record view draft close mark text ping alert let drop research forecast list print invite hide block")

// things are words for the same kind of thing.
var things = func() map[string]string {
	out := map[string]string{}
	for kind, words := range map[string]string{
		"mail":    "email e-mail mail message inbox letter",
		"meeting": "meeting event calendar appointment agenda call sync standup lunch dinner breakfast coffee review retrospective retro interview workshop demo session conference kickoff catch-up",
		"task":    "task todo to-do chore reminder",
		"note":    "note vault",
		"file":    "file document folder drive directory",
		"memory":  "memory memories preference",
		"doc":     "doc docs documentation manual guide handbook",
	} {
		for w := range strings.FieldsSeq(words) {
			out[stem(w)] = kind
		}
	}
	return out
}()

// occasions are events by themselves: what is booked is called so.
var occasions = set("call sync standup lunch dinner breakfast coffee review retrospective retro interview workshop demo session conference kickoff catch-up meeting appointment event")

var (
	determiners = set("a an the my our this that these those some")
	// glue says nothing that changes what is to be done.
	glue         = set("a an the my our me us please kindly just also and so now then for of to new there here thanks thank you ok okay too quickly today's everything's")
	prepositions = set("to of in on at by for from with about into as until till since before after due between via within")
	politeTail   = set("please pls thanks thank you now lol")
	questionHead = set("what what's which who who's whose when when's where where's how how's why why's is are am was were do does did have has can could would will should may might any")
	// asides are words of questions that carry no content.
	asides      = set("what what's which who who's whose when when's where where's is are am do does i have has there any of my our me the a an on in for at to it all you know can see list about be tell show us still currently right now and or please coming up next how many much that this get was were your")
	reportWords = set("report reports result results list summary overview digest findings answer details information info outcome output status plan rest them it this that these those")
	pronouns    = set("it them this that these those one ones her him he she they everyone everybody someone anyone both")
	// plainVerbs say nothing about what they are of.
	plainVerbs = set("get search list create update find show add set read make send write save change give tell look edit put open view see move note log start close check plan remove delete cancel drop clear record mark post")
	numbers    = map[string]int{"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "forty-five": 45, "sixty": 60, "ninety": 90}
)

// limits are words that limit, turn, correct or repeat what is asked for. In a
// text that is to be written down they may as well be part of the request: only
// quotes tell.
var limits = set("if unless only except excluding without instead rather unlike whenever wherever while provided assuming otherwise every each daily weekly monthly yearly " +
	"hourly weekdays fortnightly annually but wait actually oops scratch correction nevermind either neither nor besides maybe perhaps possibly everyday mondays tuesdays wednesdays thursdays fridays saturdays sundays meant")

// ordinals pick one of several things by its place, which nobody but the user sees.
var ordinals = set("first second third last next latest newest oldest previous other")

// later are words that may say when to send something, and not only what.
var later = set("when once after before until till as")

// negations turn an order round. What somebody is told may have them.
var negations = set("not don't dont doesn't didn't never no nobody nothing none won't shouldn't mustn't can't cannot isn't aren't")

// politeness are openings that say nothing, longest first.
var politeness = phrases(
	"i would like you to", "i would also like to", "i want you to", "i need you to", "i'd like you to", "would you be so kind as to", "i also want to", "i also need to",
	"i would like to", "could you please", "can you please", "can u", "could u", "ok then", "would you please", "will you please", "please can you", "please could you", "i'd like to", "i want to", "i need to",
	"we need to", "we want to", "could you", "can you", "would you", "will you", "help me to", "help me", "let's", "go ahead and", "make sure to", "be sure to",
	"please", "pls", "kindly", "hey", "hi", "hello", "also", "just", "now", "ok", "okay", "well", "so", "thanks", "and", "good morning", "good evening", "good afternoon", "hi there", "hello there", "dear assistant",
)

func phrases(all ...string) [][]string {
	var out [][]string
	for _, p := range all {
		out = append(out, strings.Fields(p))
	}
	return out
}
