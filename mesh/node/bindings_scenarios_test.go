package node_test

import (
	"context"
	"runtime"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
)

// scenarios are what every binding is put through.
func scenarios() map[string]scenario {
	all := map[string]scenario{}
	for _, some := range []map[string]scenario{sending(), reading(), refusing()} {
		for name, s := range some {
			all[name] = s
		}
	}
	return all
}

func sending() map[string]scenario {
	return map[string]scenario{
		"a message is answered": {func(p *play) {
			done := p.send("send", p.say("hi"))
			p.get("get", done.GetId(), nil)
			p.get("get without history", done.GetId(), size(0))
		}, []string{
			`send: t1 COMPLETED "You said: hi" after ["hi"]`,
			`get: t1 COMPLETED "You said: hi" after ["hi"]`,
			`get without history: t1 COMPLETED "You said: hi" after []`,
		}},
		"a message is answered as a stream": {func(p *play) {
			s, err := p.client.SendStreamingMessage(p.ctx(), p.say("hi"))
			p.events("stream", s, err)
		}, []string{
			`stream: t1 SUBMITTED "" after ["hi"]`, `stream: WORKING ""`, `stream: text "You said: hi"`, `stream: COMPLETED ""`,
		}},
		"a question is answered": {func(p *play) {
			asked := p.send("send", p.say("ask me"))
			answer := p.say("this one")
			answer.Message.TaskId = asked.GetId()
			answer.Configuration = &a2apb.SendMessageConfiguration{HistoryLength: size(2)}
			p.send("answer", answer)
			p.send("answer again", answer)
			p.send("too late", withTask(p.say("more"), asked.GetId()))
		}, []string{
			`send: t1 INPUT_REQUIRED "" after ["ask me"]`,
			`answer: t1 COMPLETED "You said: this one" after ["Which one?" "this one"]`,
			`answer again: t1 COMPLETED "You said: this one" after ["Which one?" "this one"]`,
			`too late: FailedPrecondition UNSUPPORTED_OPERATION (message.task_id)`,
		}},
		"a task is canceled once": {func(p *play) {
			soon := p.say("wait for me")
			soon.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true, HistoryLength: size(0)}
			res, err := p.client.SendMessage(p.ctx(), soon)
			if err != nil || mesh.Terminal(res.GetTask().GetStatus().GetState()) {
				p.note("at once: %v, %v", res, err)
			}
			until(p, res.GetTask().GetId(), "I wait")
			p.cancel("cancel", res.GetTask().GetId())
			p.cancel("cancel again", res.GetTask().GetId())
			parked := p.send("send", p.say("ask me"))
			p.cancel("cancel what waits", parked.GetId())
		}, []string{
			`cancel: t1 CANCELED "I wait" after ["wait for me"]`,
			`cancel again: FailedPrecondition TASK_NOT_CANCELABLE (id)`,
			`send: t2 INPUT_REQUIRED "" after ["ask me"]`,
			`cancel what waits: t2 CANCELED "" after ["ask me"]`,
		}},
		"cursors are for those who know the extension": {func(p *play) {
			p.seqs("plain")
			p.seqs("extended", "a2a-extensions", "urn:unknown, "+mesh.ExtensionURI)
		}, []string{"plain: cursors: false, none: true", "extended: cursors: true, none: false"}},
	}
}

// withTask addresses the request to a task.
func withTask(req *a2apb.SendMessageRequest, id string) *a2apb.SendMessageRequest {
	req.Message.TaskId = id
	return req
}

// until subscribes to a task until its artifacts have the text.
func until(p *play, id, text string) {
	ctx, cancel := context.WithCancel(p.ctx())
	defer cancel()
	s, err := p.client.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: id})
	for heard := ""; err == nil && heard != text; {
		var r *a2apb.StreamResponse
		if r, err = s.Recv(); err == nil {
			heard += textOf(r.GetArtifactUpdate().GetArtifact().GetParts())
			for _, a := range r.GetTask().GetArtifacts() {
				heard += textOf(a.GetParts())
			}
		}
	}
	p.failed("until "+text, err)
}

func reading() map[string]scenario {
	return map[string]scenario{
		"a subscription begins with the task and ends with it": {func(p *play) {
			asked := p.send("send", p.say("ask me"))
			s, err := p.client.SubscribeToTask(p.ctx(), &a2apb.SubscribeToTaskRequest{Id: asked.GetId()})
			if err == nil {
				first, rerr := s.Recv()
				p.task("subscribe", first.GetTask(), rerr)
			}
			p.send("answer", withTask(p.say("this"), asked.GetId()))
			p.events("then", s, err)
			s, err = p.client.SubscribeToTask(p.ctx(), &a2apb.SubscribeToTaskRequest{Id: asked.GetId()})
			p.events("when it is over", s, err)
			s, err = p.client.SubscribeToTask(p.ctx("after-seq", "0"), &a2apb.SubscribeToTaskRequest{Id: asked.GetId()})
			p.events("from the start", s, err)
		}, []string{
			`send: t1 INPUT_REQUIRED "" after ["ask me"]`,
			`subscribe: t1 INPUT_REQUIRED "" after ["ask me"]`,
			`answer: t1 COMPLETED "You said: this" after ["ask me" "Which one?" "this"]`,
			`then: WORKING ""`, `then: text "You said: this"`, `then: COMPLETED ""`,
			`when it is over: FailedPrecondition UNSUPPORTED_OPERATION ()`,
			`from the start: t1 COMPLETED "" after []`, `from the start: WORKING ""`, `from the start: INPUT_REQUIRED "Which one?"`,
			`from the start: WORKING ""`, `from the start: text "You said: this"`, `from the start: COMPLETED ""`,
		}},
		"tasks are listed": {func(p *play) {
			one := p.send("1", p.say("one"))
			for !time.Now().Add(-time.Millisecond).After(one.GetStatus().GetTimestamp().AsTime()) { // tasks of one millisecond are ordered by their ids
				runtime.Gosched()
			}
			two := p.send("2", p.say("ask two"))
			p.list("all", &a2apb.ListTasksRequest{})
			p.list("with artifacts", &a2apb.ListTasksRequest{IncludeArtifacts: proto.Bool(true), HistoryLength: size(0)})
			p.list("waiting", &a2apb.ListTasksRequest{Status: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED})
			p.list("since two", &a2apb.ListTasksRequest{StatusTimestampAfter: two.GetStatus().GetTimestamp()})
			p.list("after two", &a2apb.ListTasksRequest{StatusTimestampAfter: after(two)})
			p.list("elsewhere", &a2apb.ListTasksRequest{ContextId: mesh.NewThreadID()})
			first := p.list("first page", &a2apb.ListTasksRequest{PageSize: size(1)})
			p.list("second page", &a2apb.ListTasksRequest{PageSize: size(1), PageToken: first.GetNextPageToken()})
			p.list("another list", &a2apb.ListTasksRequest{PageToken: first.GetNextPageToken(), Status: a2apb.TaskState_TASK_STATE_FAILED})
		}, []string{
			`1: t1 COMPLETED "You said: one" after ["one"]`,
			`2: t2 INPUT_REQUIRED "" after ["ask two"]`,
			`all: ["t2 INPUT_REQUIRED" "t1 COMPLETED"] of 2 by 50, more: false`,
			`with artifacts: ["t2 INPUT_REQUIRED" "t1 COMPLETED"] of 2 by 50, more: false`,
			`waiting: ["t2 INPUT_REQUIRED"] of 1 by 50, more: false`,
			`since two: ["t2 INPUT_REQUIRED"] of 1 by 50, more: false`,
			`after two: [] of 0 by 50, more: false`,
			`elsewhere: [] of 0 by 50, more: false`,
			`first page: ["t2 INPUT_REQUIRED"] of 2 by 1, more: true`,
			`second page: ["t1 COMPLETED"] of 2 by 1, more: false`,
			`another list: InvalidArgument  (page_token)`,
		}},
		"push notifications are of tasks that there are": {func(p *play) {
			id := unknownTask(p)
			_, create := p.client.CreateTaskPushNotificationConfig(p.ctx(), &a2apb.TaskPushNotificationConfig{TaskId: id, Url: "https://example.com/"})
			_, get := p.client.GetTaskPushNotificationConfig(p.ctx(), &a2apb.GetTaskPushNotificationConfigRequest{TaskId: id, Id: "c"})
			_, list := p.client.ListTaskPushNotificationConfigs(p.ctx(), &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: id})
			_, del := p.client.DeleteTaskPushNotificationConfig(p.ctx(), &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: id, Id: "c"})
			for _, err := range []error{create, get, list, del} {
				p.failed("push", err)
			}
			for i, got := range p.lines {
				if strings.HasPrefix(got, "push: NotFound TASK_NOT_FOUND") {
					p.lines[i] = "no such task"
				}
			}
		}, []string{"no such task", "no such task", "no such task", "no such task"}},
	}
}

func refusing() map[string]scenario {
	return map[string]scenario{
		"what is wrong with a message is named": {func(p *play) {
			for _, c := range []struct {
				name   string
				change func(*a2apb.SendMessageRequest)
			}{
				{"no parts", func(r *a2apb.SendMessageRequest) { r.Message.Parts = nil }},
				{"no id", func(r *a2apb.SendMessageRequest) { r.Message.MessageId = "" }},
				{"agent", func(r *a2apb.SendMessageRequest) { r.Message.Role = a2apb.Role_ROLE_AGENT }},
				{"context", func(r *a2apb.SendMessageRequest) { r.Message.ContextId = strings.Repeat("x", 257) }},
				{"history", func(r *a2apb.SendMessageRequest) {
					r.Configuration = &a2apb.SendMessageConfiguration{HistoryLength: size(-1)}
				}},
			} {
				req := p.say("hi")
				c.change(req)
				p.send(c.name, req)
				s, err := p.client.SendStreamingMessage(p.ctx(), req)
				p.events(c.name, s, err)
			}
		}, []string{
			"no parts: InvalidArgument  (message.parts)", "no parts: InvalidArgument  (message.parts)",
			"no id: InvalidArgument  (message.message_id)", "no id: InvalidArgument  (message.message_id)",
			"agent: InvalidArgument  (message.role)", "agent: InvalidArgument  (message.role)",
			"context: InvalidArgument  (message.context_id)", "context: InvalidArgument  (message.context_id)",
			"history: InvalidArgument  (configuration.history_length)", "history: InvalidArgument  (configuration.history_length)",
		}},
		"what is not there is not found": {func(p *play) {
			id := unknownTask(p)
			p.get("get", id, nil)
			p.cancel("cancel", id)
			p.send("send", withTask(p.say("hi"), id))
			s, err := p.client.SubscribeToTask(p.ctx(), &a2apb.SubscribeToTaskRequest{Id: id})
			p.events("subscribe", s, err)
			p.get("another's", "not-one-of-ours", nil)
		}, []string{
			"get: NotFound TASK_NOT_FOUND (id)", "cancel: NotFound TASK_NOT_FOUND (id)", "send: NotFound TASK_NOT_FOUND (id)",
			"subscribe: NotFound TASK_NOT_FOUND (id)", "another's: NotFound TASK_NOT_FOUND (id)",
		}},
		"what does not fit together is refused": {func(p *play) {
			asked := p.send("send", p.say("ask me"))
			other := withTask(p.say("this"), asked.GetId())
			other.Message.ContextId = mesh.NewThreadID()
			p.send("another context", other)
			p.send("another thread", p.say("hi"), "thread-id", mesh.NewThreadID())
			p.get("history", asked.GetId(), size(-1))
			p.list("no page", &a2apb.ListTasksRequest{PageSize: size(0)})
			p.list("large page", &a2apb.ListTasksRequest{PageSize: size(101)})
			p.list("token", &a2apb.ListTasksRequest{PageToken: "x"})
			p.list("history of a list", &a2apb.ListTasksRequest{HistoryLength: size(-1)})
		}, []string{
			`send: t1 INPUT_REQUIRED "" after ["ask me"]`,
			"another context: InvalidArgument  (message.context_id)",
			"another thread: InvalidArgument  (message.context_id)",
			"history: InvalidArgument  (history_length)",
			"no page: InvalidArgument  (page_size)", "large page: InvalidArgument  (page_size)",
			"token: InvalidArgument  (page_token)", "history of a list: InvalidArgument  (history_length)",
		}},
		"another version is not spoken": {func(p *play) {
			p.send("send", p.say("hi"), "a2a-version", "9.9")
			s, err := p.client.SendStreamingMessage(p.ctx("a2a-version", "9.9"), p.say("hi"))
			p.events("stream", s, err)
			p.send("a patch of ours", p.say("hi"), "a2a-version", "1.0.1")
		}, []string{
			"send: FailedPrecondition VERSION_NOT_SUPPORTED (a2a-version)",
			"stream: FailedPrecondition VERSION_NOT_SUPPORTED (a2a-version)",
			`a patch of ours: t1 COMPLETED "You said: hi" after ["hi"]`,
		}},
	}
}
