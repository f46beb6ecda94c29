package skillbuilder

import (
	"regexp"
	"slices"
	"strings"

	"agentmesh/mesh/session"
)

// What a message is for is told by rules here, where no model tells it. They know what is
// plainly an answer to the step (plain.go), and what is certainly none; of anything else they
// say that it is unclear, and the user is asked. Nothing is guessed into the draft.

// mainPattern is how users address the main agent.
var mainPattern = regexp.MustCompile(`(?is)^\s*(?:@?main(?: assistant| agent)?\s*[:,]\s*|(?:please\s+)?(?:ask|tell)\s+(?:the\s+)?main(?:\s+assistant|\s+agent)?\s*(?:[:,]|to\b|about\b)?\s*)(.+)$`)

// hears is what the text is for, in the session as it stands.
func (t talk) hears(text string) session.Input {
	in := session.Input{Kind: session.Answer, Words: text}
	said := strings.Join(plain(text), " ")
	switch m := mainPattern.FindStringSubmatch(text); {
	case isCancel(text) || t.Waits == session.ForChoice && said == "leave":
		in.Kind = session.Leave
	case isRestart(text):
		in.Kind = session.Restart
	case m != nil:
		in.Kind, in.Words = session.Main, strings.TrimSpace(m[1])
	case t.toTheSession(said, text) != "":
		in.Kind = t.toTheSession(said, text)
	case t.Waits == session.ForMeant && isYes(text): // to which of both
		in.Kind, in.Words = session.Unclear, ""
	case isGreeting(text):
		in.Kind = session.Back
	case wantsAnother(text) && (t.Draft.Purpose != "" || t.Waits != session.ForAnswer):
		in.Kind, in.Words = session.Second, purposeIn(text)
	case t.Waits == session.ForAnswer && t.ofSimilar(text):
	case isNoise(text):
		in.Kind, in.Words = session.Unclear, ""
	case t.asks(text):
		if in.Kind = session.Main; asksUs(text) {
			in.Kind = session.Question
		}
	case !t.answers(text):
		in.Kind = session.Unclear
	}
	return in
}

// toTheSession is what a short answer means to what the session itself asks; "" if it is
// none, or that asks nothing.
func (t talk) toTheSession(said, text string) session.Kind {
	among := func(list ...string) bool { return slices.Contains(list, said) }
	switch t.Waits {
	case session.ForResume:
		if t.offering() {
			return t.toTheOffer(said, text)
		}
		switch {
		case isYes(text) || isGreeting(text):
			return session.Yes
		case isNo(text):
			return session.No
		}
	case session.ForChoice:
		switch {
		case isYes(text) || among("finish", "finish it", "finish first", "finish this", "finish this first", "finish that first", "first", "this one first"):
			return session.Finish
		case among("park", "park it", "park this", "park this one", "set it aside", "the other one", "the other one first"):
			return session.Park
		case isNo(text):
			return session.No
		}
	case session.ForMeant:
		switch {
		case means(text, "answer", "skill", "you"):
			return session.Yes
		case isNo(text) || means(text, "main"):
			return session.No
		}
	}
	return ""
}

// means reports whether the text says one of the words, and nothing besides.
func means(text string, one ...string) bool {
	words, beside := plain(text), strings.Fields("yes no ok its it is was that this thats an the my to for of course please question step ask assistant agent")
	return has(words, one) && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(one, w) && !slices.Contains(beside, w) })
}

// one stands for a skill where the user goes on from one to another.
var one = regexp.MustCompile(`(?i)\b(?:another|a (?:new|second|different)|one more|also(?: [a-z]+){0,4}) one\b|\bone (?:more )?(?:that|which|for|to)\b`)

// another is the text with "skill" where it speaks of another one.
func another(text string) string {
	return one.ReplaceAllStringFunc(text, func(m string) string {
		at := strings.LastIndex(strings.ToLower(m), "one")
		if more := strings.Index(strings.ToLower(m), "one more"); more == 0 {
			return "another skill" + strings.TrimPrefix(m[len("one more"):], " one")
		}
		return m[:at] + "skill" + m[at+len("one"):]
	})
}

// wantsAnother reports whether a sentence of the text asks for a skill to be made.
func wantsAnother(text string) bool {
	return slices.ContainsFunc(sentences(another(text)), func(s string) bool {
		words := without(plain(s), strings.Fields("please also and oh ok okay well so but now then actually wait i we id would like want need to can could "+
			"you lets let us me too hm by the way do have get"))
		if len(words) == 0 || !slices.Contains(strings.Fields("create build make add write develop a an another one new second skill"), words[0]) {
			return false
		}
		at := slices.IndexFunc(words, func(w string) bool { return w == "skill" || w == "skills" })
		if at < 0 || at > 6 || words[0] == "skill" && !one.MatchString(s) && !one.MatchString(text) {
			return false
		}
		return !has(words[:at], strings.Fields("with using by of for it this that the"))
	})
}

// without is the words behind those of the list that they begin with.
func without(words, list []string) []string {
	for len(words) > 0 && slices.Contains(list, words[0]) {
		words = words[1:]
	}
	return words
}

func has(words, list []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
}

// How questions begin, also without a question mark, and in German.
var (
	askWords  = strings.Fields("what whats how hows why which who whos whose where wheres was wie warum wieso weshalb wer wen wem wo wohin wann welche welcher welches kannst könntest")
	helpers   = strings.Fields("can could do does did is are was were should would may might will have has")
	finite    = append(strings.Fields("whats hows whos wheres am had shall must happens ist sind hat kann kannst könntest"), helpers...)
	people    = strings.Fields("you i we they")
	things    = strings.Fields("it there the a an my your this that he she anyone anybody someone somebody")
	overtures = strings.Fields("hm hmm um well so and but ok okay sorry wait oh please hey")
	// toUs are words that a question to the builder has.
	toUs = append(strings.Fields("mean means meant need example examples suggestion suggest create creating build building session help"), slices.Concat(ofIt, inOrder)...)
	// hour is an it that stands for nothing.
	hour = regexp.MustCompile(`(?i)\b(?:time|day|date|year|late|cold|hot|warm) is it\b`)
)

// asks reports whether the text asks something instead of answering.
func (t talk) asks(text string) bool {
	said, mark := strings.Join(plain(text), " "), strings.HasSuffix(strings.TrimSpace(text), "?")
	if slices.Contains([]string{"help", "i dont understand", "i do not understand", "explain", "please explain"}, said) {
		return true
	}
	words := without(plain(text), overtures)
	switch {
	case bare(text) || isDefault(text): // a phrase that sounds like a question
		return false
	case len(words) == 0:
		return mark
	case slices.Contains(askWords, words[0]):
		return mark || has(words, finite) || t.Step != Gathering || t.Draft.Purpose == "" // else it is a list: which channel, what to say
	case !slices.Contains(helpers, words[0]):
		return false
	case mark || len(words) > 1 && slices.Contains(people, words[1]):
		return true
	}
	return len(words) > 1 && slices.Contains(things, words[1]) && !slices.Contains(strings.Fields("do have will may"), words[0])
}

// asksUs reports whether a question is about the skill that is being built.
func asksUs(text string) bool {
	words := without(plain(text), overtures)
	if hour.MatchString(text) || len(words) <= 1 {
		return len(words) <= 1
	}
	return has(words, toUs) || has(words, people[:1]) && !slices.Contains(helpers, words[0])
}
