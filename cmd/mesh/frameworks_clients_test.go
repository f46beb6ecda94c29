package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// tinyPNG is a file as users send it.
const tinyPNG = "\x89PNG\r\n\x1a\n of no size"

// A caller is a client of a framework in a process of its own, which talks to a mesh
// whose main agent is a helper.
type caller struct {
	*framework
	trial
	m      *realMesh
	helper *helper
}

// asClient are what clients are tried for.
var asClient = []scenario[*caller]{
	{"card", (*caller).readsCard}, {"talk", (*caller).talks}, {"remember", (*caller).remembers}, {"stream", (*caller).streams}, {"data in", (*caller).sendsData},
	{"files in", (*caller).sendsFiles}, {"files or data out", (*caller).draws}, {"question and answer", (*caller).asks},
	{"cancel", (*caller).cancels}, {"error", (*caller).fails}, {"credentials", (*caller).hasCredentials},
}

// A helper is an agent that says back what it was told, or does what it is told.
type helper struct {
	mu    sync.Mutex
	heard map[string][]string // by thread
	held  *hold
}

func (*helper) Card() *a2apb.AgentCard {
	return &a2apb.AgentCard{Name: "Helper", Description: "Says back what it is told.", Version: "1.0.0",
		DefaultInputModes: []string{"text/plain", "image/png", "application/json"}, DefaultOutputModes: []string{"text/plain", "image/png", "application/json"},
		Skills: []*a2apb.AgentSkill{{Id: "help", Name: "Help", Description: "Helps.", Tags: []string{"help"}}}}
}

// hears adds a message to its thread, and returns all of them.
func (h *helper) hears(inv *agent.Invocation) string {
	var parts []string
	for _, p := range inv.Message.GetParts() {
		switch c := p.GetContent().(type) {
		case *a2apb.Part_Text:
			parts = append(parts, c.Text)
		case *a2apb.Part_Data:
			parts = append(parts, fmt.Sprint("[data ", c.Data.AsInterface(), "]"))
		case *a2apb.Part_Raw:
			parts = append(parts, fmt.Sprintf("[file of %d bytes]", len(c.Raw)))
		default:
			parts = append(parts, "[url]")
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard[inv.Thread.ID] = append(h.heard[inv.Thread.ID], strings.Join(parts, " "))
	return strings.Join(h.heard[inv.Thread.ID], " | ")
}

func (h *helper) hold() *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = newHold()
	return h.held
}

func (h *helper) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	all, text := h.hears(inv), inv.Text()
	return func(yield func(agent.Output, error) bool) {
		switch {
		case inv.Resumed:
			yield(agent.Text{Text: "answered: " + text}, nil)
		case strings.Contains(text, saysFail):
			yield(nil, &mesh.Error{Op: "helper.Run", Code: mesh.Unavailable, Detail: "the helper is not well"})
		case strings.Contains(text, saysAsk):
			yield(agent.Ask{Text: theQuestion}, nil)
		case strings.Contains(text, saysChart):
			_ = yield(agent.Data{Name: "chart", Value: map[string]any{"bars": 3}}, nil) &&
				yield(agent.Artifact{Artifact: &a2apb.Artifact{Name: "chart.png", Parts: []*a2apb.Part{
					{Content: &a2apb.Part_Raw{Raw: []byte(tinyPNG)}, MediaType: "image/png", Filename: "chart.png"}}}}, nil)
		case strings.Contains(text, saysSlowly):
			h.slowly(ctx, yield)
		default:
			yield(agent.Text{Text: "heard: " + all}, nil)
		}
	}
}

func (h *helper) slowly(ctx context.Context, yield func(agent.Output, error) bool) {
	h.mu.Lock()
	held := h.held
	h.mu.Unlock()
	if !yield(agent.Text{Text: "first "}, nil) {
		return
	}
	close(held.reached)
	select {
	case <-held.goOn:
		yield(agent.Text{Text: "second"}, nil)
	case <-ctx.Done():
		close(held.dropped)
	}
}

// clientOf starts a mesh with a helper.
func clientOf(t *testing.T, f *framework) *caller {
	t.Helper()
	c := &caller{framework: f, trial: trial{t}, m: up(t, f.home(t), "--main", "helper"), helper: &helper{heard: map[string][]string{}}}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { // ends with ctx; the cleanup waits
		ended <- agent.Serve(ctx, agent.Options{Agent: c.helper, NodeAddr: c.m.grpc, Register: &agent.Registration{Name: "helper"},
			Ready: func(string) { close(ready) }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return c
}

// heardBack is what a client's program tells of a line.
type heardBack struct {
	Text, Error, State string
	Asked              bool
	Files, Data        int
}

// A talk is one run of a client's program: one conversation.
type talk struct {
	out *process
	at  int
}

// begin starts the client's program against a mesh.
func (c *caller) begin() *talk { return c.beginAt(c.m, c.shows, "") }

// beginAt starts the client's program with a path of a mesh.
func (c *caller) beginAt(m *realMesh, path, token string) *talk {
	return &talk{out: startProcess(c.t, c.command(c.t, c.client, "http://"+m.http+path, token))}
}

// next returns the next line that the program tells.
func (k *talk) next() (piece string, heard *heardBack, err error) {
	limit := time.NewTimer(testTime)
	defer limit.Stop()
	for {
		text, more := k.out.stdout.read()
		if line, _, whole := strings.Cut(text[k.at:], "\n"); whole {
			k.at += len(line) + 1
			var told struct {
				Piece string
				Heard *heardBack
			}
			if err := json.Unmarshal([]byte(line), &told); err != nil {
				continue // something that the framework prints
			}
			return told.Piece, told.Heard, nil
		}
		select {
		case <-more:
		case <-k.out.ended:
			return "", nil, fmt.Errorf("the client ended: %s", lastLine(k.out.stderr.String()))
		case <-limit.C:
			return "", nil, errors.New("the client says nothing")
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// say has the client say the line, and returns what it heard.
func (k *talk) say(line map[string]any, each func(piece string)) (*heardBack, error) {
	data, err := json.Marshal(line)
	if err == nil {
		_, err = io.WriteString(k.out.stdin, string(data)+"\n")
	}
	for err == nil {
		var piece string
		var heard *heardBack
		if piece, heard, err = k.next(); heard != nil {
			return heard, nil
		}
		if each != nil {
			each(piece)
		}
	}
	return nil, err
}

// completes says the line in a conversation of its own, or in k, and wants the words back.
func (c *caller) completes(k *talk, line map[string]any, words ...string) error {
	heard, err := k.say(line, nil)
	if err != nil {
		return err
	}
	if heard.Error != "" {
		return errors.New(heard.Error)
	}
	for _, w := range words {
		if !strings.Contains(heard.Text, w) {
			return fmt.Errorf("it did not hear %q: %+v", w, *heard)
		}
	}
	return nil
}

func textLine(text string) map[string]any { return map[string]any{"say": text} }

// readsCard talks to the mesh by the card at its root.
func (c *caller) readsCard() error {
	return c.completes(c.beginAt(c.m, c.root, ""), textLine("hello"), "heard: ", "hello")
}

func (c *caller) talks() error { return c.completes(c.begin(), textLine("hello"), "heard: ", "hello") }

func (c *caller) remembers() error {
	k := c.begin()
	return errors.Join(c.completes(k, textLine("my colour is teal")), c.completes(k, textLine("my number is 4711")),
		c.completes(k, textLine("what do you know?"), "my colour is teal | my number is 4711 | what"))
}

func (c *caller) streams() error {
	k := c.begin()
	if _, err := k.say(textLine("hello"), nil); err != nil { // the program has started
		return err
	}
	h := c.helper.hold()
	defer h.release()
	late := time.AfterFunc(streamTime, h.release)
	defer late.Stop()
	early := false
	heard, err := k.say(textLine(saysSlowly), func(piece string) {
		if strings.Contains(piece, "first") && !strings.Contains(piece, "second") {
			early = late.Stop() || early
			h.release()
		}
	})
	switch {
	case err != nil:
		return err
	case heard.Error != "":
		return errors.New(heard.Error)
	case !early:
		return errors.New("the first word came with the last")
	case !strings.Contains(strings.ReplaceAll(heard.Text, "\n", ""), "first second"):
		return fmt.Errorf("it heard %+v", *heard)
	}
	return nil
}

func (c *caller) sendsData() error {
	return c.completes(c.begin(), map[string]any{"say": "see this", "data": map[string]any{"order": "4217"}}, "[data map[order:4217]]")
}

func (c *caller) sendsFiles() error {
	return c.completes(c.begin(), map[string]any{"say": "see this", "file": base64.StdEncoding.EncodeToString([]byte(tinyPNG))},
		fmt.Sprintf("[file of %d bytes]", len(tinyPNG)))
}

func (c *caller) draws() error {
	heard, err := c.begin().say(textLine(saysChart), nil)
	if err == nil && (heard.Error != "" || heard.Files+heard.Data == 0) {
		err = fmt.Errorf("it heard %+v", *heard)
	}
	return err
}

func (c *caller) asks() error {
	k := c.begin()
	asked, err := k.say(textLine(saysAsk), nil)
	if err != nil {
		return err
	}
	if !asked.Asked || !strings.Contains(asked.Text, theQuestion) {
		return fmt.Errorf("it heard no question: %+v", *asked)
	}
	return c.completes(k, textLine("very loud"), "answered: very loud")
}

func (c *caller) cancels() error {
	h := c.helper.hold()
	defer h.release()
	if _, err := c.begin().say(map[string]any{"say": saysSlowly, "cancel": "first"}, nil); err != nil {
		return err
	}
	select {
	case <-h.dropped:
		return nil
	case <-time.After(streamTime):
		return errors.New("the agent works on")
	}
}

func (c *caller) fails() error {
	heard, err := c.begin().say(textLine(saysFail), nil)
	if err != nil {
		return err
	}
	if heard.Error == "" && !strings.Contains(strings.ToLower(heard.State), "fail") {
		return fmt.Errorf("it does not notice: %+v", *heard)
	}
	return nil
}

// hasCredentials talks to a mesh that wants a token.
func (c *caller) hasCredentials() error {
	ann, _, _ := upWithTokens(c.t, c.settings)
	for _, given := range []string{"", ann.token} {
		heard, err := c.beginAt(ann.realMesh, strings.Replace(c.shows, "helper", "main", 1), given).say(textLine("hello"), nil)
		if err != nil {
			return err
		}
		if let := heard.Error == ""; let != (given != "") {
			return fmt.Errorf("with the token %q it heard %+v", given, *heard)
		}
	}
	return nil
}
