//go:build unix

package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// What is in a message for the agents here: to whom control goes, what that does besides its
// effect, and the word of the effect.
var (
	toWhom  = regexp.MustCompile(`\bto=([a-z-]+)`)
	toDo    = regexp.MustCompile(`\bact=([a-z]+)`)
	inWords = regexp.MustCompile(`\bword=(\w+)`)
)

// found is what the text says last: before the user's words may stand what was said earlier.
func found(re *regexp.Regexp, text string) string {
	if all := re.FindAllStringSubmatch(text, -1); len(all) > 0 {
		return all[len(all)-1][1]
	}
	return ""
}

// moment is a little while, in which somebody may be killed.
func moment() { time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond) }

// An actor is an agent on the runtime of the mesh.
type actor struct {
	name, skill string
	play        func(ctx context.Context, inv *agent.Invocation, yield func(agent.Output, error) bool) error
}

func (a actor) Card() *a2apb.AgentCard {
	return &a2apb.AgentCard{
		Name: a.name, Description: "Plays a part", Version: "1.0.0", DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{Id: a.skill, Name: a.skill, Description: "Plays a part", Tags: []string{"part"}}},
	}
}

func (a actor) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		if err := a.play(ctx, inv, yield); err != nil {
			yield(nil, err)
		}
	}
}

// serve has the actor take part: told is the address of the mesh and its own.
func (a actor) serve(told []string) error {
	return agent.Serve(context.Background(), agent.Options{Agent: a, NodeAddr: told[0], Addr: told[1],
		Register: &agent.Registration{Name: a.name}, Ready: func(string) { fmt.Println("ready") }})
}

// leads is the main agent, which hands over.
func leads(told []string) error {
	return actor{"lead", "lead", func(ctx context.Context, inv *agent.Invocation, yield func(agent.Output, error) bool) error {
		to := found(toWhom, inv.Text())
		switch {
		case inv.Returned != nil:
			yield(agent.Text{Text: "Back: " + inv.Returned.GetState() + "."}, nil)
			return nil
		case to == "":
			yield(agent.Text{Text: heard + inv.Text()}, nil)
			return nil
		case !yield(agent.Text{Text: "One moment. "}, nil):
			return nil
		}
		_, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: to, Reason: "asked for", ContextSummary: "What was said"})
		if err != nil && ctx.Err() == nil && !mesh.IsCode(err, mesh.Unknown) {
			yield(agent.Text{Text: "Refused: " + mesh.CodeOf(err).String()}, nil)
			return nil
		}
		return err
	}}.serve(told)
}

// heard is with what main answers who wants nothing of anybody else.
const heard = "Lead heard: "

// forge is the skill of the smith.
const forge = "forge.strike"

// forges is a specialist, which has an effect for each message: a line in the file that it is
// told of. It announces that, and settles it.
func forges(told []string) error {
	return actor{"smith", forge, func(ctx context.Context, inv *agent.Invocation, yield func(agent.Output, error) bool) error {
		if !yield(agent.Text{Text: "Here is smith. "}, nil) {
			return nil
		}
		if word := found(inWords, inv.Text()); word != "" {
			if err := strikes(ctx, inv, told[2], word); err != nil {
				return err
			}
		}
		moment()
		switch found(toDo, inv.Text()) {
		case "end":
			if !yield(agent.Text{Text: "It is done. "}, nil) {
				return nil
			}
			_, err := inv.Mesh.EndHandoff(ctx, &meshv1.EndHandoffRequest{Outcome: "completed", Summary: "all is said"})
			return err
		case "fail":
			return mesh.Errorf(mesh.Precondition, "chaos", "there is no coal")
		case "rest": // and has the conversation still
			yield(agent.Text{Text: "So far. "}, nil)
			return nil
		}
		yield(agent.Ask{Text: "Which one?"}, nil)
		return nil
	}}.serve(told)
}

// strikes has the effect, unless the log knows of it.
func strikes(ctx context.Context, inv *agent.Invocation, file, word string) error {
	did, err := inv.Mesh.Actions(ctx)
	if err != nil || did.Call(word) != nil { // nobody knows, or it was had, or nobody knows whether
		return err
	}
	if _, err = inv.Mesh.RecordCall(ctx, mesh.NewEventID(), mesh.SkillCalled{Call: word, Skill: forge, Args: "{}", Source: "use_skill"}); err != nil {
		return err
	}
	moment()
	if err := affect(file, "smith", word); err != nil {
		return err
	}
	moment()
	return inv.Mesh.Send(ctx, &mesh.Event{Body: mesh.SkillReturned{Call: word, Content: "struck"}})
}

// affect adds who it was and the word to the file.
func affect(file, who, word string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(who + " " + word + "\n")
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// serves is an agent of others, on the official SDK's server, which has the same effects. It
// knows nothing of handoffs, and loses its tasks when it dies.
func serves(told []string) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", told[1])
	if err != nil {
		return err
	}
	rpc := a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(plain{told[2]}))
	card := map[string]any{
		"name": "plain", "description": "Plays a part", "version": "1.0.0", "capabilities": map[string]any{"streaming": true},
		"defaultInputModes": []string{"text/plain"}, "defaultOutputModes": []string{"text/plain"},
		"skills":              []any{map[string]any{"id": "plain", "name": "plain", "description": "Plays a part", "tags": []string{"part"}}},
		"supportedInterfaces": []any{map[string]any{"url": "http://" + l.Addr().String(), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}},
	}
	fmt.Println("ready")
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // #nosec G114 -- of a test
		if r.URL.Path != "/.well-known/agent-card.json" {
			rpc.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(card)
	}))
}

type plain struct{ file string }

func (p plain) Execute(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		text := ""
		for _, part := range ec.Message.Parts {
			text += part.Text()
		}
		if word := found(inWords, text); word != "" {
			if err := affect(p.file, "plain", word); err != nil {
				yield(nil, err)
				return
			}
		}
		status := func(s a2a.TaskState, words string) bool {
			var m *a2a.Message
			if words != "" {
				m = a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(words))
			}
			return yield(a2a.NewStatusUpdateEvent(ec, s, m), nil)
		}
		moment()
		if ec.StoredTask == nil && !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) || !status(a2a.TaskStateWorking, "") {
			return
		}
		moment()
		first := a2a.NewArtifactEvent(ec, a2a.NewTextPart("Here is plain. "))
		if !yield(first, nil) {
			return
		}
		moment()
		if !yield(a2a.NewArtifactUpdateEvent(ec, first.Artifact.ID, a2a.NewTextPart("I do it. ")), nil) {
			return
		}
		switch found(toDo, text) {
		case "ask":
			status(a2a.TaskStateInputRequired, "Which one?")
		case "fail":
			status(a2a.TaskStateFailed, "there is no coal")
		default:
			status(a2a.TaskStateCompleted, "")
		}
	}
}

func (plain) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}
