package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/text"
)

// maxReply bounds one reply with its calls, in bytes: it must fit in an event,
// and a model that repeats itself without end must end.
const maxReply = mesh.MaxEvent / 2

// Commands takes commands out of what a model writes, and writes down what
// they came to. It is safe for concurrent use.
type Commands interface {
	// Split returns a splitter for one reply.
	Split() Splitter
	// Results is the message that tells the model what the commands of one
	// reply came to, in their order. The arguments of each Use are
	// {"line": "..."}; a result with an empty line is about the reply as a
	// whole. The same results give the same message.
	Results(results []*CallResult) Message
}

// A Splitter splits one reply, which it is given piece by piece.
type Splitter interface {
	// Write returns the text outside of commands, as soon as it is certain.
	Write(piece string) (text string)
	// Close returns the rest of it, and the calls in their order; they are
	// named CommandTool, and the loop gives them ids. problem says why the
	// commands of the reply, or some of them, cannot be run, or is "".
	Close() (text string, calls []mesh.ToolUse, problem string)
}

// plain is the splitter of loops without commands.
type plain struct{}

func (plain) Write(piece string) string               { return piece }
func (plain) Close() (string, []mesh.ToolUse, string) { return "", nil, "" }

// request returns what the model is asked next: the same as before with what
// the run added at its end.
func (r *run) request(tools []Tool, trip *Trip) *Request {
	messages := render(r.messages, r.loop.Commands)
	if trip != nil && r.loop.Commands != nil {
		// Models without tools are told by their absence; the instructions for
		// commands are still there.
		messages = append(messages, resultMessage(r.loop.Commands, []*CallResult{{
			Use:        wholeReply("limit"),
			ToolResult: ToolResult{Failed: true, Cause: mesh.CauseLimit, Text: text.AnswerNow(strings.TrimSuffix(trip.Detail, "."))},
		}}))
	}
	req := &Request{
		Model: r.loop.Name, System: r.loop.System, Context: r.loop.Context, Fresh: r.loop.Fresh,
		Messages: messages[min(r.dropped, len(messages)):], Tools: tools, MaxTokens: r.loop.MaxTokens, About: r.loop.About,
	}
	if req.About.Last = trip != nil; !req.About.Last {
		req.NativeTools = r.loop.NativeTools
	}
	req.Settled = settled(req.Messages)
	if r.loop.Fit != nil {
		r.dropped += r.loop.Fit(req, r.last)
		req.Settled = settled(req.Messages)
	}
	return req
}

// settled is the index of the last message that the user wrote: what comes
// before it was there before the run.
func settled(messages []Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == RoleUser && messages[i].ToolID == "" {
			return i
		}
	}
	return 0
}

// silent reports whether the reply says nothing and calls nothing.
func silent(reply *mesh.ModelReplied) bool {
	return strings.TrimSpace(reply.Text) == "" && len(reply.Tools) == 0
}

// ask gets one reply of the model and adds it to the conversation. The last
// reply of a run, after the trip of a limit, has no tools: calls that a model
// makes nevertheless are dropped. problem is what is wrong with the commands,
// and then the last of the reply's calls stands for it.
func (r *run) ask(ctx context.Context, tools []Tool, trip *Trip) (reply *mesh.ModelReplied, problem string, err error) {
	r.asked++
	req := r.request(tools, trip)
	begin := time.Now()
	reply, problem, err = r.stream(ctx, req, trip != nil)
	if r.loop.Cost != nil && err == nil {
		reply.Usage = r.loop.Cost(cmp.Or(reply.Model, req.Model), reply.Usage)
	}
	r.observe(ctx, req, reply, time.Since(begin), err)
	if err != nil || r.left {
		return reply, "", err
	}
	r.last = reply.Usage
	for i := range reply.Tools {
		reply.Tools[i].Name = listedName(reply.Tools[i].Name, tools)
	}
	r.identify(reply.Tools)
	if !silent(reply) {
		r.messages = append(r.messages, Message{Role: RoleAssistant, Text: reply.Text, Tools: reply.Tools, Asks: asks(reply), Thoughts: r.thought})
	}
	r.emit(Event{Reply: reply})
	return reply, problem, nil
}

// observe tells about a call of the model.
func (r *run) observe(ctx context.Context, req *Request, reply *mesh.ModelReplied, took time.Duration, err error) {
	if r.loop.Observe == nil {
		return
	}
	if err == nil && r.left {
		err = ctx.Err()
	}
	c := Call{Model: req.Model, Iteration: r.asked, Duration: took, Err: err}
	if err == nil {
		u := reply.Usage
		c.Input, c.Cached, c.CacheWrite, c.Output = u.Prompt, u.Cached, u.CacheWrite, u.Completion
		if reply.Model != "" {
			c.Model = reply.Model
		}
		if u.Prompt > 0 {
			c.HitRatio = min(1, float64(u.Cached)/float64(u.Prompt))
		}
	}
	r.loop.Observe(ctx, c)
}

// asks is what a message says of a reply that asks the user.
func asks(reply *mesh.ModelReplied) string {
	if reply.Finish == FinishAsk {
		return FinishAsk
	}
	return ""
}

// stream reads one reply and reports its text. Nothing but this reply is ever
// looked through for commands.
func (r *run) stream(ctx context.Context, req *Request, last bool) (*mesh.ModelReplied, string, error) {
	var text strings.Builder
	var split Splitter = plain{}
	if r.loop.Commands != nil {
		split = r.loop.Commands.Split()
	}
	reply := &mesh.ModelReplied{}
	r.thought = nil
	r.cites.learn(req.Messages)
	done, size := false, 0
	var sources []Source
	for c, err := range r.loop.Model.Generate(ctx, req) {
		if err != nil {
			return nil, "", failed(ctx, err)
		}
		switch {
		case c.Done != nil:
			done = true
			reply.Model, reply.Usage, reply.Finish = c.Done.Model, c.Done.Usage, c.Done.Finish
			r.thought, sources = c.Done.Thoughts, c.Done.Sources
			if c.Done.Ask != "" { // nothing of it is text: who runs the loop puts the question
				reply.Text, reply.Tools, reply.Finish = c.Done.Ask, nil, FinishAsk
				return reply, "", nil
			}
			if reply.Finish == FinishAsk { // who asks says what
				reply.Finish = "stop"
			}
		case c.Tool != nil:
			size += len(c.Tool.Name) + len(c.Tool.Arguments)
			if !last {
				reply.Tools = append(reply.Tools, *c.Tool)
			}
		case c.Native != nil:
			if !r.emit(Event{Native: c.Native}) {
				return reply, "", nil
			}
		case c.Text != "":
			size += len(c.Text)
			text.WriteString(c.Text)
			if !r.say(r.cites.write(split.Write(c.Text))) {
				return reply, "", nil
			}
		}
		if size > maxReply {
			return nil, "", mesh.Errorf(mesh.Exhausted, "llm.Loop", "The model's reply is longer than %d KiB and was cut off; ask for less at once", maxReply>>10)
		}
	}
	if !done {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		return nil, "", failed(ctx, mesh.Errorf(mesh.Unknown, "llm.Loop", "The model's reply ended before it was complete"))
	}
	rest, commands, problem := split.Close()
	reply.Text = text.String()
	r.say(r.cites.write(rest) + r.cites.close())
	if !last {
		reply.Tools = append(reply.Tools, commands...)
		if problem != "" {
			reply.Tools = append(reply.Tools, wholeReply(""))
		}
	}
	if len(reply.Tools) == 0 && strings.TrimSpace(reply.Text) != "" {
		r.say(cutNote(reply.Finish))
	}
	if len(reply.Tools) == 0 {
		r.say(r.cites.sources())
	}
	r.say(sourcesNote(reply.Text, sources))
	return reply, problem, nil
}

// failed is the error of a model that gave no reply, which programs can tell from others.
func failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	var e *mesh.Error
	if err = mesh.Wrap("llm.Loop", err); errors.As(err, &e) && e.Reason == "" {
		e.Reason = mesh.ReasonModel
	}
	return err
}

// say reports text of the model and returns false once nobody listens.
func (r *run) say(text string) bool {
	if text == "" {
		return !r.left
	}
	r.said = r.said || strings.TrimSpace(text) != ""
	return r.emit(Event{Text: text})
}

// sourcesNote is what the user reads behind an answer of the pages that it is based on and
// does not name itself.
func sourcesNote(answer string, sources []Source) string {
	var unnamed []string
	for _, s := range sources {
		if !strings.Contains(answer, s.URL) {
			unnamed = append(unnamed, text.Source(s.Title, s.URL))
		}
	}
	if len(unnamed) == 0 || strings.TrimSpace(answer) == "" {
		return ""
	}
	return text.Sources(unnamed)
}

// wholeReply is a call that stands for the commands of a reply as a whole.
func wholeReply(id string) mesh.ToolUse {
	return mesh.ToolUse{ID: id, Name: CommandTool, Arguments: `{"line":""}`}
}

// maxCallID bounds the ids of calls, in bytes: logs refuse longer ones, and so do
// providers other than the one that made it up.
const maxCallID = 128

// Finish reasons of replies that lack their end.
const (
	finishLength = "length"
	finishFilter = "content_filter"
)

// cutNote is what the user reads behind an answer that lacks its end.
func cutNote(finish string) string {
	switch finish {
	case finishLength:
		return text.CutByLength()
	case finishFilter:
		return text.CutByFilter()
	}
	return ""
}

// identify gives an id to calls that have none, one that is too long, or one that
// was used before in this conversation, so that results can be told apart.
func (r *run) identify(uses []mesh.ToolUse) {
	seen := map[string]bool{"": true}
	for _, m := range r.messages {
		for _, u := range m.Tools {
			seen[u.ID] = true
		}
	}
	for i := range uses {
		for n := i; seen[uses[i].ID] || len(uses[i].ID) > maxCallID; n++ {
			uses[i].ID = fmt.Sprintf("call-%d-%d", len(r.messages), n)
		}
		seen[uses[i].ID] = true
	}
}
