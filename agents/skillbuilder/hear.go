package skillbuilder

import (
	"regexp"
	"slices"
	"strings"

	"agentmesh/mesh/session"
)

// What a message is for is told by rules here, where no model tells it. They know what is
// certainly an answer, and what is certainly none; of anything else they say that it is
// unclear, and the user is asked. Nothing is guessed into the draft.

var (
	// mainPattern is how users address the main agent.
	mainPattern = regexp.MustCompile(`(?is)^\s*(?:@?main(?: assistant| agent)?\s*[:,]\s*|(?:please\s+)?(?:ask|tell)\s+(?:the\s+)?main(?:\s+assistant|\s+agent)?\s*(?:[:,]|to\b|about\b)?\s*)(.+)$`)
	// marked is what only an answer to the question of a step has in it: list numbers, or
	// the name of what it changes.
	marked = regexp.MustCompile(`(?i)^\s*1[.)]|\b(?:inputs?|parameters?|params|arguments?|steps?|triggers?|phrases?|keywords?|confirm(?:ation)?|description|purpose)\s*(?:to|are|is|:|=)|\b(?:rename|call)\s+(?:it|the skill|this)\b|\bname\s*(?:it|to|is|:|=)`)
	// saying is how people tell when a skill is to be used.
	saying = regexp.MustCompile(`(?i)\bwhen(?:ever)?\s+(?:i|we|you|someone|somebody|people|the user)\s+(?:says?|asks?|writes?|wants?)\b|^\s*(?:use|for|on|when)\s+(?:it|this|the skill)\b|\buse\s+(?:it|this)\s+(?:for|when|on)\b`)
	// ofIt are words that mean the skill, or what was said of it.
	ofIt = strings.Fields("it its this that skill input inputs step steps name trigger triggers phrase phrases parameter parameters flag flags save saved")
	// inOrder are words of a description in several parts.
	inOrder = strings.Fields("these those them they then first second afterwards finally")
	// ownWords are those by which people speak of themselves.
	ownWords = strings.Fields("i im id ill ive me my mine we our ours us")
	// toUs are words that a question to the builder has.
	toUs = append(strings.Fields("you mean means meant need example examples suggestion suggest create creating build building session"), append(ofIt, inOrder...)...)
)

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
	case isGreeting(text):
		in.Kind = session.Back
	case wantsAnother(text) && (t.Draft.Purpose != "" || t.Waits != session.ForAnswer):
		in.Kind, in.Words = session.Second, purposeIn(text)
	case len(t.Draft.Similar) > 0 && t.Waits == session.ForAnswer:
		in.Kind = t.ofSimilar(text)
	case asksUs(text):
		in.Kind = session.Question
	case isQuestion(text) && len(quotedPhrases(text)) == 0:
		in.Kind = session.Main
	case t.doubtful(text):
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
		case isYes(text) || among("answer", "it is", "an answer", "the answer", "my answer", "its an answer", "it is an answer", "for you", "for the skill"):
			return session.Yes
		case isNo(text) || among("main", "for main", "ask main", "the main assistant", "for the main assistant"):
			return session.No
		}
	}
	return ""
}

// wantsAnother reports whether a sentence of the text asks for a skill to be made.
func wantsAnother(text string) bool {
	return slices.ContainsFunc(sentences(text), func(s string) bool {
		words := plain(s)
		for len(words) > 0 && slices.Contains(strings.Fields("please also and oh ok okay well so but now then actually wait i we id would like want need to can could you lets let us me too hm by the way"), words[0]) {
			words = words[1:]
		}
		if len(words) == 0 || !slices.Contains(strings.Fields("create build make add write develop a an another one new second"), words[0]) {
			return false
		}
		at := slices.IndexFunc(words, func(w string) bool { return w == "skill" || w == "skills" })
		if at < 0 || at > 6 {
			return false
		}
		return !slices.ContainsFunc(words[:at], func(w string) bool {
			return slices.Contains(strings.Fields("with using by of for it this that the"), w)
		})
	})
}

// asksUs reports whether the text is a question about the skill that is being built.
func asksUs(text string) bool {
	words := plain(text)
	if !isQuestion(text) && !slices.Contains([]string{"help", "i dont understand", "i do not understand", "what", "explain", "please explain"}, strings.Join(words, " ")) {
		return false
	}
	if len(quotedPhrases(text)) > 0 {
		return false
	}
	return len(words) <= 1 || slices.ContainsFunc(words, func(w string) bool { return slices.Contains(toUs, w) })
}

// doubtful reports whether the text may as well be for somebody else: a wish of the user's
// own, or something to do that has nothing to do with the skill.
func (t talk) doubtful(text string) bool {
	if isDefault(text) || isNo(text) || marked.MatchString(text) || saying.MatchString(text) || len(quotedPhrases(text)) > 0 {
		return false
	}
	if _, other := new(draft).hearApproval(text); other != strings.TrimSpace(text) {
		return false // it says whether to ask before each call
	}
	parts := sentences(text)
	return !slices.ContainsFunc(parts, func(s string) bool { return !t.strange(s) })
}

// strange reports whether the sentence may be for somebody else.
func (t talk) strange(s string) bool {
	words := plain(s)
	if len(words) == 0 {
		return false
	}
	has := func(list []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
	}
	if t.Draft.Purpose == "" { // whatever a skill does is an answer, but for what the user wants now
		return leadPattern.FindString(s) == "" && has(ownWords)
	}
	if has(ofIt) || t.Step == Gathering && has(inOrder) || dotted.MatchString(s) || t.about(words) {
		return false
	}
	does := isVerb(words[0]) || slices.Contains(leads, words[0]) && len(words) > 1 && isVerb(words[1])
	return does && (t.Step != Gathering || !inputsPattern.MatchString(s)) && (len(words) > 1 || t.Step == Gathering) || has(ownWords)
}

// about reports whether one of the words is one that says what the skill is about.
func (t talk) about(words []string) bool {
	g := gistOf(t.Draft.Purpose)
	known := append([]string{g.domain}, g.things...)
	if t.Step != Gathering {
		known = append(known, g.verb)
	}
	for _, in := range append(slices.Clone(t.Draft.Inputs), usualInputs(t.Draft.Purpose)...) {
		known = append(known, strings.Split(in.Name, "_")...)
	}
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(known, w) || slices.Contains(known, base(w)) })
}
