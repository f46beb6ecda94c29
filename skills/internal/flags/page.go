package flags

import (
	"fmt"
	"math"
	"strings"

	"agentmesh/mesh/skill"
)

// maxPage bounds the text of a page, in bytes. It is less than what a model is
// told of a result, so that nothing is cut from a page and its note is true.
const maxPage = 12 << 10

// A Page is the part of a list that a call asks for: at most Limit elements,
// after the first Offset ones.
type Page struct{ Offset, Limit int }

// PageOf reads the flags offset, which is 0 if it is not there, and limit, which
// is def then and at most so much.
func PageOf(call *skill.Call, def, most int) (p Page, err error) {
	if p.Offset, err = Int(call, "offset", 0, 0, math.MaxInt32); err != nil {
		return p, err
	}
	p.Limit, err = Int(call, "limit", def, 1, most)
	return p, err
}

// Has reports whether the element at that place is of the page.
func (p Page) Has(i int) bool { return i >= p.Offset && i < p.Offset+p.Limit }

// A Part is the page of a list as it is shown: the elements From to To, To not
// included, counted from 0.
type Part struct {
	From, To   int
	note, text string
}

// Of returns the page of a list that has so many elements. What element returns
// for the place of each is written on lines of its own, and as much as fits in
// 12 KiB, but the first one in any case.
func (p Page) Of(total int, element func(i int) string) Part {
	part := Part{From: min(p.Offset, total)}
	part.To = part.From
	var b strings.Builder
	for ; part.To < total && p.Has(part.To); part.To++ {
		one := "\n" + element(part.To)
		if b.Len() > 0 && b.Len()+len(one) > maxPage {
			break
		}
		b.WriteString(one)
	}
	part.text = b.String()
	switch shown := part.To - part.From; {
	case shown == total:
	case shown == 0:
		part.note = fmt.Sprintf("There are %d, and none from offset %d on.", total, p.Offset)
	case part.To < total:
		part.note = fmt.Sprintf("Shown are %d to %d of %d; go on with --offset %d.", part.From+1, part.To, total, part.To)
	default:
		part.note = fmt.Sprintf("Shown are %d to %d of %d, which are the last.", part.From+1, part.To, total)
	}
	return part
}

// Under returns the part below a head. Between them, where they are not cut off,
// are lines that say which elements are shown if these are not all, with which
// offset to go on, and the notes that are not empty.
func (p Part) Under(head string, notes ...string) string {
	for _, n := range append([]string{p.note}, notes...) {
		if n != "" {
			head += "\n" + n
		}
	}
	if p.text != "" {
		head += "\n" + p.text
	}
	return head
}
