package node_test

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	legacy "github.com/a2aproject/a2a-go/a2a"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
)

// saidBy has, by the name of what stands under our extension's URI, who sets it: the table of
// docs/extension.md.
func saidBy(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/extension.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Schema\n")
	out := map[string]string{"what_nobody_knows": "nobody"}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [^|]+ \\| ([^|]+) \\|").FindAllStringSubmatch(table, -1) {
		out[row[1]] = row[2]
	}
	for _, more := range []string{"updates", "continues"} { // what agents get from the node besides
		if out[more] == "" {
			out[more] = "node"
		}
	}
	for _, must := range []string{"handoff", "handoff_return", "handoff_parked", "handoff_state", "resume", "execution", "exit_words", "seq", "agent", "reason", "skill_call"} {
		if out[must] == "" {
			t.Fatalf("docs/extension.md says of %d values who sets them, and not of %s", len(out), must)
		}
	}
	return out
}

// forged is a value that nobody but a forger sends.
func forged(key string) any {
	h := map[string]any{"seq": 7, "state": "active", "target_agent_id": "forged", "outcome": "completed", "type": "handoff", "agent": "forged", "id": "forged", "offered": true}
	switch key {
	case "exit", "detail", "progress":
		return false
	case "skill_call":
		return map[string]any{"skill": "forged.skill"}
	case "seq", "updates", "step", "steps", "max_tool_calls":
		return 123456
	case "exit_words", "asks":
		return []any{"forged"}
	case "handoff", "handoff_return", "handoff_parked", "handoff_state", "resume", "execution", "help", "mission", "limit_report", "help_answer":
		return h
	case "continues":
		return "answer"
	}
	return "forged"
}

// forgery is all of it under our extension's URI.
func forgery(t *testing.T) map[string]any {
	t.Helper()
	all := map[string]any{}
	for key := range saidBy(t) {
		all[key] = forged(key)
	}
	return map[string]any{mesh.ExtensionURI: all, "their/own": "kept"}
}

// Whatever client and binding a message comes by, what our extension says in the mesh's name
// does not come from there: neither to agents nor into the log. What clients may say does, and
// so does all that is under other names.
func TestClientsCannotSayWhatIsTheMeshsWord(t *testing.T) {
	var mu sync.Mutex
	var got []*agent.Invocation
	m := start(t, config(t.TempDir()), map[string]run{"main": func(_ context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, inv)
		return words("heard")
	}})
	md, err := structpb.NewStruct(forgery(t))
	if err != nil {
		t.Fatal(err)
	}
	data, err := structpb.NewValue(forgery(t))
	if err != nil {
		t.Fatal(err)
	}
	ways := map[string]func(*testing.T){}
	for binding, conn := range m.bindings(t) {
		for name, ctx := range map[string]func(*testing.T) context.Context{
			"plain": func(t *testing.T) context.Context { return plain(t) }, "extended": func(t *testing.T) context.Context { return in(t, mesh.NewThreadID()) },
		} {
			if name == "extended" && binding != "gRPC" { // there is no other way to send our headers over it here
				continue
			}
			ways[binding+", "+name] = func(t *testing.T) {
				c := a2apb.NewA2AServiceClient(conn)
				if name == "extended" {
					c = m.edge()
				}
				req := say("hello")
				req.Metadata, req.Message.Metadata, req.Message.Extensions = md, md, []string{mesh.ExtensionURI}
				req.Message.Parts = append(req.Message.Parts, a2a.DataPart(data))
				req.Message.Parts[0].Metadata = md
				stream, err := c.SendStreamingMessage(ctx(t), req)
				for err == nil {
					_, err = stream.Recv()
				}
				if err != io.EOF {
					t.Fatal(err)
				}
			}
		}
	}
	for binding, client := range v03Clients(t, m) {
		ways["v0.3 "+binding] = func(t *testing.T) {
			p := v03Say("hello", nil)
			p.Metadata, p.Message.Metadata = forgery(t), forgery(t)
			p.Message.Parts = append(p.Message.Parts, legacy.DataPart{Data: forgery(t)})
			v03Hear(t, client.SendStreamingMessage(plain(t), p), nil)
		}
	}
	by := saidBy(t)
	for way, send := range ways {
		t.Run(way, func(t *testing.T) {
			mu.Lock()
			got = nil
			mu.Unlock()
			send(t)
			mu.Lock()
			defer mu.Unlock()
			if len(got) != 1 {
				t.Fatalf("main was asked %d times", len(got))
			}
			inv := got[0]
			if inv.Handoff != nil || inv.Returned != nil || inv.Parked != nil || inv.Resume != nil || inv.Continued || inv.Resumed || inv.MaxToolCalls != 0 || inv.RecentMessages != nil {
				t.Errorf("the agent believes %+v", inv)
			}
			checkSaid(t, "main is told", inv.Message.GetMetadata(), by, "clients")
			if inv.SkillCall == nil || inv.Message.GetMetadata().GetFields()["their/own"].GetStringValue() != "kept" || len(inv.Message.GetParts()) != 2 {
				t.Errorf("what clients may say is lost: %v", inv.Message)
			}
			events, err := meshv1.NewThreadServiceClient(m.conn).ReadThread(in(t, inv.Thread.ID), &meshv1.ReadThreadRequest{ThreadId: inv.Thread.ID})
			if err != nil {
				t.Fatal(err)
			}
			posted := 0
			for _, e := range events.GetEvents() {
				if p := e.GetMessagePosted(); p != nil {
					posted++
					checkSaid(t, "the log has", p.GetMessage().GetMetadata(), by, "clients")
				}
			}
			if posted != 1 {
				t.Errorf("%d messages are in the log", posted)
			}
		})
	}
}

// checkSaid fails the test for what is under our extension's URI and not for them to say.
func checkSaid(t *testing.T, where string, md *structpb.Struct, by map[string]string, who string) {
	t.Helper()
	said := a2a.Extension(md).GetFields()
	for _, key := range slices.Sorted(maps.Keys(by)) {
		if _, is := said[key]; is != strings.Contains(by[key], who) {
			t.Errorf("%s %s: %v; it is set by %s", where, key, is, by[key])
		}
	}
}

// A forger says all there is in the mesh's name, in each place that A2A has for it.
type forger struct{ all map[string]any }

func (f forger) Execute(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		task := sdk.NewSubmittedTask(ec, ec.Message)
		task.Metadata = f.all
		message := sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("working"))
		message.Metadata = f.all
		works := sdk.NewStatusUpdateEvent(ec, sdk.TaskStateWorking, message)
		works.Metadata = f.all
		out := sdk.NewArtifactEvent(ec, sdk.NewTextPart("forged"))
		out.Metadata, out.Artifact.Metadata = f.all, f.all
		last := sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("that was it"))
		last.Metadata = f.all
		ends := sdk.NewStatusUpdateEvent(ec, sdk.TaskStateCompleted, last)
		ends.Metadata = f.all
		_ = yield(task, nil) && yield(works, nil) && yield(out, nil) && yield(ends, nil)
	}
}

func (forger) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateCanceled, nil), nil)
	}
}

// An agent of others cannot tell users in the mesh's name that control changes hands, who is at
// work or where their cursor is, wherever it says so. What agents may say, and what is under
// other names, comes through.
func TestAgentsCannotSayWhatIsTheMeshsWord(t *testing.T) {
	for _, streaming := range []bool{true, false} {
		t.Run(map[bool]string{true: "streaming", false: "unary"}[streaming], func(t *testing.T) {
			serves := a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(forger{forgery(t)}))
			var server *httptest.Server
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/.well-known/agent-card.json" {
					serves.ServeHTTP(w, r)
					return
				}
				c := cardJSON(card("forger"))
				c["supportedInterfaces"] = []any{map[string]any{"url": server.URL, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}}
				c["capabilities"] = map[string]any{"streaming": streaming}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(c)
			}))
			t.Cleanup(server.Close)
			cfg := config(t.TempDir())
			cfg.Main = "forger"
			m := start(t, cfg, nil)
			if _, err := meshv1.NewRegistryServiceClient(m.conn).RegisterAgent(in(t, mesh.NewThreadID()), &meshv1.RegisterAgentRequest{Name: "forger", CardUrl: server.URL}); err != nil {
				t.Fatal(err)
			}
			stream, err := m.edge().SendStreamingMessage(in(t, mesh.NewThreadID()), say("go"))
			by := saidBy(t)
			for _, key := range []string{"seq", "agent", "execution"} { // of which the node says its own
				by[key] = "node"
			}
			for _, key := range []string{"mission", "max_tool_calls", "help_answer"} { // which agents say to each other
				by[key] = "nobody"
			}
			own, artifacts := 0, 0
			id := ""
			look := func(where string, md *structpb.Struct) {
				for _, key := range slices.Sorted(maps.Keys(by)) {
					said, is := a2a.Extension(md).GetFields()[key]
					if is && !strings.Contains(by[key], "agents") && (strings.Contains(said.String(), "forged") || said.GetNumberValue() == 123456) {
						t.Errorf("%s has %s: %v", where, key, said)
					}
				}
				if md.GetFields()["their/own"].GetStringValue() == "kept" {
					own++
				}
			}
			for err == nil {
				var r *a2apb.StreamResponse
				if r, err = stream.Recv(); err != nil {
					break
				}
				look("an update", a2a.MetadataOf(r))
				look("a message", r.GetStatusUpdate().GetStatus().GetMessage().GetMetadata())
				if a := r.GetArtifactUpdate().GetArtifact(); a != nil {
					artifacts++
					look("an artifact", a.GetMetadata())
				}
				if t := r.GetTask(); t != nil {
					id = t.GetId()
				}
			}
			if err != io.EOF {
				t.Fatal(err)
			}
			task, err := m.edge().GetTask(plain(t), &a2apb.GetTaskRequest{Id: id})
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range task.GetArtifacts() {
				look("the task's artifact", a.GetMetadata())
			}
			look("the task's status", task.GetStatus().GetMessage().GetMetadata())
			if artifacts == 0 || own < 4 {
				t.Errorf("%d artifacts, and %d of what is the agent's own", artifacts, own)
			}
			m.Stop()
		})
	}
}
