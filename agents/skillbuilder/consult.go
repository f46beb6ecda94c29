package skillbuilder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
)

// mainTime is how long the main agent may take to answer, as it may have others work.
const mainTime = 11 * time.Minute

// maxAnswers is how often main may ask the user back about one thing.
const maxAnswers = 5

// passed is what main was asked and has not answered yet: the order's label, the words, and
// what the user said to what main asked back. Asked says that it asked back and waits.
type passed struct {
	Label   string   `json:"label"`
	Words   string   `json:"words"`
	Answers []string `json:"answers,omitempty"`
	Asked   bool     `json:"asked,omitempty"`
}

// pass has the main agent answer the words, in this stream, and puts the question of the
// session again. What was passed is noted first, so that it is answered also when the process
// ends in between, and once.
func (r *run) pass(ctx context.Context, t talk, words string) error {
	if r.Conns == nil || r.inv.Grant.Agent == r.Main {
		t.Hint = "That is for somebody else, and here I can only build a skill with you."
		return r.ask(ctx, t)
	}
	d := r.dispatcher(ctx)
	defer d.Close()
	return r.begin(ctx, t, d, passed{Words: words})
}

// begin notes what main is asked, and asks it.
func (r *run) begin(ctx context.Context, t talk, d *dispatch.Dispatcher, p passed) error {
	p.Label, p.Asked = fmt.Sprintf("%s-%d", r.Main, len(d.List())+1), false
	t.Draft.Passed = &p
	if err := r.keep(ctx, t); err != nil {
		return err
	}
	return r.relay(ctx, t, d)
}

// goOn goes on where main was asked and did not answer yet.
func (r *run) goOn(ctx context.Context, t talk) error {
	d := r.dispatcher(ctx)
	defer d.Close()
	text, p := r.inv.Text(), *t.Draft.Passed
	switch {
	case !r.inv.Resumed:
	case isCancel(text):
		d.Cancel(p.Label)
		t.Draft.Passed = nil
		return r.leave(ctx, t, keptSoFar)
	case p.Asked && strings.Join(plain(text), " ") == "skip":
		return r.answered(ctx, t, "")
	case p.Asked && tooLong(text, p.Answers...) != "": // main's question is put again
		r.say(agent.Text{Text: tooLong(text, p.Answers...) + "\n\n"})
	case p.Asked:
		p.Answers = append(p.Answers, text)
		return r.begin(ctx, t, d, p)
	}
	return r.relay(ctx, t, d)
}

// dispatcher has the main agent asked, and nobody else.
func (r *run) dispatcher(ctx context.Context) *dispatch.Dispatcher {
	return dispatch.New(ctx, r.inv, r.Conns, r.Dispatch)
}

// relay waits for the answer of main to what was passed, and says it. Where main has to ask
// the user, for an approval, that is asked, and the next message comes here again.
func (r *run) relay(ctx context.Context, t talk, d *dispatch.Dispatcher) error {
	p := t.Draft.Passed
	r.say(agent.Progress{Text: "Asking the main assistant…"})
	reply := ""
	if err := order(ctx, d, r.Main, p); err != nil {
		reply = "I could not ask the main assistant: " + detail(err)
	} else {
		result, done := d.Done(ctx, p.Label)
		if err := ctx.Err(); err != nil {
			return err
		}
		if !done {
			if ask, waits := d.Ask(ctx); waits {
				ask.Text += "\n\n" + exit
				r.say(ask)
				return nil
			}
		}
		if reply = answer(result); result.Status == dispatch.StatusAwaiting && len(p.Answers) < maxAnswers {
			p.Asked = true
			if err := r.keep(ctx, t); err != nil {
				return err
			}
			r.say(agent.Ask{Text: reply + "\n\nSay “skip” to go on with " + t.Draft.title() + ". " + exit})
			return nil
		}
	}
	return r.answered(ctx, t, reply+"\n\n")
}

// answered says what main answered, and puts the question of the session again.
func (r *run) answered(ctx context.Context, t talk, reply string) error {
	r.say(agent.Text{Text: reply})
	t.Draft.Passed = nil
	if err := r.keep(ctx, t); err != nil {
		return err
	}
	return r.ask(ctx, t)
}

// order dispatches what was passed, unless that was done before.
func order(ctx context.Context, d *dispatch.Dispatcher, main string, p *passed) error {
	for _, had := range d.List() {
		if had.AgentID == p.Label {
			return nil
		}
	}
	return errors.Join(d.Dispatch(ctx, []dispatch.Order{{AgentID: p.Label, Name: main, Mission: p.Words, Answers: p.Answers, Timeout: mainTime}})...)
}

// answer is what the user reads of main's.
func answer(r dispatch.Result) string {
	text := strings.TrimSpace(r.Result)
	switch r.Status {
	case dispatch.StatusCompleted:
		return "The main assistant says: " + text
	case dispatch.StatusAwaiting:
		return "The main assistant asks: " + text
	}
	return "The main assistant could not answer: " + text
}

// detail is what the user may read of the error.
func detail(err error) string {
	if d := mesh.DetailOf(err); d != "" {
		return d
	}
	return "it is not available now"
}
