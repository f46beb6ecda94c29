package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	legacy "github.com/a2aproject/a2a-go/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// oddNames are context ids that are no thread ids.
func oddNames() []string {
	return []string{"s", "session-1", "a/b:c?d#e&f=g %20", "Gespräch № 7 🙂", "two\nlines\x00", " ", strings.Repeat("x", 256),
		strings.ToUpper(mesh.NewThreadID()), "6ba7b810-9dad-11d1-80b4-00c04fd430c8", mesh.NewThreadID() + " "}
}

// remembers tells what the user has said in the thread so far, and asks when it is told to.
func remembers(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		if strings.HasPrefix(inv.Text(), "ask") {
			yield(agent.Ask{Text: "Which one?"}, nil)
			return
		}
		said, err := inv.Mesh.History(ctx, 100)
		if err != nil {
			yield(nil, err)
			return
		}
		var users []string
		for _, h := range said {
			if h.Role == "user" {
				users = append(users, h.Text)
			}
		}
		yield(agent.Text{Text: fmt.Sprintf("%s@%s", strings.Join(users, "|"), inv.Thread.ID)}, nil)
	}
}

// contextsOf are all the context ids that a message of A2A has, in JSON.
func contextsOf(v any) []string {
	raw, err := json.Marshal(v)
	if err != nil {
		return []string{err.Error()}
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return []string{err.Error()}
	}
	var all []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for key, item := range v {
				if s, ok := item.(string); ok && slices.Contains([]string{"contextId", "context_id", "ContextID"}, key) {
					all = append(all, s)
				}
				walk(item)
			}
		}
	}
	walk(tree)
	slices.Sort(all)
	return slices.Compact(all)
}

// shows fails the test unless the context id of all that the message has is the one wanted.
func shows(t testing.TB, what string, v any, want string) {
	t.Helper()
	if got := contextsOf(v); !slices.Equal(got, []string{want}) {
		t.Errorf("%s: context ids %q, want %q", what, got, want)
	}
}

// all checks the context ids of a stream's events, to its end, and counts them.
func (p *play) all(what, want string, s interface {
	Recv() (*a2apb.StreamResponse, error)
}, err error) (n int) {
	p.t.Helper()
	for err == nil {
		var r *a2apb.StreamResponse
		if r, err = s.Recv(); err == nil {
			n++
			shows(p.t, what, r, want)
		}
	}
	if err != io.EOF {
		p.t.Errorf("%s: %v", what, err)
	}
	return n
}

// Plain clients keep a conversation under whatever context id they like. It
// comes back as it was sent in all that a task is shown by, over every binding, and agents
// get the thread's id.
func TestAnyTextIsAContextIDForPlainClients(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": remembers})
	m.each(t, func(p *play) {
		user := p.ctx("user-id", "ann-"+strings.ToLower(strings.ReplaceAll(p.t.Name()[strings.LastIndexByte(p.t.Name(), '/')+1:], "+", "-")))
		names := oddNames()
		for _, name := range names {
			say := func(text string) *a2apb.SendMessageRequest {
				req := say(text)
				req.Message.ContextId = name
				return req
			}
			first, err := p.client.SendMessage(user, say("one"))
			if err != nil {
				p.t.Errorf("%q: %v", name, err)
				continue
			}
			shows(p.t, "the first task", first, name)
			s, err := p.client.SendStreamingMessage(user, say("two"))
			if n := p.all("a stream", name, s, err); n < 3 {
				p.t.Errorf("the stream had %d events", n)
			}
			asked, err := p.client.SendMessage(user, say("ask"))
			shows(p.t, "a question", asked, name)
			if err != nil || asked.GetTask().GetStatus().GetMessage() == nil {
				p.t.Fatalf("the question is %v, %v", asked, err)
			}
			answer := say("three")
			answer.Message.TaskId = asked.GetTask().GetId()
			answered, err := p.client.SendMessage(user, answer)
			if err != nil {
				p.t.Fatal(err)
			}
			shows(p.t, "an answer", answered, name)
			task := answered.GetTask()
			said, at, _ := strings.Cut(textOf(task.GetArtifacts()[0].GetParts()), "@")
			thread, _ := mesh.ExecutionID(task.GetId()).ThreadID()
			if said != "one|two|ask|three" || at != thread || thread == name {
				p.t.Errorf("the agent knows %q of thread %s, which is %s", said, at, thread)
			}
			for range 2 { // put together, and as it is kept
				got, err := p.client.GetTask(user, &a2apb.GetTaskRequest{Id: task.GetId()})
				if err != nil {
					p.t.Fatal(err)
				}
				shows(p.t, "GetTask", got, name)
			}
			sub, err := p.client.SubscribeToTask(metadata.AppendToOutgoingContext(user, "after-seq", "1"), &a2apb.SubscribeToTaskRequest{Id: task.GetId()})
			p.all("SubscribeToTask", name, sub, err)
			list, err := p.client.ListTasks(user, &a2apb.ListTasksRequest{ContextId: name})
			if err != nil || list.GetTotalSize() != 3 {
				p.t.Fatalf("listed %v, %v", list, err)
			}
			shows(p.t, "ListTasks", list, name)
			stranger := p.say("hi")
			stranger.Message.ContextId, stranger.Message.TaskId = "another", task.GetId()
			_, err = p.client.SendMessage(user, stranger)
			p.refused("another context with the task", err, codes.InvalidArgument, "", "message.context_id")
		}
		list, err := p.client.ListTasks(user, &a2apb.ListTasksRequest{PageSize: size(100)})
		got := contextsOf(list)
		if err != nil || slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(got, n) }) {
			p.t.Errorf("all tasks have the contexts %q, %v, want %q among them", got, err, names)
		}
		for name, headers := range map[string][]string{"s": {"a2a-extensions", mesh.ExtensionURI}, "t": {"thread-id", mesh.NewThreadID()}, strings.Repeat("x", 257): nil} {
			req := p.say("hi")
			req.Message.ContextId = name
			_, err := p.client.SendMessage(p.ctx(headers...), req)
			p.refused("who says thread ids", err, codes.InvalidArgument, "", "message.context_id")
		}
	})
}

// The same for clients of v0.3 over JSON-RPC, gRPC and REST.
func TestAnyTextIsAContextIDForClientsOfV03(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": remembers})
	for binding, client := range v03Clients(t, m) {
		for i, name := range []string{"session-1", "a/b:c 🙂", strings.Repeat("x", 256)} {
			name += binding
			if len(name) > 256 {
				name = name[len(name)-256:]
			}
			say := func(text string) *legacy.MessageSendParams {
				params := v03Say(text, nil)
				params.Message.ContextID = name
				return params
			}
			if _, err := client.SendMessage(plain(t), say("one")); err != nil {
				t.Fatalf("%s, %d: %v", binding, i, err)
			}
			heard := v03Hear(t, client.SendStreamingMessage(plain(t), say("two")), nil)
			if said, _, _ := strings.Cut(heard.text, "@"); said != "one|two" || heard.thread != name {
				t.Errorf("%s: %q in %q, want all that was said in %q", binding, said, heard.thread, name)
			}
			task, err := client.GetTask(plain(t), &legacy.TaskQueryParams{ID: heard.task})
			if err != nil || task.ContextID != name || task.History[0].ContextID != name {
				t.Errorf("%s: GetTask: %+v, %v", binding, task, err)
			}
		}
	}
	const name = "an odd/one"
	body := `{"message":{"messageId":"` + mesh.NewEventID() + `","contextId":"` + name + `","role":"ROLE_USER","content":[{"text":"one"}]}}`
	if resp, text := post(t, m, "/v1/message:send", body); resp.StatusCode != http.StatusOK || !slices.Equal(contextsOf(json.RawMessage(text)), []string{name}) {
		t.Errorf("REST: %d %s", resp.StatusCode, text)
	}
	if resp, text := visit(t, m, "GET", "/v1/tasks?contextId="+url.QueryEscape(name), ""); resp.StatusCode != http.StatusOK || !slices.Equal(contextsOf(json.RawMessage(text)), []string{name}) {
		t.Errorf("REST, list: %d %s", resp.StatusCode, text)
	}
}

// A name is its user's alone. The same name of another is another conversation;
// one that is shared is addressed by its id, and shown so to all but whose name it is.
func TestTheSameNameOfTwoUsersMeansTwoThreads(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	m := start(t, cfg, map[string]run{"main": remembers})
	m.each(t, func(p *play) {
		ann, eve, foreign := p.ctx(header("secret-of-tenant-a")...), p.ctx(header("secret-of-tenant-eve")...), p.ctx(header("secret-of-tenant-b")...)
		name := "secret " + mesh.NewEventID()
		send := func(ctx context.Context, context, text string) (*a2apb.Task, error) {
			req := say(text)
			req.Message.ContextId = context
			res, err := p.client.SendMessage(ctx, req)
			return res.GetTask(), err
		}
		task, err := send(ann, name, "mine")
		if err != nil {
			p.t.Fatal(err)
		}
		thread, _ := mesh.ExecutionID(task.GetId()).ThreadID()
		for who, ctx := range map[string]context.Context{"a colleague": eve, "another tenant's": foreign} {
			own, err := send(ctx, name, "hers")
			if err != nil || !strings.HasPrefix(textOf(own.GetArtifacts()[0].GetParts()), "hers@") || strings.Contains(own.String(), thread) {
				p.t.Errorf("%s: %v, %v", who, own, err)
			}
			if in, err := send(ctx, thread, "let me in"); err == nil && !strings.HasPrefix(textOf(in.GetArtifacts()[0].GetParts()), "let me in@") {
				p.t.Errorf("%s came in by the thread's id: %v", who, in) // in another tenant it is another thread
			}
			if list, err := p.client.ListTasks(ctx, &a2apb.ListTasksRequest{ContextId: name}); err != nil || list.GetTotalSize() != 1 || list.GetTasks()[0].GetId() != own.GetId() {
				p.t.Errorf("%s lists %v, %v", who, list, err)
			}
		}
		if _, err := meshv1.NewThreadServiceClient(m.raw(p.t)).ShareThread(as(plain(p.t), "a"), &meshv1.ShareThreadRequest{ThreadId: thread, Add: []string{"eve"}}); err != nil {
			p.t.Fatal(err)
		}
		read, err := p.client.GetTask(eve, &a2apb.GetTaskRequest{Id: task.GetId()})
		if err != nil {
			p.t.Fatal(err)
		}
		shows(p.t, "to who takes part", read, thread)
		for _, by := range []struct {
			ctx  context.Context
			want string
		}{{eve, thread}, {ann, name}, {eve, thread}} { // of the same events
			s, err := p.client.SubscribeToTask(metadata.AppendToOutgoingContext(by.ctx, "after-seq", "1"), &a2apb.SubscribeToTaskRequest{Id: task.GetId()})
			if n := p.all("a stream", by.want, s, err); n < 3 {
				p.t.Errorf("the stream had %d events", n)
			}
		}
		both, err := send(eve, thread, "ours")
		if err != nil || !strings.HasPrefix(textOf(both.GetArtifacts()[0].GetParts()), "mine|ours@") {
			p.t.Errorf("by the id: %v, %v", both, err)
		}
		shows(p.t, "by the id", both, thread)
		again, err := send(ann, name, "and mine")
		if err != nil || !strings.HasPrefix(textOf(again.GetArtifacts()[0].GetParts()), "mine|ours|and mine@") {
			p.t.Errorf("by the name: %v, %v", again, err)
		}
		shows(p.t, "by the name", again, name)
		exact, err := p.client.GetTask(p.ctx(append(header("secret-of-tenant-a"), "a2a-extensions", mesh.ExtensionURI)...), &a2apb.GetTaskRequest{Id: task.GetId()})
		if err != nil {
			p.t.Fatal(err)
		}
		shows(p.t, "with our extension", exact, thread)
	})
}

// A name means its thread at every node and after restarts, and a new
// conversation once the thread is deleted.
func TestANameOutlivesNodesAndNotItsThread(t *testing.T) {
	cfg := config(t.TempDir())
	const name = "for ever"
	var wg sync.WaitGroup
	send := func(m *testMesh, text string) (string, *a2apb.Task) {
		t.Helper()
		req := say(text)
		req.Message.ContextId = name
		res, err := a2apb.NewA2AServiceClient(m.raw(t)).SendMessage(plain(t), req)
		if err != nil {
			t.Fatal(err)
		}
		shows(t, text, res, name)
		said, _, _ := strings.Cut(textOf(res.GetTask().GetArtifacts()[0].GetParts()), "@")
		return said, res.GetTask()
	}
	m := start(t, cfg, map[string]run{"main": remembers})
	tasks := make([]*a2apb.Task, 8)
	for i := range tasks { // at once, at all nodes
		wg.Go(func() {
			req := say("x")
			req.Message.ContextId = name
			res, err := a2apb.NewA2AServiceClient(m.raw(t)).SendMessage(plain(t), req)
			if err != nil {
				t.Error(err)
			}
			tasks[i] = res.GetTask()
		})
	}
	wg.Wait()
	thread, _ := mesh.ExecutionID(tasks[0].GetId()).ThreadID()
	for _, task := range tasks {
		if at, _ := mesh.ExecutionID(task.GetId()).ThreadID(); at != thread {
			t.Errorf("one is in thread %s, another in %s", at, thread)
		}
	}
	m.Stop()
	m = start(t, cfg, map[string]run{"main": remembers})
	if said, _ := send(m, "y"); said != strings.Repeat("x|", 8)+"y" {
		t.Errorf("after a restart it knows %q", said)
	}
	got, err := a2apb.NewA2AServiceClient(m.raw(t)).GetTask(plain(t), &a2apb.GetTaskRequest{Id: tasks[0].GetId()})
	if err != nil {
		t.Fatal(err)
	}
	shows(t, "a task of before", got, name)
	if _, err := meshv1.NewThreadServiceClient(m.raw(t)).DeleteThread(plain(t), &meshv1.DeleteThreadRequest{ThreadId: thread}); err != nil {
		t.Fatal(err)
	}
	if said, task := send(m, "z"); said != "z" || task.GetId() == tasks[0].GetId() {
		t.Errorf("after it was deleted it knows %q", said)
	}
	if _, err := a2apb.NewA2AServiceClient(m.raw(t)).GetTask(plain(t), &a2apb.GetTaskRequest{Id: tasks[0].GetId()}); err == nil {
		t.Error("a task of the thread that was deleted is still there")
	}
}

// Webhooks are told of a task by the name that it was opened with.
func TestAWebhookIsToldTheNameOfTheContext(t *testing.T) {
	const name = "hooked/1"
	m := start(t, withWebhooks(config(t.TempDir())), map[string]run{"main": remembers})
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"%s","contextId":"` + name + `","role":"ROLE_USER","parts":[{"text":"ask"}]},"configuration":{"taskPushNotificationConfig":{"url":"%s"}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"%s","contextId":"` + name + `","role":"user","parts":[{"kind":"text","text":"ask"}]},"configuration":{"blocking":true,"acceptedOutputModes":[],"pushNotificationConfig":{"url":"%s"}}}}`,
	} {
		h := newHook(t)
		if resp, text := post(t, m, "/", fmt.Sprintf(body, mesh.NewEventID(), h.URL)); resp.StatusCode != http.StatusOK || strings.Contains(text, `"error"`) {
			t.Fatalf("%d %s", resp.StatusCode, text)
		}
		h.until(t, "Which one?")
		h.mu.Lock()
		shows(t, "what was delivered", h.got, name)
		h.mu.Unlock()
	}
}
