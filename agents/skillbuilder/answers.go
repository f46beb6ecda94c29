package skillbuilder

import (
	"slices"
	"strings"
	"unicode"

	"agentmesh/mesh"
)

// plain returns the words of a short answer, in lower case and without marks.
func plain(text string) []string {
	text = strings.NewReplacer("'", "", "’", "").Replace(strings.ToLower(text))
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' })
}

// A lexicon recognises short answers: one of first begins them, and no word is
// in neither list.
type lexicon struct{ first, rest []string }

func (l lexicon) matches(text string) bool {
	words := plain(text)
	if len(words) == 0 || !slices.Contains(l.first, words[0]) {
		return false
	}
	return !slices.ContainsFunc(words[1:], func(w string) bool {
		return !slices.Contains(l.first, w) && !slices.Contains(l.rest, w)
	})
}

func vocabulary(first, rest string) lexicon {
	return lexicon{strings.Fields(first), strings.Fields(rest)}
}

// isYes also takes what answers other questions of the mesh with yes, but for a
// "send it to all": that may well be what the skill is to do.
func isYes(text string) bool {
	if mesh.AnswerOf(text) == mesh.AnswerYes && !slices.Contains(plain(text), "send") {
		return true
	}
	return vocabulary("yes y yep yeah sure ok okay continue go save perfect great fine correct confirm confirmed good looks sounds",
		"please ahead on it that thats is right thanks thank you do lets let me i would like to this the skill with all and now").matches(text)
}

func isNo(text string) bool {
	return mesh.AnswerOf(text) == mesh.AnswerNo || vocabulary("no nope nah", "thanks thank you not now start a new one over please dont").matches(text)
}

// isCancel reports whether the user wants to leave. A sentence that merely has
// such a word, as "stop the server", is an answer.
func isCancel(text string) bool {
	words := plain(text)
	for len(words) > 0 && slices.Contains(strings.Fields("please ok i want to would like id no lets"), words[0]) {
		words = words[1:]
	}
	said := strings.Join(words, " ")
	return vocabulary("cancel exit stop quit abort",
		"it this that now please creating creation skill the session here everything thanks").matches(said) ||
		slices.Contains([]string{"never mind", "nevermind", "forget it", "go back", "take me back", "bye"}, said)
}

func isRestart(text string) bool {
	return slices.Contains([]string{"start over", "restart", "start again", "begin again", "please start over", "from scratch"},
		strings.Join(plain(text), " "))
}

func isGreeting(text string) bool {
	return slices.Contains([]string{"hi", "hello", "hey", "hi there", "hello there", "hi again", "hello again", "im back", "i am back",
		"hi im back", "hello im back", "where were we", "where was i", "good morning", "good afternoon", "good evening"},
		strings.Join(plain(text), " "))
}

// isQuestion reports whether the user asks something instead of answering.
func isQuestion(text string) bool {
	if !strings.HasSuffix(strings.TrimSpace(text), "?") {
		return false
	}
	words := plain(text)
	for len(words) > 0 && slices.Contains(strings.Fields("hm hmm um well so and but ok sorry wait"), words[0]) {
		words = words[1:]
	}
	return len(words) == 0 || slices.Contains(strings.Fields("what whats how why which who where can could do does is are should would may"), words[0])
}

// isDefault reports whether the user leaves it to us.
func isDefault(text string) bool {
	if isYes(text) {
		return true
	}
	said := strings.Join(plain(text), " ")
	for _, p := range []string{"you decide", "you choose", "your choice", "your call", "up to you",
		"dont know", "do not know", "no idea", "not sure", "dont care", "no preference", "as you like", "as suggested",
		"your suggestion", "your suggestions", "take both", "whatever", "default", "defaults", "skip",
		"as you suggest", "as you suggested", "what you suggest", "what you suggested", "both", "take them", "take those", "take these", "use them", "use those", "use these", "is fine", "are fine", "is good", "are good", "as is"} {
		before, after, found := strings.Cut(" "+said+" ", " "+p+" ")
		if found && !slices.ContainsFunc(strings.Fields(before+" "+after), func(w string) bool { return !slices.Contains(besideDefault, w) }) {
			return true
		}
	}
	return false
}

// besideDefault are words beside those that leave it to us: more is said with any other.
var besideDefault = strings.Fields("ok okay yes no please just well hm hmm um oh then i we you it this that these them both all one step question thanks thank " +
	"is are fine good to do have really like prefer want use take the a with by me here honestly sorry so and name names phrase phrases steps inputs they sound sounds")
