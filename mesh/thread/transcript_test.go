package thread_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"
)

var update = flag.Bool("update", false, "rewrite what the transcripts in testdata answer")

// The transcripts tell what events a thread had, a line each, and on tabbed
// lines what its users were told of them: "task: update", with a "*" before
// what only clients of our extension see. "state" shows what the thread adds
// up to, "skills" the calls of skills, "said" the conversation, "did" what an
// execution did, and "window" how many there were within
// a time; "wait" lets time pass, and "again" is the last event once more. They
// prove S3-030, S3-040, S3-041, S3-044, S3-046, S3-093 and S3-104 for what the
// log has of calls and limits, S4-015, S4-026 to S4-030, S4-042, S0-041 and
// S0-092 for what users see, and A2A v1.0 §4.1.3 for what follows an end.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(data))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(data), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("(-transcript +code)\n%s", diff)
			}
		})
	}
}

// A player runs a transcript.
type player struct {
	out    strings.Builder
	state  *thread.State
	turns  []mesh.ExecutionID
	plain  map[mesh.ExecutionID]*thread.View
	extend map[mesh.ExecutionID]*thread.View
	snaps  map[mesh.ExecutionID]*thread.Snapshot
	log    []*mesh.Event
	clock  time.Time
}

func play(t *testing.T, script string) string {
	t.Helper()
	p := &player{state: new(thread.State), clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), plain: map[mesh.ExecutionID]*thread.View{}, extend: map[mesh.ExecutionID]*thread.View{}, snaps: map[mesh.ExecutionID]*thread.Snapshot{}}
	lines := bufio.NewScanner(strings.NewReader(script))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if strings.HasPrefix(line, "\t") {
			continue
		}
		p.out.WriteString(line + "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line == "state":
			p.describe()
		case line == "skills":
			p.skills()
		case line == "said":
			p.said()
		case strings.HasPrefix(line, "did "):
			p.did(strings.Fields(line))
		case line == "again":
			again := *p.log[len(p.log)-1]
			p.apply(&again)
		case strings.HasPrefix(line, "wait "), strings.HasPrefix(line, "window "):
			verb, length, _ := strings.Cut(line, " ")
			d, err := time.ParseDuration(length)
			if err != nil {
				t.Fatalf("line %d: %v", n, err)
			}
			if verb == "wait" {
				p.clock = p.clock.Add(d)
				continue
			}
			calls, first := p.state.CallsWithin(p.clock, d)
			fmt.Fprintf(&p.out, "\t%d calls, the first at %s\n", calls, first.Format(time.TimeOnly))
		default:
			events, err := parse(line)
			if err != nil {
				t.Fatalf("line %d: %v", n, err)
			}
			for _, e := range events {
				p.apply(e)
			}
		}
	}
	return p.out.String()
}

func (p *player) apply(e *mesh.Event) {
	e.Seq = p.state.Seq + 1
	p.clock = p.clock.Add(time.Second)
	e.Time = p.clock
	if e.ID == "" {
		e.ID = fmt.Sprintf("e%d", e.Seq)
	}
	p.log = append(p.log, e)
	before := len(p.state.Turns())
	for _, id := range p.turns {
		plain, extended := told(p.plain[id].Apply(e)), told(p.extend[id].Apply(e))
		if plain != "" {
			fmt.Fprintf(&p.out, "\t%s: %s\n", id, plain)
		} else if extended != "" {
			fmt.Fprintf(&p.out, "\t* %s: %s\n", id, extended)
		}
	}
	p.state.Apply(e)
	for _, snap := range p.snaps {
		snap.Apply(e)
	}
	if turns := p.state.Turns(); len(turns) > before {
		id := turns[len(turns)-1].ID
		p.turns = append(p.turns, id)
		p.plain[id] = p.state.View("c", id, p.state.Seq, thread.Mode{})
		p.snaps[id] = thread.NewSnapshot("c", id)
		p.extend[id] = p.state.View("c", id, p.state.Seq, thread.Mode{Extended: true})
	}
}

// told is an update in a line.
func told(r *a2apb.StreamResponse) string {
	switch {
	case r.GetArtifactUpdate() != nil:
		u := r.GetArtifactUpdate()
		mode := "artifact"
		if u.Append {
			mode = "append"
		}
		return fmt.Sprintf("%s %s %q", mode, u.Artifact.GetArtifactId(), partsText(u.Artifact.GetParts()))
	case r.GetStatusUpdate() != nil:
		u := r.GetStatusUpdate()
		s := short(u.GetStatus().GetState())
		if m := u.GetStatus().GetMessage(); m != nil {
			s += fmt.Sprintf(" %q", partsText(m.Parts))
		}
		f := u.GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()
		if x := f["execution"].GetStructValue().GetFields(); x != nil {
			s += fmt.Sprintf(" %s of %s %s", x["id"].GetStringValue(), x["agent"].GetStringValue(), x["state"].GetStringValue())
			if words := x["text"].GetStringValue(); words != "" {
				s += fmt.Sprintf(" %q", words)
			}
		}
		return s
	}
	return ""
}

func short(s mesh.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "TASK_STATE_"))
}

func partsText(parts []*a2apb.Part) string {
	out := ""
	for _, p := range parts {
		out += p.GetText()
	}
	return out
}

// describe shows what the thread adds up to.
func (p *player) describe() {
	s := p.state
	f := func(format string, args ...any) { fmt.Fprintf(&p.out, "\t"+format+"\n", args...) }
	f("seq %d, epoch %d, title %q, active agent %s", s.Seq, s.Epoch, s.Title, s.ActiveAgent("main"))
	if u := s.Usage; u != (mesh.Usage{}) {
		f("%d+%d tokens for $%.2f", u.Prompt, u.Completion, u.Cost)
	}
	if h := s.Handoff; h != nil {
		f("handoff at %d of %s: %s to %s, ended %d %s %q", h.Seq, h.Turn, h.From, h.To, h.Ended, h.Outcome, h.Result)
	}
	if next := s.NextTurn(); next != nil {
		f("next turn %s", next.ID)
	}
	if wait := s.InterruptedTurn(); wait != nil {
		f("waiting turn %s", wait.ID)
	}
	for _, x := range s.Executions() {
		line := fmt.Sprintf("%s %s", x.ID, short(x.State))
		if x.Reason != "" {
			line += " " + x.Reason
		}
		for _, l := range x.Legs {
			line += fmt.Sprintf(", %s %d..%d", l.Agent, l.From, l.To)
		}
		if n := len(x.Pending()); n > 0 {
			line += fmt.Sprintf(", pending %v", x.Pending())
		}
		if x.Canceled {
			line += ", canceled"
		}
		if len(x.Unsettled) > 0 {
			line += fmt.Sprintf(", unsettled %v", x.Unsettled)
		}
		if x.Result != "" {
			line += fmt.Sprintf(", result %q", x.Result)
		}
		if x.RemoteTask != "" {
			line += ", remote " + x.RemoteTask
		}
		line += counts(x)
		f("%s", line)
		if snap := p.snaps[x.ID]; snap != nil {
			task, _ := snap.Task()
			for _, a := range task.Artifacts {
				f("  artifact %s %q", a.ArtifactId, partsText(a.Parts))
			}
		}
	}
}

// counts is what was called, asked, used and stopped in the execution.
func counts(x *thread.Execution) string {
	line := ""
	if x.SkillCalls > 0 {
		line += fmt.Sprintf(", %d skills called", x.SkillCalls)
	}
	if c := x.Calls; c.Skills+c.Tools > 0 {
		line += fmt.Sprintf(", since %d: %d skills, %d tools, %d discoveries", c.Since, c.Skills, c.Tools, c.Discoveries)
	}
	for _, l := range x.Tripped {
		line += fmt.Sprintf(", tripped %s %d of %d", l.Limit, l.Used, l.Most)
	}
	for _, a := range x.Approvals {
		line += fmt.Sprintf(", waits since %d for %s of %s %q", a.Asked, a.Call, a.Skill, a.Text)
	}
	if u := x.Usage; u != (mesh.Usage{}) {
		line += fmt.Sprintf(", %d+%d tokens (%d unpriced) for $%.2f", u.Prompt, u.Completion, u.Unpriced, u.Cost)
	}
	return line
}

// skills shows the calls of skills in the log.
func (p *player) skills() {
	for _, c := range thread.SkillCalls(p.log) {
		fmt.Fprintf(&p.out, "\t%d %s %s of %s for %s: %s %s %s", c.Called, c.Key, c.Call, c.Execution, c.Turn, c.Skill, c.Args, c.Status)
		switch {
		case c.Lost:
			fmt.Fprint(&p.out, ", lost")
		case !c.Unsettled():
			fmt.Fprintf(&p.out, " at %d after %v %q", c.Returned, c.Duration, c.Content+c.Error)
		}
		fmt.Fprintln(&p.out)
	}
}

// parse reads a line of a transcript: a verb, words, and text after a colon.
func parse(line string) ([]*mesh.Event, error) {
	head, text, _ := strings.Cut(line, ": ")
	w := strings.Fields(head)
	for len(w) < 5 {
		w = append(w, "")
	}
	id := mesh.ExecutionID(w[1])
	one := func(actor string, b mesh.Body) []*mesh.Event {
		return []*mesh.Event{{Execution: id, Actor: actor, Body: b}}
	}
	switch w[0] {
	case "open": // open TASK USER: TEXT
		open := one("user:"+w[2], mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn, Agent: "main", User: w[2], Text: text}})
		return append(open, one("user:"+w[2], posted(w[2], text))...), nil
	case "post": // post TASK USER: TEXT
		return one("user:"+w[2], posted(w[2], text)), nil
	case "run": // run PARENT EXECUTION AGENT [LABEL]: TASK
		return one("node", mesh.DispatchIssued{Child: mesh.Execution{ID: mesh.ExecutionID(w[2]), Parent: id, Kind: mesh.KindAgent, Agent: w[3], Label: w[4], Text: text}}), nil
	case "move": // move EXECUTION STATE [REASON] [REMOTE]: WORDS
		state, err := stateOf(w[2])
		b := mesh.TaskMoved{State: state, Reason: strings.Trim(w[3], "-"), RemoteTask: w[4]}
		if text != "" {
			b.Message = message(a2apb.Role_ROLE_AGENT, text)
		}
		return one("agent:x", b), err
	case "says", "adds": // says EXECUTION ARTIFACT: TEXT
		return one("agent:x", mesh.ArtifactAppended{Append: w[0] == "adds", Artifact: artifact(w[2], text)}), nil
	case "settle": // settle PARENT EXECUTION STATE [REASON]: RESULT
		state, err := stateOf(w[3])
		return one("node", mesh.DispatchSettled{Child: mesh.ExecutionID(w[2]), State: state, Reason: w[4], Result: text}), err
	case "handoff": // handoff EXECUTION FROM TO: REASON
		return one("agent:"+w[2], mesh.HandoffStarted{From: w[2], To: w[3], ToName: "The " + w[3], Reason: text}), nil
	case "return": // return EXECUTION SEQ OUTCOME: SUMMARY
		seq, err := strconv.Atoi(w[2])
		return one("agent:x", mesh.HandoffEnded{Started: mesh.Seq(seq), Outcome: mesh.HandoffOutcome(w[3]), Summary: text}), err
	case "cancel": // cancel EXECUTION
		return one("user:ann", mesh.CancelRequested{By: "ann"}), nil
	case "claim": // claim EPOCH NODE
		n, err := strconv.Atoi(w[1])
		return []*mesh.Event{{Actor: "node", Body: mesh.ThreadClaimed{Epoch: mesh.Epoch(n), Node: w[2]}}}, err
	case "calls": // calls EXECUTION CALL SKILL: ARGUMENTS
		return one("agent:x", mesh.SkillCalled{Call: w[2], Skill: w[3], Args: text}), nil
	case "got", "fails": // got EXECUTION CALL: RESULT
		return one("agent:x", mesh.SkillReturned{Call: w[2], Failed: w[0] == "fails", Content: text}), nil
	case "tool": // tool EXECUTION CALL NAME: RESULT
		return one("agent:x", mesh.ToolReturned{Call: w[2], Name: w[3], Content: text}), nil
	case "asks": // asks EXECUTION CALL SKILL: QUESTION
		return one("agent:x", mesh.ApprovalAsked{Call: w[2], Skill: w[3], Text: text}), nil
	case "approves", "refuses": // approves EXECUTION CALL: ANSWER
		return one("agent:x", mesh.ApprovalSettled{Call: w[2], Approved: w[0] == "approves", Text: text}), nil
	case "trips": // trips EXECUTION LIMIT USED
		used, err := strconv.ParseInt(w[3], 10, 64)
		return one("node", mesh.LimitTripped{Limit: w[2], Used: used, Most: used}), err
	case "replied": // replied EXECUTION TOKENS DOLLARS
		tokens, err := strconv.ParseInt(w[2], 10, 64)
		u := mesh.Usage{Prompt: tokens, Completion: 1}
		if u.Cost, _ = strconv.ParseFloat(w[3], 64); w[3] == "" {
			u.Unpriced = tokens + 1
		}
		return one("agent:x", mesh.ModelReplied{Usage: u}), err
	case "event": // event: an event of mesh.v1 as JSON, of whatever kind
		p := new(meshv1.Event)
		if err := protojson.Unmarshal([]byte(text), p); err != nil {
			return nil, err
		}
		e, err := eventpb.EventFromProto(p)
		return []*mesh.Event{e}, err
	case "foreign": // foreign EXECUTION
		return one("agent:x", mesh.Foreign{Raw: []byte(text)}), nil
	}
	return nil, fmt.Errorf("unknown verb %q", w[0])
}

func stateOf(s string) (mesh.TaskState, error) {
	n, ok := a2apb.TaskState_value["TASK_STATE_"+strings.ToUpper(s)]
	if !ok {
		return 0, fmt.Errorf("unknown state %q", s)
	}
	return mesh.TaskState(n), nil
}

func posted(user, text string) mesh.MessagePosted {
	return mesh.MessagePosted{User: user, Message: message(a2apb.Role_ROLE_USER, text)}
}

func message(role a2apb.Role, text string) *a2apb.Message {
	return &a2apb.Message{MessageId: "m-" + text, Role: role, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}}
}

func artifact(id, text string) *a2apb.Artifact {
	return &a2apb.Artifact{ArtifactId: id, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}}
}
