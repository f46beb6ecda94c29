package thread

import (
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// mediaOf are the pictures and files among the parts: those with bytes or a URL.
func mediaOf(parts []*a2apb.Part) []*a2apb.Part {
	var out []*a2apb.Part
	for _, p := range parts {
		switch p.GetContent().(type) {
		case *a2apb.Part_Raw, *a2apb.Part_Url:
			out = append(out, p)
		}
	}
	return out
}

// Media returns the pictures and files that the users sent or were shown, oldest first, as
// the parts that they were. They are shared with the events.
func (t *Transcript) Media() []*a2apb.Part {
	var out []*a2apb.Part
	for _, l := range slices.Concat(t.lines, t.waiting) {
		out = append(out, l.media...)
		for _, a := range l.texts {
			out = append(out, a.media...)
		}
	}
	return out
}
