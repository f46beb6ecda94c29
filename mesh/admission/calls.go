package admission

import (
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/quota"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/thread"
)

// Bounds of what a state keeps in memory of calls, in bytes.
const (
	maxName   = 160 // of skills, tools and limits, and of ids of calls
	maxDetail = 4 << 10
)

// Bounds of what one reply of a model can say it used, so that sums stay sums.
const (
	maxTokens = 1 << 32
	maxCost   = 1e6
)

// spent is what a request has used of the limits.
type spent struct {
	trip  *limit.Trip // that stopped the request
	calls int         // of skills
	used  mesh.Budget // of budgets, with these calls
	steps int         // replies that call tools
	taken int         // of them, counted for the user
	// Agents that count for the quotas, by the events that dispatched them.
	agents map[*mesh.Event]*quota.Place
	vacant int                // that were at work, and whose room no other one has got
	began  []mesh.ExecutionID // that hold a place
}

// dispatches is what the events want of the quotas.
func dispatches(events []*mesh.Event) (q limit.Quota) {
	for _, e := range events {
		if _, ok := e.Body.(mesh.DispatchIssued); ok {
			q = q.Plus(oneAgent)
		}
	}
	return q
}

var oneAgent = limit.Quota{Agents: 1, Dispatches: 1}

// giveBack gives back what was taken, because nothing is appended, or it is
// decided anew.
func (w *ruling) giveBack() {
	if w.request == nil { // it was not decided
		return
	}
	w.by.users.Return(w.payer(), w.taken)
	for _, p := range w.agents {
		p.GiveBack()
	}
	for _, id := range w.began {
		w.by.places.free(id)
	}
	w.spent = spent{}
}

// settle says where what was taken of the quotas is in the log; what the log had already
// counts once.
func (s *spent) settle() {
	for e, p := range s.agents {
		if p.Placed(e.Pos); e.Pos == 0 {
			p.GiveBack()
		}
	}
}

func (w *ruling) payer() string { return payer(w.grant.Tenant, w.grant.User) }

// delegators are the agents that have others do their work.
type delegators struct {
	read  bool // they may call skills that only read
	names []string
}

// mayCall refuses skills that are not granted, and those that the agent of the
// grant has to have others call.
func (w *ruling) mayCall(i int, name string) error {
	if name == mesh.CallCreateSkill {
		return w.mayCreate(i)
	}
	if !w.grant.AllowsSkill(name) {
		return w.refuse(i, fmt.Sprintf("the skill %q is not granted", clip(name)))
	}
	if err := w.permitted(mesh.ActSkillCall, name); err != nil {
		return err
	}
	if !slices.Contains(w.by.delegators.names, w.grant.Agent) {
		return nil
	}
	if !w.by.delegators.read {
		return mesh.Errorf(mesh.Denied, w.op, "the agent %s calls no skills itself; dispatch an agent that does", w.grant.Agent)
	}
	if s, ok := w.skill(name); !ok || s.Access != skill.AccessRead {
		return mesh.Errorf(mesh.Denied, w.op, "the agent %s itself calls only skills with the access read, and %q is none; dispatch an agent that does", w.grant.Agent, clip(name))
	}
	return nil
}

// skill is what the mesh knows of the skill, if anything.
func (w *ruling) skill(name string) (*skill.Skill, bool) {
	if w.by.skills == nil {
		return nil, false
	}
	return w.by.skills.For(w.grant.Tenant).Get(name)
}

// checkCall says whether the call is made, and checks that the skill may be called, and that there is room for the
// call in all limits; where there is none it sets trip. A call that the thread
// has already is not counted again.
func (w *ruling) checkCall(i int, e *mesh.Event, b mesh.SkillCalled) error {
	if err := w.mayCall(i, b.Skill); err != nil {
		return err
	}
	if b.Skill == mesh.CallCreateSkill && !w.byNode {
		return w.refuse(i, "the mesh itself notes what it does; call CreateSkill")
	}
	if err := w.bounded(i, "skill_called", span{"call", b.Call, 0, maxName}, span{"skill", b.Skill, 1, maxName},
		span{"source", b.Source, 0, maxName}, span{"version", b.Version, 0, maxName}); err != nil {
		return err
	}
	if b.Version == "" { // or another one could be called than was asked about
		b.Version = w.version(b.Skill)
	}
	b.NotMade = w.grant.Dry && w.effects(b.Skill)
	e.Body = b
	if w.st.Seen(e.ID) {
		return nil
	}
	if err := w.stands(); err != nil {
		return err
	}
	w.begun[b.Call], w.called[b.Call] = e.ID, b.Skill
	mine := w.mine
	approved, settled := w.answers[b.Call]
	if !w.grant.Dry && (settled && !approved || !settled && (mine.Approval(b.Call) != nil || w.away.asked[b.Call]) || !w.approved(b)) {
		return &mesh.Error{Code: mesh.Precondition, Op: w.op, Reason: mesh.ReasonApproval, Forbidden: true, Detail: fmt.Sprintf(
			"the call %q of %s is not approved, with these arguments; it can be made when the user has been asked and has said so", clip(b.Call), clip(b.Skill))}
	}
	if open := len(mine.Unsettled) + w.calls + w.away.calls; open >= thread.MaxUnsettled {
		return mesh.Errorf(mesh.Exhausted, w.op, "%d skill calls of the execution have not returned; let them return first", open)
	}
	e.Time = w.now // by which the window is counted, and not by the agent's clock
	if w.trip = w.ledger().Check(limit.StopsCalls); w.trip == nil {
		_, w.trip = w.by.quotas.Take(w.grant.Tenant, w.grant.User, limit.Quota{})
	}
	if w.trip == nil {
		w.trip = w.by.users.Take(w.payer(), w.now)
	}
	if w.trip != nil {
		return w.trip.Err(w.op)
	}
	w.calls++
	w.taken++
	w.used.Calls++
	return nil
}

// ledger has what counts for the execution, with this request and what is on its way.
func (w *ruling) ledger() limit.Ledger {
	mine := w.mine
	s := limit.Spent{Steps: mine.Calls.Steps + w.steps, Children: mine.Calls.Agents + int(w.used.Agents) + w.away.dispatched[mine.ID], Calls: mine.Calls.Skills + w.calls + w.away.calls,
		MostCalls: mine.MaxToolCalls, Dispatched: w.st.Turn(mine.Parent) == nil}
	if t := w.st.TurnOf(mine.ID); t != nil {
		s.Turn, s.Agents = t.Calls.Skills+w.calls+w.away.turn, w.agentsOf(t)
	}
	n, first := w.st.CallsWithin(w.now, w.by.budgets.Period())
	if s.Thread, s.ThreadFirst = n+w.calls+w.away.thread, first; n == 0 {
		s.ThreadFirst = w.now
	}
	s.Cost = w.st.Usage.Spent().Cost + w.away.cost + w.used.Cost
	l := append(w.by.budgets.Ledger(s), w.time(w.by.terms(w.grant.Tenant, w.grant.Agent, "")))
	for x := range w.st.Up(mine.ID) {
		l = append(l, limit.Shares(x.Budget, x.Used.Add(w.away.below[x.ID]).Add(w.used))...)
	}
	return l
}

// agentsOf is how many agents were dispatched in the turn, so that another one of the
// execution counts as one more.
func (w *ruling) agentsOf(turn *thread.Execution) int {
	n := turn.Calls.Agents + int(w.used.Agents)
	for by, more := range w.away.dispatched {
		n += more
		if x := w.st.Execution(by); by != w.mine.ID && x != nil {
			n += w.st.Counts(x, turn) - 1
		}
	}
	return n + w.st.Counts(w.mine, turn) - 1
}

// shares is what the execution may use yet of its own budget and of those above.
func (w *ruling) shares() (left mesh.Budget) {
	for x := range w.st.Up(w.mine.ID) {
		left = left.Within(x.Budget.Less(x.Used.Add(w.away.below[x.ID]).Add(w.used)))
	}
	return left
}

// remaining is what the execution may still use of everything.
func (w *ruling) remaining() limit.Left {
	l := append(w.ledger(), w.by.users.Account(w.payer(), w.now))
	return l.Left().Within(w.by.quotas.Left(w.grant.Tenant, w.grant.User))
}

// tripped is the fact that a limit was met; nothing if the log has it since the
// user's last message: for an agent's own limit of this execution, for all
// others of the turn.
func (w *ruling) tripped() []*mesh.Event {
	of, turn := w.mine, w.st.TurnOf(w.mine.ID)
	if turn != nil && !strings.HasPrefix(w.trip.Limit, "agent.") {
		of = turn
	}
	noted := func(t trip) bool {
		return t.limit == w.trip.Limit && (t.of == of.ID || of == turn && w.st.TurnOf(t.of) == turn)
	}
	if of.HasTripped(w.trip.Limit) || slices.ContainsFunc(w.away.tripped, noted) {
		return nil
	}
	return []*mesh.Event{{ID: mesh.NewEventID(), Time: w.now, Execution: w.grant.Execution, Actor: "node", Body: w.trip.Fact()}}
}

// returns are those of a request, and the calls that it makes itself.
type returns struct {
	begun   map[string]string // call -> id of the event that made it
	called  map[string]string // call -> skill, of those
	settled map[string]bool   // calls made before that have returned by now
	loose   []loose
	ended   []outcome
}

// A loose return is of no call that the state knows to be open. It is taken if
// the log has it already, or if by, the event of the request that made its call,
// is new: one with the id of another event is dropped by the log.
type loose struct {
	at           int
	id, call, by string
}

// checkReturned checks that the execution has made the call and that it has not
// come back before, unless the same is sent again. For what the state does not
// say, see checkLoose.
func (w *ruling) checkReturned(i int, e *mesh.Event, b mesh.SkillReturned) error {
	err := w.bounded(i, "skill_returned", span{"call", b.Call, 0, maxName}, span{"content", b.Content, 0, mesh.MaxResult})
	if err != nil {
		return err
	}
	if b.Duration < 0 {
		return mesh.InvalidField(w.op, fmt.Sprintf("events[%d].skill_returned.duration", i), "must not be negative, and is %v", b.Duration)
	}
	if skill, open := w.mine.Unsettled[b.Call]; open && !w.settled[b.Call] && !w.away.returned[b.Call] {
		if skill == mesh.CallCreateSkill && !w.byNode {
			return w.refuse(i, "the mesh itself notes what came of it")
		}
		w.settled[b.Call] = true
		w.ended = append(w.ended, w.outcomeOf(skill, b))
		return nil
	}
	if skill, ok := w.called[b.Call]; ok {
		w.ended = append(w.ended, w.outcomeOf(skill, b))
		delete(w.called, b.Call)
	}
	w.loose = append(w.loose, loose{i, e.ID, b.Call, w.begun[b.Call]})
	delete(w.begun, b.Call)
	return nil
}

// checkLoose checks the loose returns of the request by one look at the log.
func (w *ruling) checkLoose() error {
	if len(w.loose) == 0 {
		return nil
	}
	after := w.mine.Opened
	var ids []string
	for _, l := range w.loose {
		ids = append(ids, l.id)
		if l.by != "" { // whose event may have the id of any other
			ids, after = append(ids, l.by), 0
		}
	}
	known, err := w.look(after, ids)
	if err != nil {
		return err
	}
	for _, l := range w.loose {
		if made := l.by != "" && !known[l.by]; !made && !known[l.id] {
			return w.refuse(l.at, fmt.Sprintf("the execution has no call %q that has not returned", clip(l.call)))
		}
	}
	return nil
}

// checkReplied checks what the reply says it cost: the numbers are added up.
func (w *ruling) checkReplied(i int, b mesh.ModelReplied) error {
	u := b.Usage
	if min(u.Prompt, u.Completion, u.Cached, u.CacheWrite, u.Unpriced) < 0 || max(u.Prompt, u.Completion, u.Cached, u.CacheWrite, u.Unpriced) > maxTokens {
		return mesh.InvalidField(w.op, fmt.Sprintf("events[%d].model_replied.usage", i), "has numbers of tokens that cannot be; each must be 0 to %d", int64(maxTokens))
	}
	if !(u.Cost >= 0 && u.Cost <= maxCost) { // and is a number
		return mesh.InvalidField(w.op, fmt.Sprintf("events[%d].model_replied.usage.cost", i), "is %v; it must be 0 to %v US dollars", u.Cost, maxCost)
	}
	w.used = w.used.Add(u.Spent())
	if len(b.Tools) > 0 {
		w.steps++
	}
	return nil
}

func (w *ruling) checkTool(i int, b mesh.ToolReturned) error {
	return w.bounded(i, "tool_returned",
		span{"call", b.Call, 0, maxName}, span{"name", b.Name, 1, maxName}, span{"content", b.Content, 0, mesh.MaxResult}, span{"cause", string(b.Cause), 0, maxName})
}

// A span is a text that must be of some length, in bytes.
type span struct {
	field, text string
	least, most int
}

func (w *ruling) bounded(i int, kind string, spans ...span) error {
	for _, s := range spans {
		if n := len(s.text); n < s.least || n > s.most {
			return mesh.InvalidField(w.op, fmt.Sprintf("events[%d].%s.%s", i, kind, s.field), "has %d bytes; it must have %d to %d", n, s.least, s.most)
		}
	}
	return nil
}

// clip keeps what an agent named short.
func clip(s string) string { return mesh.Clip(s, 64) }
