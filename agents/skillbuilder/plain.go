package skillbuilder

import (
	"regexp"
	"slices"
	"strings"
)

// What is plainly an answer to the question of a step: it is marked as what it is about, or
// quoted, or one of the short words that the question offers, or a list of names where names
// are asked, or it speaks of what is being built. Each sentence is one, or goes on from one;
// without a mark, nothing else is.

// lead is what a sentence may begin with, before what it says.
const lead = `(?i)^\s*(?:(?:please|well|so|ok|okay|yes|yeah|no|hm|hmm|um|and|then|also|but|just|first|finally|maybe|oh|actually)[, ]+)*`

var (
	numberedAnswer = regexp.MustCompile(`(?s)^\s*1[.)]\s`)
	// marked names the part of the skill that the sentence is about.
	marked = regexp.MustCompile(lead + `(?:(?:change|set|make|update|use)\s+)?(?:(?:the|its|as)\s+)*(?:required\s+)?` +
		`(?:inputs?|parameters?|params|arguments?|fields?|steps?|triggers?|phrases?|keywords?|confirm(?:ation)?(?:\s+(?:with|question))?|description|purpose|name)\s*(?:to\b|are\b|is\b|should\s+be\b|:|=)`)
	// judged says how a part is, and not what.
	judged = regexp.MustCompile(lead + `(?:[\w.]+\s+){1,3}(?:(?:is|are)\s+(?:fine|good|ok|okay|great|right|wrong|bad|missing|unclear|not|too|all|still|enough)|looks?\s+(?:like|as|good|bad|nice|fine|wrong))\b`)
	// calls gives the skill a name.
	calls = regexp.MustCompile(lead + `(?:(?:(?:i|we|lets)(?:['’]?d)?\s+(?:want\s+to\s+|would\s+like\s+to\s+|like\s+to\s+)?)?(?:rename|call|name)\s+(?:it|the\s+skill|this\s+skill|to)\b|(?:it|the\s+skill)\s+(?:is|should\s+be|shall\s+be|is\s+to\s+be)\s+(?:called|named)\b)`)
	idiom = regexp.MustCompile(`(?i)\bcall\s+it\s+(?:a\s+(?:day|night)|quits|off)\b`)
	// saying tells when the skill is to be used.
	saying = regexp.MustCompile(lead + `(?:(?:use\s+(?:it|this|the\s+skill)|it\s+is\s+used)\s+(?:for|when|whenever|on|if)\b|when(?:ever)?\s+(?:i|we|you|someone|somebody|people|the\s+user)\s+(?:says?|asks?|writes?|wants?)\b)`)
	// needing tells what the skill has to know.
	needing = regexp.MustCompile(lead + `(?:(?:it|the\s+skill|this\s+skill)\s+(?:(?:will|should|must|also|just|only)\s+)*(?:needs?|takes?|requires?|asks?\s+for|knows?)\b|(?:needs|requires|takes|asks\s+for)\b)`)
	// named is a name alone, or what it is called with when it is used.
	named = regexp.MustCompile(lead + `[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*\s*(?:$|[,;]|(?:and|when|for|please|use)\b|(?:is|sounds|looks)\s+(?:fine|good|ok|okay|great|right)\b)`)
	// ofSkill says what the skill does.
	ofSkill = regexp.MustCompile(lead + `(?:it|the\s+skill|this\s+skill)\s+(?:(?:should|must|can|could|shall|will|to|just|also|first|then|always|only|never|simply)\s+)*([a-z'’]+)`)
	// wished says what the skill is to do.
	wished = regexp.MustCompile(lead + `(?:i|we)(?:['’]?d)?\s+(?:want|need|would\s+like|like)\s+(?:it|the\s+skill|this\s+skill|a\s+skill|one|something)\s+(?:to|that|which)\b`)

	// ofIt are words that mean the skill, or what was said of it.
	ofIt = strings.Fields("it its this that skill input inputs step steps name trigger triggers phrase phrases parameter parameters flag flags save saved")
	// inOrder are words of a description in several parts.
	inOrder = strings.Fields("these those them they then first second afterwards finally")
	// ownWords are those by which people speak of themselves, and speakers those of them that
	// say who does something.
	speakers = strings.Fields("i im id ill ive we weve ich wir")
	ownWords = append(strings.Fields("me my mine our ours us myself mir mich mein meine meinen uns unser"), speakers...)
	// states are verbs that say how something is, and not what it does.
	states = strings.Fields("is isnt was wasnt be been being has hasnt had have does doesnt did didnt do seems sounds feels says said might may hurts rains depends matters")
	// undoing are verbs that take something away.
	undoing = strings.Fields("delete remove cancel stop close undo drop forget kill ignore")
	// noise are words that say nothing, alone.
	noise = strings.Fields("hm hmm hmmm um uh uhm er ah oh wow lol haha thanks thank you thx cheers great nice cool well so and hey hi hello alexa siri ok okay good super")
	// quoting are words around what is quoted.
	quoting = strings.Fields("and or when whenever if i we you someone somebody people says say asks ask for it use on to the a phrase phrases word words trigger triggers such as like also please just ok okay both either")
	// nowhere are words that no name of an input has.
	nowhere = append(append(append(strings.Fields("off aus an auf ab not now today tonight tomorrow yesterday later soon please thanks thank bye hello hi hey yes no night morning evening "+
		"monday tuesday wednesday thursday friday saturday sunday"), ownWords...), finite...), noise...)
	determiners = strings.Fields("the a an that this his her der die das den dem ein eine einen")
	// doing are verbs of everyday tasks beside those of isVerb.
	doing = strings.Fields("order buy turn switch play set call dial phone ring give go bring take put pay transfer wake cook clean open lock unlock dim increase lower raise mute pause skip resume pick drop ship say speak help wait need want " +
		"bestell bestelle such suche finde schick schicke mach kauf lies")
)

// isNoise reports whether the text says nothing.
func isNoise(text string) bool {
	return !slices.ContainsFunc(plain(text), func(w string) bool { return !slices.Contains(noise, w) }) && !isDefault(text) && !isNo(text)
}

// isMarked reports whether the sentence says of which part of the skill it is.
func isMarked(s string) bool { return marked.MatchString(s) && !judged.MatchString(s) }

// bare reports whether the text is what it quotes, and no more.
func bare(text string) bool {
	if len(quotedPhrases(text)) == 0 {
		return false
	}
	return !slices.ContainsFunc(plain(unquoted(text)), func(w string) bool { return !slices.Contains(quoting, w) })
}

func unquoted(text string) string { return quotedPattern.ReplaceAllString(text, " ") }

// answers reports whether the text is plainly an answer to the step.
func (t talk) answers(text string) bool {
	first := t.Draft.Purpose == "" // nothing can be marked before that
	if isDefault(text) || isNo(text) || !first && (numberedAnswer.MatchString(text) || bare(text)) {
		return true
	}
	if strings.HasSuffix(strings.TrimSpace(text), "?") && !isMarked(text) && !saying.MatchString(text) {
		return false
	}
	plainly := false
	for i, s := range sentences(unquoted(text)) {
		switch {
		case first && i > 0: // only the first one counts there
			if has(plain(s), ownWords) {
				return false
			}
		case t.plainly(s):
			plainly = true
		case !goesOn(s):
			return false
		}
	}
	return plainly
}

// goesOn reports whether the sentence may go on from one that is an answer.
func goesOn(s string) bool {
	words := plain(s)
	return len(words) == 0 || (has(words, ofIt) || has(words, inOrder)) && !has(words, ownWords) && !slices.Contains(undoing, words[0])
}

// plainly reports whether the sentence is an answer of the step.
func (t talk) plainly(s string) bool {
	words := plain(s)
	switch {
	case len(words) == 0 || idiom.MatchString(s) || judged.MatchString(s):
		return false
	case t.Draft.Purpose == "":
		return saysPurpose(s, words)
	case marked.MatchString(s) || calls.MatchString(s) || saysApproval(s):
		return true
	case needing.MatchString(s) || saying.MatchString(s) || named.MatchString(s):
		return true
	case t.Step == Triggers: // what the skill does is no phrase
		return t.about(words) && !ofSkill.MatchString(s)
	case wished.MatchString(s) || saysOfSkill(s, words) || t.about(words):
		return true
	}
	return t.Step == Gathering && (t.nameList(s) || t.kin(words))
}

// saysApproval reports whether the sentence says whether the user is asked before each call,
// and nothing else.
func saysApproval(s string) bool {
	words := own(s)
	if !asks.MatchString(words) && !waived(words) {
		return false
	}
	for _, p := range []*regexp.Regexp{waives, needless, asks} {
		words = p.ReplaceAllString(words, "  ")
	}
	return !slices.ContainsFunc(strings.Fields(words), func(w string) bool {
		return !slices.Contains(generic, w) && !slices.Contains(asking, w) && !slices.Contains(leads, w) && w != "wait" && w != "make"
	})
}

// saysPurpose reports whether the sentence says what a skill is to do, and not what is to be
// done now.
func saysPurpose(s string, words []string) bool {
	if wished.MatchString(s) || saysOfSkill(s, words) && !saysApproval(s) || aboutPattern.MatchString(s) || purposeIn(s) != "" {
		return true
	}
	if has(words, ownWords) {
		return false
	}
	low := strings.ToLower(strings.TrimSpace(s))
	return strings.HasPrefix(low, "to ") || strings.HasPrefix(low, "that ") || strings.HasPrefix(low, "something that ") ||
		len(words) > 1 && isVerb(words[0]) && base(words[0]) != words[0] // "sends alerts"
}

// saysOfSkill reports whether the skill is who does something in the sentence.
func saysOfSkill(s string, words []string) bool {
	m := ofSkill.FindStringSubmatch(s)
	return m != nil && !has(plain(m[1]), states) && !has(words, speakers)
}

// about reports whether the sentence speaks of what the skill is about: it has a word of that,
// and is not the user's own wish.
func (t talk) about(words []string) bool {
	own := ownWords
	if t.Step == Triggers {
		own = speakers // "show my alerts" is a phrase
	}
	if has(words, own) || slices.Contains(undoing, words[0]) && gistOf(t.Draft.Purpose).verb != words[0] {
		return false
	}
	rest := words
	if isVerb(words[0]) && len(words) > 1 {
		rest = words[1:] // "message Bob" does not speak of the message
	}
	if t.Step == Gathering && has(rest, t.inputWords()) {
		return true
	}
	subject := t.subject()
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(subject, w) || slices.Contains(subject, base(w)) })
}

// inputWords are the words of the names of the inputs, and of those that such a skill mostly has.
func (t talk) inputWords() (known []string) {
	for _, in := range slices.Concat(t.Draft.Inputs, usualInputs(t.Draft.Purpose)) {
		known = append(known, strings.Split(in.Name, "_")...)
	}
	return known
}

// subject is the words that say what the skill is about, beyond what it does with that.
func (t talk) subject() (known []string) {
	words := plain(t.Draft.Purpose)
	for _, w := range content(words[min(len(words), 1):]) {
		if len(w) > 2 && !slices.Contains(joints, w) && !slices.Contains(ofIt, w) && !slices.Contains(nowhere, w) {
			known = append(known, w, base(w))
		}
	}
	return known
}

// kin reports whether the sentence does with "it" what the skill is for: to post it, or to post
// it and notify somebody, of a skill that sends something.
func (t talk) kin(words []string) bool {
	usual := func(verb string) string { return strings.Join(names(usualInputs(verb+" it")), " ") }
	like := func(verb string) bool {
		return isVerb(verb) && !slices.Contains(undoing, verb) && usual(base(verb)) == usual(gistOf(t.Draft.Purpose).verb)
	}
	words = without(words, strings.Fields("first then and also just please"))
	if len(words) < 2 || !like(words[0]) || words[1] != "it" || has(words, ownWords) {
		return false
	}
	return len(words) == 2 || len(words) > 3 && words[2] == "and" && like(words[3])
}

// nameList reports whether the sentence is a list of at least two names, or a name with an
// article: what the skill needs to know.
func (t talk) nameList(s string) bool {
	if !namesThings(s) {
		return false
	}
	items := listBreak.Split(s, -1)
	return !slices.ContainsFunc(items, func(item string) bool {
		words := plain(itemBreak.ReplaceAllString(item, ""))
		name := without(words, slices.Concat(determiners, []string{"optional", "required", "just", "only"}))
		return !isName(name) || len(items) == 1 && len(name) == len(words)
	})
}

// isName reports whether the words can be the name of an input.
func isName(words []string) bool {
	return len(words) > 0 && len(words) <= 3 && !has(words, nowhere) && !has(words, determiners) &&
		!slices.Contains(undoing, words[0]) && (len(words) == 1 || !slices.Contains(doing, words[0]))
}
