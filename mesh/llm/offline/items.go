package offline

import (
	"slices"
	"strings"
)

// itemize writes out a list of things to make: "create tasks: a, b" is "create
// a task: a" and "create a task: b". It returns false if the text has no such
// list.
func itemize(c clause) (clause, bool) {
	for i := range c.tokens {
		if i > 0 && c.at(i-1).kind != punct && c.from(i-1).startsWith(sequence)+c.from(i-1).startsWith(addition) == 0 {
			continue
		}
		at := i + c.from(i).opening()
		head := c.from(at)
		if c.at(i).kind == punct || len(head.tokens) == 0 || !slices.Contains(actsOf(head.at(0).stem), doCreate) || head.imperative(nil) == 0 {
			continue
		}
		noun, first := listHead(c, at)
		if noun == "" {
			continue
		}
		items, end := listItems(c, first)
		if len(items) < 2 {
			continue
		}
		var lines []string
		for _, item := range items {
			lines = append(lines, c.at(at).text+" a "+noun+": "+whole(item))
		}
		rest := ""
		if end < len(c.tokens) {
			rest = "\n" + c.text[c.at(end).start:]
		}
		return newClause(c.text[:c.at(at).start] + strings.Join(lines, "\n") + rest), true
	}
	return c, false
}

// whole quotes an item that would be taken apart otherwise.
func whole(item string) string {
	c := newClause(item)
	for i := range c.tokens {
		t := c.at(i)
		if (t.is(",", ";") || c.from(i).startsWith(sequence) > 0) && !strings.Contains(item, `"`) {
			return `"` + item + `"`
		}
	}
	return item
}

// listHead reads what stands between the verb and the items of a list: the kind
// of the things, and where the first item is. It returns "" if that is no list.
func listHead(c clause, verb int) (noun string, first int) {
	const most = 5 // words between
	for i := verb + 1; i < min(verb+1+most, len(c.tokens)); i++ {
		t := c.at(i)
		plural := t.kind == word && strings.HasSuffix(t.low, "s") && len(t.low) > 3 && !strings.HasSuffix(t.low, "ss") && !determiners[t.low] && !pronouns[t.low]
		list := t.is("list") && slices.Contains(thingsOf(c.at(i-1).stem), aTask)
		if t.kind != word {
			return "", 0
		}
		next := i + 1
		for c.at(next).is("called", "named", "titled", "for", "to") && c.at(next+1).kind != word {
			next++
		}
		marked := c.at(next).is(":")
		switch {
		case !plural && !list, !marked && c.at(next).kind != quoted:
			continue
		case marked:
			next++
		}
		if list {
			return "task", next
		}
		return singular(t.low), next
	}
	return "", 0
}

func singular(plural string) string {
	if base, ok := strings.CutSuffix(plural, "ies"); ok {
		return base + "y"
	}
	return strings.TrimSuffix(plural, "s")
}

// listItems returns the items of a list that begins at a token, and the token
// where it ends: with the sentence, or where something else to do begins. A
// list that begins on a line of its own has an item on each line.
func listItems(c clause, first int) (items []string, end int) {
	byLine := c.at(first).is("\n")
	begin := first
	flush := func(to int) {
		item := clause{c.text, c.tokens[min(begin, to):to]}
		for len(item.tokens) > 0 && (item.at(0).kind == punct || item.at(0).is("and") || listNumber(c, begin)) {
			item, begin = item.from(1), begin+1
		}
		if len(item.tokens) > 0 {
			items = append(items, item.words())
		}
	}
	for i := first; i <= len(c.tokens); i++ {
		t := c.at(i)
		closing := i == len(c.tokens) || t.is(";", "!", "?") || t.is(".") && !abbreviation(c.at(i-1)) && !listNumber(c, i-1) || !byLine && t.is("\n") || byLine && t.is("\n") && i > first && c.at(i+1).is("\n")
		closing = closing || !byLine && c.from(i).startsWith(sequence) > 0 && c.at(i-1).kind == punct
		if closing {
			flush(i)
			return items, i
		}
		between := byLine && t.is("\n") || !byLine && t.is(",", "and", "&")
		if !between {
			continue
		}
		if other(c.from(i + 1)) {
			flush(i)
			return items, i
		}
		flush(i)
		begin = i + 1
	}
	return items, len(c.tokens)
}

// other reports whether the clause tells to send something to an address: that
// is no item of a list of things to make.
func other(c clause) bool {
	c = c.from(c.startsWith(addition))
	if !slices.Contains(actsOf(c.at(0).stem), doSend) {
		return false
	}
	const far = 64 // words
	for i := range min(far, len(c.tokens)) {
		if t := c.at(i); t.kind == email {
			return true
		} else if t.kind == punct {
			return false
		}
	}
	return false
}
