package modelrun

import (
	"context"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// asked keeps what a call waits for.
func (m *modelRun) asked(ctx context.Context, a *llm.Ask) {
	if a.Use.ID == "" {
		m.asking = a.Text
		return
	}
	if a.Use.Name == ToolHelp {
		m.needs(a)
		return
	}
	if t, ok := m.Tools.(Asker); ok {
		if questions, report, ok := t.Asked(ctx, a.Use.ID); ok {
			m.asks = union(m.asks, questions)
			if report != nil {
				m.reports = append(m.reports, *report)
			}
			return
		}
	}
	m.asks = append(m.asks, mesh.Question{Execution: m.inv.Execution, Call: a.Use.ID, Text: a.Text})
}

// pauses reports whether a limit was met at which the user is asked: where a yes helps.
func (m *modelRun) pauses() bool {
	return m.trip != nil && limit.Renewed(m.trip.Limit) && (m.Pause || limit.Shared(m.trip.Limit))
}

// ask is what the user is asked when the run is over; without text for nothing.
func (m *modelRun) ask(ctx context.Context) agent.Ask {
	reports := m.reports
	if m.pauses() {
		did, err := m.inv.Mesh.Actions(ctx)
		if err != nil {
			did = new(thread.Actions)
			m.Logger.WarnContext(ctx, "what is done cannot be read for a report", "execution", m.inv.Execution, "err", err)
		}
		own := agent.Report{Limit: m.trip.Limit, Most: m.trip.Most, Free: m.trip.Free}
		had := soFar(did)
		work := agent.Work{Done: had.done, Open: m.kept(had.done)}
		if len(work.Done) == 0 && m.before.tripped { // there is nothing newer to tell of
			work.Done = m.before.did
		}
		own.Add(work, agent.Work{Open: m.open})
		if m.trip.Conclude && !m.inv.Grant.Direct() {
			own.Said = mesh.Clip(m.said, agent.MaxSaid)
		}
		reports = append(reports, own)
		if t, ok := m.Tools.(Reporter); ok {
			questions, others := t.Report(ctx)
			m.asks, reports = union(m.asks, questions), append(reports, others)
		}
	}
	if m.asking != "" { // and then no call waits
		return agent.Ask{Text: m.asking}
	}
	if m.help != nil && len(m.asks) == 0 && len(reports) == 0 { // else the user first, and the call is made again
		return *m.help
	}
	if len(reports) == 0 {
		return agent.AskAbout(m.asks, nil)
	}
	r := agent.Merge(reports)
	return agent.AskAbout(m.asks, &r)
}

// kept is what the limit before kept from happening, as far as it still counts and
// was not done since: after the user's yes, or if there is nothing newer. done is what
// was done.
func (m *modelRun) kept(done []string) []string {
	if !m.before.tripped || mesh.AnswerOf(m.inv.Text()) != mesh.AnswerYes && len(m.open) > 0 {
		return nil
	}
	kept := slices.Clone(m.before.open)
	for _, did := range done[min(len(done), len(m.before.done)):] {
		at := slices.Index(kept, did)
		if at < 0 { // its arguments may have been put differently
			name, _, _ := strings.Cut(did, "(")
			at = slices.IndexFunc(kept, func(x string) bool { return strings.HasPrefix(x, name+"(") })
		}
		if at >= 0 {
			kept = slices.Delete(kept, at, at+1)
		}
	}
	return kept
}

// declined is the end of an agent's work that the user does not want to go on.
func declined(done, open []string) error {
	return &mesh.Error{Code: mesh.Canceled, Op: "modelrun.Run", Reason: mesh.ReasonDeclined, Detail: text.Stopped(done, open)}
}

func union(a, b []mesh.Question) []mesh.Question {
	out := slices.Clip(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}
