package skillbuilder

import (
	"regexp"
	"slices"
	"strings"
)

// The patterns read the plain words of a sentence, with a space before and
// behind each.
const (
	nouns = `(?:approval|permission|confirmation|consent)`
	ours  = `(?:(?:any|my|our|the users|a|an|the|prior|explicit|written|final|further|more) )*`
	us    = `(?:me|us|the user)`
	// each ends what is said about asking: how often, and before what.
	each = `(?: (?:again|first|beforehand|anymore|any more|at all|ever|(?:each|every|any) (?:single )?(?:time|call|run)|for ` + ours + nouns +
		`|to (?:approve|confirm)(?: it| that| this)?|before(?: (?:(?:each|every|any|all|the|a) (?:single )?(?:time|calls?|runs?|uses?|messages?|posts?|actions?)|[^ ]+ing(?: it| them| that| anything)?|(?:it|you) (?:acts?|calls?|does|do|goes|go|posts?|runs?|sends?|starts?|works?)(?: it| them| that| anything)?))?)\b)*`
)

var (
	// whose finds who is to approve, where that is said behind the noun.
	whose = regexp.MustCompile(` ` + nouns + ` (?:of|from|by)((?: (?:the|a|an|my|our))* [^ ]+)`)

	// asks is what asks for the user's approval, or speaks of it in a way in
	// which it may.
	asks = regexp.MustCompile(strings.Join([]string{
		` ask(?:s|ed|ing)? ` + us + ` (?:.*? )?(?:before|beforehand|first|(?:each|every) time) `,
		` (?:get|be|am|are|is) asked (?:.*? )?(?:before|beforehand|first|(?:each|every) time) `,
		` ask(?:s|ed|ing)? (?:` + us + ` )?for ` + ours + nouns + ` `,
		` ask(?:s|ed|ing)? ` + us + ` to (?:approve|confirm) `,
		` asks? before `,
		` without (?:ever |even |first )*(?:asking|checking with|consulting) ` + us + ` `,
		` without (?:ever |even |first )*asking` + each + ` $`,
		` (?:needs?|requires?|wants?|with|without|gets?|ha[sd]|have|waits? for|until|unless|after|before|gives?|gave) ` + ours + nouns + ` `,
		` ` + nouns + ` (?:is |are )?(?:not )?(?:needed|required|necessary) `,
		` (?:my|our|the users) (?:prior |explicit |written |final )*(?:approval|permission|consent) `,
		` (?:i|we) (?:first |always |also )*(?:must|have to|need to|want to|should|would like to) (?:first |always |also )*(?:approve|confirm|agree|be asked) `,
		` (?:unless|until|before|only (?:if|when|after|once)) (?:i|we) (?:have |had |explicitly )*(?:approved?|confirm(?:ed)?|agreed?|allow(?:ed)?|sa(?:y|id) (?:yes|so|ok|okay)) `,
		` let (?:me|us) (?:first |always )*(?:approve|confirm) `,
		` (?:dont|do not|doesnt|does not|never|need not|neednt|should not|shouldnt|must not|mustnt|wont|will not|no need to|stop) ask(?:ing)? ` + us + ` (?:if|when|unless|except|until|but|only) `,
	}, "|"))

	// waives is what gives up the user's approval, if nothing around it says
	// otherwise.
	waives = regexp.MustCompile(strings.Join([]string{
		` (?:(?:there is |theres |you have )?no need to|(?:dont|do not|doesnt|does not|never|need not|neednt|should not|shouldnt|must not|mustnt|wont|will not|no longer)(?: ever)?(?: (?:need|have) to)?) ask(?: ` + us + `| anyone| anybody)?` + each,
		` stop asking(?: ` + us + `)?` + each,
		` (?:i |we )?(?:dont|do not) want (?:(?:it |you |the skill )?to ask ` + us + `|to be asked)` + each,
		` (?:i|we) (?:dont|do not) (?:need|have|want) to (?:approve|confirm)(?: it| that| this| anything)?` + each,
		` without (?:ever |even |first )*asking(?: ` + us + `| anyone| anybody)?` + each,
		` without (?:my|our|the users) ` + ours + nouns,
	}, "|"))
	// needless is the same without a word on whose approval it is: only a
	// sentence that says nothing else means the user's.
	needless = regexp.MustCompile(strings.Join([]string{
		` (?:without|(?:needs? |requires? )?no|(?:dont|do not|doesnt|does not) (?:need|require|want)) ` + ours + nouns + `(?: (?:is |are )?(?:needed|required|necessary))?`,
		` ` + ours + nouns + ` (?:is not|isnt) (?:needed|required|necessary)`,
	}, "|"))

	// doubtful is what turns the sense of a sentence around or binds it to a
	// condition.
	doubtful = regexp.MustCompile(` (?:no|not|never|nothing|nobody|none|nowhere|neither|nor|cannot|without|[^ ]+nt|unless|until|except|only|if|when|whenever|while|once|but|hardly|rarely|seldom|avoid[^ ]*|forbid[^ ]*|forbad[^ ]*|prohibit[^ ]*|ban[^ ]*|refus[^ ]*|stop[^ ]*|prevent[^ ]*|den(?:y|ies)|impossible|unable|disallow[^ ]*|reject[^ ]*|warn[^ ]*|complain[^ ]*|error|hates?|dislikes?|illegal|wrong|bad|worse|worst|danger[^ ]*|fail[^ ]*|block[^ ]*|abort[^ ]*|cancel[^ ]*) `)

	// others is what speaks of somebody who acts without asking, not of the skill.
	others = regexp.MustCompile(` (?:who|whoever|whose|what|whatever|which|that|those|anyone|anybody|everyone|everybody|someone|somebody|people|was|were|been|being|sent|made|did|had|has|have) `)

	// follows is what may come behind a waiver.
	follows = regexp.MustCompile(`^ (?:$|(?:and|then|just|so|because|please|now|anyway|thanks|thank) )`)

	saysNo   = regexp.MustCompile(`(?i)^\s*(?:no|nope|nah)\s*[,–—-]\s*`)
	partEnd  = regexp.MustCompile(`[.!?](?:\s+|$)|;\s*|\n+`)
	listItem = regexp.MustCompile(`^\s*[-*•]`)
	// approver is what someone else's approval looks like as a thing that is
	// needed.
	approver = regexp.MustCompile(`(?i)^(?:(?:the|an?|any|my|our|prior)\s+)*(?:\S+['’]s?\s+)?` + nouns + `(?:\s+(?:of|from|by|to|before|first)\b|\s*[.!]*$)`)
)

// generic are words that say nothing of what the skill does.
var generic = strings.Fields("please just it the skill this that you i we should can may must shall will is to be let run runs go goes ahead " +
	"work works act acts send sends post posts do does call calls use uses execute start starts proceed always every each time all and so then now")

// asking are words that are left of what is said about asking.
var asking = strings.Fields("before first any no not never but dont cannot must message messages goes out me us approval permission confirmation for because thanks thank now anyway")

// leads are words that may stand before the verb of a sentence.
var leads = strings.Fields("please just it the skill this that you should can may must shall will and then so also always ok okay yes i we want to let")

// approval takes in what the text says about asking the user before each call,
// and returns what it says besides.
func (d *draft) approval(text string) (rest string) {
	rest, _ = d.hearApproval(text)
	return rest
}

// hearApproval takes in what the text says about asking the user. In rest is all
// that may be a step, in other only what says nothing of it.
//
// Who asks to be asked must be, so that only plain words without anything that
// may turn them around end it; in doubt the user is asked.
func (d *draft) hearApproval(text string) (rest, other string) {
	var kept, rests []string
	for _, part := range parts(text) {
		words := own(saysNo.ReplaceAllString(part, ""))
		switch {
		case waived(words):
			d.Approval, d.Confirm = false, ""
		case asks.MatchString(words):
			d.Approval = true
		default:
			kept, rests = append(kept, part), append(rests, part)
			continue
		}
		if isStep(part, words) {
			kept = append(kept, part)
		}
	}
	return strings.TrimSpace(strings.Join(kept, "")), strings.TrimSpace(strings.Join(rests, ""))
}

// parts cuts the text into sentences, with what is between them. The items of a
// list stay with what introduces them, which may forbid them all.
func parts(text string) []string {
	var out []string
	begin := 0
	for _, at := range partEnd.FindAllStringIndex(text, -1) {
		before := strings.TrimSpace(text[begin:at[0]])
		if strings.HasSuffix(before, ":") || strings.HasSuffix(before, ",") || listItem.MatchString(text[at[1]:]) {
			continue
		}
		out = append(out, text[begin:at[1]])
		begin = at[1]
	}
	return append(out, text[begin:])
}

// own returns the plain words, in which the approval of others is no word that
// the patterns know.
func own(text string) string {
	words := " " + strings.Join(plain(text), " ") + " "
	return whose.ReplaceAllStringFunc(words, func(m string) string {
		switch owner := whose.FindStringSubmatch(m)[1]; owner {
		case " me", " us", " mine", " ours", " the user":
			return " my approval"
		}
		return " their_word"
	})
}

// waived reports whether the words give up the user's approval without doubt.
func waived(words string) bool {
	at, bare := waives.FindStringIndex(words), false
	if at == nil {
		at, bare = needless.FindStringIndex(words), true
	}
	if at == nil {
		return false
	}
	before, behind := words[:at[0]]+" ", words[at[1]:]
	if doubtful.MatchString(before) || doubtful.MatchString(behind) || !follows.MatchString(behind) {
		return false
	}
	said := strings.Fields(before)
	if !slices.ContainsFunc(said, func(w string) bool { return !slices.Contains(generic, w) }) {
		return true
	}
	for len(said) > 0 && slices.Contains(leads, said[0]) {
		said = said[1:]
	}
	return !bare && len(said) > 0 && isVerb(said[0]) && !others.MatchString(before)
}

// isStep reports whether the sentence says what the skill does, and not only
// whether it asks.
func isStep(part, words string) bool {
	for _, p := range []*regexp.Regexp{waives, needless, asks} {
		words = p.ReplaceAllString(words, "  ")
	}
	says := slices.ContainsFunc(strings.Fields(words), func(w string) bool { return !slices.Contains(generic, w) && !slices.Contains(asking, w) })
	if !says {
		return false
	}
	steps, inputs := details(part)
	return len(inputs) == 0 && steps[0] != ""
}
