package agent

import (
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/text"
)

// MaxAsk bounds what the user is asked at a time, in bytes; one question alone
// may have maxPiece.
const MaxAsk = maxPiece / 2

// AskAbout asks the user the questions and, with a report, whether to go on:
// several are numbered and answered together. What would make it too long is left
// out, to be asked when the others have been answered.
func AskAbout(questions []mesh.Question, report *Report) Ask {
	a := Ask{Approval: len(questions) > 0, Report: report}
	all := slices.Clone(questions)
	nameless := slices.ContainsFunc(all, func(q mesh.Question) bool { return q.Call == "" })
	if report != nil {
		all = append(all, mesh.Question{Text: report.Text()})
	}
	if len(all) == 0 {
		return a
	}
	var b strings.Builder
	n := 0
	for ; n < len(all); n++ {
		q := &all[n]
		q.Text = strings.ToValidUTF8(q.Text, "\uFFFD")
		lines := strings.TrimSpace(q.Text)
		lines = strings.ReplaceAll(strings.ReplaceAll(lines, "\n", "\n   "), "\n   \n", "\n\n")
		if b.Len()+len(lines) > MaxAsk {
			break
		}
		if n > 0 {
			b.WriteString("\n\n")
		}
		fmt.Fprintf(&b, "%d. ", n+1)
		q.At, q.Size = b.Len(), len(lines)
		b.WriteString(lines)
	}
	if a.Text = b.String() + "\n\n" + text.AnswersAll(); n < 2 {
		n, a.Text = 1, all[0].Text
		all[0].At, all[0].Size = 0, len(all[0].Text)
	}
	if !nameless { // an agent of before asks in words alone, which then have to do for all
		a.Questions = all[:min(n, len(questions))]
	}
	return a
}
