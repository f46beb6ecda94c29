package conformance

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
)

// mostHaste bounds the waits before an answer is sent again.
const mostHaste = 2 * time.Second

// say sends a text and judges what became of it, and of what is odd in it. Where the task
// that it answers is still being put away, as servers do after they asked, it is sent
// again: people are slower than that.
func (p *probe) say(ctx context.Context, t turn) (*exchange, Finding) {
	x := p.exchange(ctx, t)
	for wait := 100 * time.Millisecond; t.remote.GoesOn && x.last.Reason == call.ReasonError && len(x.answers) == 0 && wait < mostHaste; wait *= 2 {
		select {
		case <-time.After(wait):
			x = p.exchange(ctx, t)
		case <-ctx.Done():
			wait = mostHaste
		}
	}
	f := p.verdict(ctx, x)
	p.note(x.oddities(p.on.GetProtocolVersion())...)
	return x, f
}

// streams reports whether the mesh asks the agent for streams.
func (p *probe) streams() bool { return p.agent.Card.GetCapabilities().GetStreaming() }

func (p *probe) send(ctx context.Context) Finding {
	_, f := p.say(ctx, turn{text: p.Message})
	return f
}

func (p *probe) stream(ctx context.Context) Finding {
	if !p.streams() {
		return Finding{Verdict: Skipped, Cause: "the card does not say capabilities.streaming"}
	}
	_, f := p.say(ctx, turn{text: p.Message, stream: true})
	return f
}

// getTask asks for the last task that ended.
func (p *probe) getTask(ctx context.Context) Finding {
	x := p.answers
	if x.task == "" {
		return Finding{Verdict: Skipped, Cause: "the agent answers with messages, which are no tasks"}
	}
	task, err := p.client.GetTask(p.as(ctx, mesh.NewExecutionID(p.thread)), x.task)
	const follows = "keep tasks for some time: without that, a stream that breaks is lost"
	switch state := task.GetStatus().GetState(); {
	case err != nil:
		return Finding{Verdict: Warning, Cause: "its task cannot be asked for: " + causeOf(err), Remedy: follows}
	case task.GetId() != x.task:
		return Finding{Verdict: Warning, Cause: "it answers with another task than the one that was asked for", Remedy: "answer with the task of that id"}
	case state != x.last.State:
		return Finding{Verdict: Warning, Cause: fmt.Sprintf("the task is %s now, and ended as %s", stateName(state), stateName(x.last.State)), Remedy: follows}
	default:
		return Finding{Verdict: OK, Cause: "the task is " + stateName(state)}
	}
}

// memory talks three times in one context. Whether the agent remembers shows only if it
// repeats a word that nobody could guess.
func (p *probe) memory(ctx context.Context) Finding {
	word := strings.ToLower(rand.Text()[:12])
	remote := call.Remote{}
	var x *exchange
	for i, text := range []string{"Please remember the word " + word + ".", p.Message, "Which word should you remember?"} {
		before := remote.Context
		var f Finding
		if x, f = p.say(ctx, turn{text: text, stream: p.streams(), remote: remote}); !x.answered() {
			f.Cause = fmt.Sprintf("message %d of 3 in one conversation: %s", i+1, f.Cause)
			if i > 0 && (x.last.Reason == call.ReasonTaskNotFound || x.last.Reason == call.ReasonRefused) {
				f.Verdict, f.Remedy = Warning, "take messages under the contextId that the agent made; the mesh tells it all again each time"
			}
			return f
		}
		if remote = x.next(); remote.Context == "" {
			return Finding{Verdict: Warning, Cause: "the agent sends no context id; each message begins a new conversation",
				Remedy: "send contextId with each task or message, and take up the conversation when it comes back"}
		}
		if i > 0 && remote.Context != before {
			return Finding{Verdict: Warning, Cause: "the agent answers in another context than it was asked in; each message begins a new conversation",
				Remedy: "keep the contextId of a message that has one"}
		}
	}
	if !strings.Contains(strings.ToLower(x.words.String()), word) {
		return Finding{Verdict: Warning, Cause: "its context is taken up, and it does not say a word that it was told two messages before",
			Remedy: "if it should remember, keep the conversation by its contextId; an agent without a model may not"}
	}
	return Finding{Verdict: OK, Cause: "it says a word that it was told two messages before"}
}

func (p *probe) question(ctx context.Context) Finding {
	if p.Question == "" {
		return Finding{Verdict: Skipped, Cause: "no text was given that makes the agent ask"}
	}
	asked, f := p.say(ctx, turn{text: p.Question, stream: p.streams()})
	switch {
	case !asked.answered():
		return f
	case asked.last.State != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED:
		return Finding{Verdict: Failed, Cause: "the agent did not ask; its answer is " + asked.how(), Remedy: "end the task's turn with input_required and the question as message"}
	}
	if mesh.TextOf(asked.last.Message) == "" {
		p.note(oddity{"mute", "the agent waits for input and does not say for which", "send the question as message of the status"})
	}
	x, f := p.say(ctx, turn{text: p.Answer, stream: p.streams(), remote: asked.next()})
	if f.Verdict == OK {
		f.Cause = fmt.Sprintf("it asks %q; then %s", mesh.Clip(mesh.TextOf(asked.last.Message), 80), x.how())
	} else {
		f.Cause = "after the answer: " + f.Cause
	}
	return f
}

// cancel cancels a task as soon as it has one, and one that is over.
func (p *probe) cancel(ctx context.Context) Finding {
	text := p.Long
	if text == "" {
		text = p.Message
	}
	stop := func(task string) error {
		return p.client.CancelTask(p.as(ctx, mesh.NewExecutionID(p.thread)), task)
	}
	var refused error
	x := p.exchange(ctx, turn{text: text, stream: p.streams(), heard: func(task string) { refused = stop(task) }})
	switch {
	case x.task == "" && x.answered():
		return Finding{Verdict: Skipped, Cause: "the agent answers with messages, which are no tasks"}
	case x.task == "":
		return p.verdict(ctx, x)
	case x.answered() && x.last.State == a2apb.TaskState_TASK_STATE_CANCELED:
		return Finding{Verdict: OK, Cause: "the task is canceled"}
	case x.answered(): // before it could be, or while it was
		return ended(x, stop(x.task))
	case refused != nil:
		return Finding{Verdict: Warning, Cause: "the task cannot be canceled: " + causeOf(refused), Remedy: "implement CancelTask; until then the agent works on when users give up"}
	}
	f := p.verdict(ctx, x)
	return Finding{Verdict: Warning, Cause: "it agreed to cancel its task, and then: " + f.Cause, Remedy: "end the task as canceled, or refuse with TaskNotCancelable"}
}

// ended judges how CancelTask was answered for a task that ended by itself.
func ended(x *exchange, refused error) Finding {
	was := fmt.Sprintf("the task was %s before it could be canceled", stateName(x.last.State))
	switch {
	case mesh.IsCode(refused, mesh.Precondition):
		return Finding{Verdict: OK, Cause: was + ", and the agent says so"}
	case refused == nil:
		return Finding{Verdict: OK, Cause: was}
	}
	return Finding{Verdict: Warning, Cause: was + "; CancelTask says " + causeOf(refused), Remedy: "answer with TaskNotCancelable for a task that is over"}
}

func (p *probe) unknownTask(ctx context.Context) Finding {
	task, err := p.client.GetTask(p.as(ctx, mesh.NewExecutionID(p.thread)), mesh.NewThreadID())
	const remedy = "answer with TaskNotFound: the mesh takes anything else for a task that goes on"
	switch {
	case err == nil:
		return Finding{Verdict: Failed, Cause: fmt.Sprintf("GetTask has a task, %s, for an id that nobody made", stateName(task.GetStatus().GetState())), Remedy: remedy}
	case mesh.IsCode(err, mesh.NotFound):
		return Finding{Verdict: OK, Cause: "TaskNotFound"}
	}
	return Finding{Verdict: Warning, Cause: "GetTask for an id that nobody made says " + causeOf(err), Remedy: remedy}
}

func (p *probe) unknownMethod(ctx context.Context) Finding {
	err := call.UnknownMethod(p.as(ctx, mesh.NewExecutionID(p.thread)), p.client)
	switch {
	case err == nil:
		return Finding{Verdict: Warning, Cause: "a method that A2A does not have is answered without an error", Remedy: "answer with the error -32601"}
	case mesh.IsCode(err, mesh.Precondition):
		return Finding{Verdict: Skipped, Cause: mesh.DetailOf(err)}
	case mesh.IsCode(err, mesh.Unsupported):
		return Finding{Verdict: OK, Cause: "MethodNotFound"}
	}
	return Finding{Verdict: Warning, Cause: "a method that A2A does not have is answered with " + causeOf(err), Remedy: "answer with the error -32601"}
}

// malformed sends a message that says nothing.
func (p *probe) malformed(ctx context.Context) Finding {
	_, err := p.client.SendMessage(p.as(ctx, mesh.NewExecutionID(p.thread)), &a2apb.SendMessageRequest{
		Message: &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_USER}})
	const remedy = "answer with invalid parameters (-32602, 400, INVALID_ARGUMENT) and what is missing"
	switch {
	case err == nil:
		return Finding{Verdict: Warning, Cause: "a message without parts is taken", Remedy: remedy}
	case mesh.IsCode(err, mesh.Invalid):
		return Finding{Verdict: OK, Cause: "a message without parts is refused as invalid"}
	}
	return Finding{Verdict: Warning, Cause: "a message without parts is answered with " + causeOf(err), Remedy: remedy}
}

// failure wants a task that fails to say so.
func (p *probe) failure(ctx context.Context) Finding {
	if p.Failure == "" {
		return Finding{Verdict: Skipped, Cause: "no text was given that makes the agent fail"}
	}
	x, f := p.say(ctx, turn{text: p.Failure, stream: p.streams()})
	switch x.last.State {
	case a2apb.TaskState_TASK_STATE_FAILED, a2apb.TaskState_TASK_STATE_REJECTED:
		if x.answered() {
			return Finding{Verdict: OK, Cause: fmt.Sprintf("the task is %s: %s", stateName(x.last.State), mesh.Clip(mesh.TextOf(x.last.Message), 200))}
		}
		if mesh.IsCode(x.err, mesh.Invalid) {
			return Finding{Verdict: OK, Cause: "the message is refused: " + causeOf(x.err)}
		}
		f.Remedy = "end a task that fails with the state failed or rejected, and the cause as message"
		return f
	}
	if x.answered() {
		return Finding{Verdict: Failed, Cause: "the agent did not fail; its answer is " + x.how(), Remedy: "end a task that fails with the state failed or rejected"}
	}
	return f
}

// handshake is that of a client of the address over TLS.
func handshake(ctx context.Context, conn net.Conn, at string, config *tls.Config) error {
	config = config.Clone()
	config.ServerName, _, _ = net.SplitHostPort(at)
	config.NextProtos = []string{"h2", "http/1.1"}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return tls.Client(conn, config).HandshakeContext(ctx)
}
