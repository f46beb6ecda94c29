package node_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
)

// A typed agent takes and gives certain media types.
type typed struct {
	testAgent
	in, out []string
}

func (a typed) Card() *a2apb.AgentCard {
	c := card(a.name)
	c.DefaultInputModes, c.DefaultOutputModes = a.in, a.out
	return c
}

func withAgent(a typed) func(*node.Options) {
	return func(o *node.Options) {
		o.Builtins = append(o.Builtins, node.Builtin{Name: a.name, New: func(node.Env) (agent.Agent, error) { return a, nil }})
	}
}

// handsOver hands a conversation to the painter when it is told to.
func handsOver(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		if inv.Text() == "paint" {
			if _, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "painter", Reason: "pictures"}); err != nil {
				yield(nil, err)
			}
			return
		}
		yield(agent.Text{Text: "You said: " + inv.Text()}, nil)
	}
}

// finding P3: cards say what agents take and give, and a part of a type that nobody takes
// who could get it is refused: by the agent that is addressed or has the conversation,
// else by the mesh.
func TestAPartOfATypeThatIsNotTakenIsRefused(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": handsOver},
		withAgent(typed{testAgent{"painter", func(context.Context, *agent.Invocation) iter.Seq2[agent.Output, error] {
			return func(yield func(agent.Output, error) bool) { yield(agent.Ask{Text: "Which colour?"}, nil) }
		}}, []string{"image/*"}, []string{"image/png"}}))
	_, text := get(t, m, ownCard)
	own := readCard(t, text)
	if in, out := own.GetDefaultInputModes(), own.GetDefaultOutputModes(); !slices.Equal(in, []string{"text/plain"}) || !slices.Equal(out, in) {
		t.Errorf("the mesh takes %q and gives %q, want what its main agent does", in, out)
	}
	for _, s := range own.GetSkills() {
		if s.GetId() == "painter" && (!slices.Equal(s.GetInputModes(), []string{"image/*"}) || !slices.Equal(s.GetOutputModes(), []string{"image/png"})) {
			t.Errorf("the skill is %v", s)
		}
	}
	with := func(p *play, kind string) *a2apb.SendMessageRequest {
		req := p.say("look")
		req.Message.Parts = append(req.Message.Parts, &a2apb.Part{MediaType: kind, Content: &a2apb.Part_Raw{Raw: []byte{1}}})
		return req
	}
	m.each(t, func(p *play) {
		for _, taken := range []string{"", "image/png", "IMAGE/JPEG; q=1"} {
			if _, err := p.client.SendMessage(p.ctx(), with(p, taken)); err != nil {
				p.t.Errorf("%q: %v", taken, err)
			}
		}
		prose := p.say("")
		prose.Message.Parts = []*a2apb.Part{{MediaType: "text/markdown", Content: &a2apb.Part_Text{Text: "# hi"}}}
		if _, err := p.client.SendMessage(p.ctx(), prose); err != nil {
			p.t.Errorf("text: %v", err)
		}
		const code, reason, field = codes.InvalidArgument, "CONTENT_TYPE_NOT_SUPPORTED", "message.parts[1].media_type"
		_, err := p.client.SendMessage(p.ctx(), with(p, "video/mp4"))
		p.refused("by the mesh", err, code, reason, field)
		p.refused("by the mesh, streaming", p.streamed(with(p, "video/mp4")), code, reason, field)
		_, err = p.client.SendMessage(p.ctx("agent", "main"), with(p, "image/png"))
		p.refused("by one agent", err, code, reason, field)
		if _, err := p.client.SendMessage(p.ctx(), p.say("paint")); err != nil {
			p.t.Fatal(err)
		}
		_, err = p.client.SendMessage(p.ctx(), with(p, "application/pdf"))
		p.refused("by who has the conversation", err, code, reason, field)
		modes := p.say("hi")
		modes.Configuration = &a2apb.SendMessageConfiguration{AcceptedOutputModes: []string{"text", " "}}
		_, err = p.client.SendMessage(p.ctx(), modes)
		p.refused("a mode that is none", err, codes.InvalidArgument, "", "configuration.accepted_output_modes[1]")
	})
	if _, code := rpcV03(t, m, "message/send", `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"file","file":{"bytes":"AAE=","mimeType":"video/mp4"}}]}}`); code != -32005 {
		t.Errorf("v0.3: %v", code)
	}
	_, err := legacypb.NewA2AServiceClient(m.raw(t)).SendMessage(plain(t), &legacypb.SendMessageRequest{Request: &legacypb.Message{MessageId: "m", Role: legacypb.Role_ROLE_USER,
		Parts: []*legacypb.Part{{Part: &legacypb.Part_File{File: &legacypb.FilePart{MimeType: "video/mp4", File: &legacypb.FilePart_FileWithBytes{FileWithBytes: []byte("AAE=")}}}}}}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("v0.3 over gRPC: %v", err)
	}
	if resp, text := post(t, m, "/v1/message:send", `{"message":{"messageId":"m","role":"ROLE_USER","content":[{"file":{"mimeType":"video/mp4","fileWithBytes":"QUFFPQ=="}}]}}`); resp.StatusCode != 400 || !strings.Contains(text, "CONTENT_TYPE_NOT_SUPPORTED") {
		t.Errorf("v0.3 over REST: %d %s", resp.StatusCode, text)
	}
}
