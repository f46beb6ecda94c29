package v03

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/rpc"
)

// PathPrefix is where the HTTP+JSON binding of v0.3 is.
const PathPrefix = "/v1/"

// restServer serves the HTTP+JSON binding.
type restServer struct {
	*web
	json  protoJSON
	early bool // see Options.ReturnEarly
}

// NewREST returns the handler of the HTTP+JSON binding of v0.3, for paths below
// [PathPrefix]. conn leads to the services, of which a2a.v1 is one. When ctx ends,
// open streams do. It refuses negative options with [mesh.Invalid].
func NewREST(ctx context.Context, conn rpc.Conn, opts Options) (http.Handler, error) {
	web, err := newWeb(ctx, "v03.NewREST", conn, opts)
	if err != nil {
		return nil, err
	}
	shape, err := newProtoJSON()
	if err != nil {
		return nil, err
	}
	return &restServer{web, shape, opts.ReturnEarly}, nil
}

// request is one request and where its answer goes.
type request struct {
	*http.Request // admitted
	w             http.ResponseWriter
	body          []byte
	task, config  string // ids in the path
}

// route is what a path offers, by HTTP method.
type route map[string]func(*restServer, *request)

// find returns what is at the path, with the ids that are in it; nil if there
// is nothing. Task ids have no colon, so what follows one is the action.
func find(escaped string) (offered route, task, config string) {
	path, ok := strings.CutPrefix(escaped, PathPrefix)
	if !ok {
		return nil, "", ""
	}
	s := strings.Split(path, "/")
	for i := range s {
		var err error
		if s[i], err = url.PathUnescape(s[i]); err != nil || s[i] == "" && i < 3 {
			return nil, "", ""
		}
	}
	switch {
	case len(s) == 1:
		return map[string]route{
			"message:send":   {http.MethodPost: (*restServer).send},
			"message:stream": {http.MethodPost: (*restServer).stream},
			"card":           {http.MethodGet: (*restServer).card},
			tasksCollection:  {http.MethodGet: (*restServer).list},
		}[s[0]], "", ""
	case s[0] != tasksCollection:
		return nil, "", ""
	case len(s) == 2:
		task, action, _ := strings.Cut(s[1], ":")
		return map[string]route{
			"":       {http.MethodGet: (*restServer).get},
			"cancel": {http.MethodPost: (*restServer).cancel},
			// The proto of v0.3 says GET, its text POST.
			"subscribe": {http.MethodGet: (*restServer).subscribe, http.MethodPost: (*restServer).subscribe},
		}[action], task, ""
	case s[2] != pushCollection:
		return nil, "", ""
	case len(s) == 3:
		return route{http.MethodGet: (*restServer).listPush, http.MethodPost: (*restServer).createPush}, s[1], ""
	case len(s) == 4: // whose last id may be empty, which names the only config
		return route{http.MethodGet: (*restServer).getPush, http.MethodDelete: (*restServer).deletePush}, s[1], s[3]
	}
	return nil, "", ""
}

func (s *restServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	offered, task, config := find(r.URL.EscapedPath())
	if offered == nil {
		s.fail(w, http.StatusNotFound, status.New(codes.NotFound, "there is nothing at this path in A2A 0.3; try /v1/card"))
		return
	}
	serve, ok := offered[r.Method]
	if !ok {
		var allowed []string
		for name := range offered {
			allowed = append(allowed, name)
		}
		slices.Sort(allowed)
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		s.fail(w, http.StatusMethodNotAllowed, status.New(codes.Unimplemented,
			fmt.Sprintf("%s is not possible here; use %s", clip(r.Method), strings.Join(allowed, " or "))))
		return
	}
	admitted, bad := s.admit(r)
	if bad != nil {
		s.refuse(w, bad)
		return
	}
	body, code, bad := s.binding.ReadBody(w, r)
	if bad != nil {
		s.fail(w, code, bad)
		return
	}
	serve(s, &request{Request: admitted, w: legacyWriter{w}, body: body, task: task, config: config})
}

func (s *restServer) refuse(w http.ResponseWriter, st *status.Status) { s.fail(w, httpCodeOf(st), st) }

func (s *restServer) fail(w http.ResponseWriter, code int, st *status.Status) {
	f := faultOf(st)
	f.head(w.Header(), code)
	s.web.send(w, code, string(f.restJSON(code))+"\n")
}

// invoke makes a unary call and answers with what it returns, translated.
func invoke[Out any, P interface {
	*Out
	proto.Message
}](s *restServer, r *request, method string, in proto.Message, translate func(P) proto.Message) {
	out := P(new(Out))
	if err := s.binding.Invoke(r.w, r.Request, method, in, out); err != nil {
		s.refuse(r.w, status.Convert(err))
		return
	}
	body, err := s.json.append(nil, translate(out))
	if err != nil {
		s.refuse(r.w, s.untranslated(method, err))
		return
	}
	s.write(r.w, http.StatusOK, body)
}

// events makes a streaming call.
func (s *restServer) events(r *request, method string, in proto.Message) {
	s.follow(r.w, r.Request, rest.Call{Method: method, In: in, Out: eventType}, rest.Framing{
		Message: func(b []byte, m proto.Message) ([]byte, error) {
			event, ok := m.(*a2apb.StreamResponse)
			if !ok {
				return nil, fmt.Errorf("v03: a stream has events, not %T", m)
			}
			return s.json.append(b, toEvent(event))
		},
		Error:  func(st *status.Status) []byte { return faultOf(st).restJSON(httpCodeOf(st)) },
		Refuse: func(st *status.Status) { s.refuse(r.w, st) },
	})
}

// message reads the body as a message to send. Whether somebody says if to wait is looked
// up in the body: the proto cannot tell that from no.
func (s *restServer) message(r *request) (*a2apb.SendMessageRequest, bool) {
	in := &legacypb.SendMessageRequest{}
	if bad := s.json.read(r.body, in); bad != nil {
		s.refuse(r.w, bad)
		return nil, false
	}
	if c := in.GetConfiguration(); c != nil && !hasMember(r.body, "configuration", "blocking") {
		c.Blocking = !s.early
	}
	return fromSend(in, s.early), true
}

func (s *restServer) send(r *request) {
	if in, ok := s.message(r); ok {
		invoke(s, r, a2apb.A2AService_SendMessage_FullMethodName, in,
			func(m *a2apb.SendMessageResponse) proto.Message { return toSendResponse(m) })
	}
}

func (s *restServer) stream(r *request) {
	if in, ok := s.message(r); ok {
		s.events(r, a2apb.A2AService_SendStreamingMessage_FullMethodName, in)
	}
}

func (s *restServer) subscribe(r *request) {
	s.events(r, a2apb.A2AService_SubscribeToTask_FullMethodName, &a2apb.SubscribeToTaskRequest{Id: r.task})
}

func (s *restServer) get(r *request) {
	q := query{values: r.URL.Query()}
	in := &a2apb.GetTaskRequest{Id: r.task, HistoryLength: q.number("historyLength", "history_length")}
	if q.bad != nil {
		s.refuse(r.w, q.bad)
		return
	}
	invoke(s, r, a2apb.A2AService_GetTask_FullMethodName, in, fromTask)
}

func fromTask(t *a2apb.Task) proto.Message { return toTask(t) }

func (s *restServer) cancel(r *request) {
	invoke(s, r, a2apb.A2AService_CancelTask_FullMethodName, &a2apb.CancelTaskRequest{Id: r.task}, fromTask)
}

func (s *restServer) list(r *request) {
	q := query{values: r.URL.Query()}
	in := &a2apb.ListTasksRequest{
		ContextId: q.text("contextId", "context_id"), PageToken: q.text("pageToken", "page_token"),
		PageSize: q.number("pageSize", "page_size"), HistoryLength: q.number("historyLength", "history_length"),
		Status: q.state("status"), StatusTimestampAfter: q.time("lastUpdatedTime", "last_updated_time", "lastUpdatedAfter"),
		IncludeArtifacts: q.flag("includeArtifacts", "include_artifacts"),
	}
	if q.bad != nil {
		s.refuse(r.w, q.bad)
		return
	}
	invoke(s, r, a2apb.A2AService_ListTasks_FullMethodName, in, func(m *a2apb.ListTasksResponse) proto.Message { return toList(m) })
}

// card asks the node's own a2a.v1, which knows which card is for whom.
func (s *restServer) card(r *request) {
	r.Header.Set(headerVersion, Version)
	admitted, bad := s.binding.Admit(r.Request)
	if bad != nil {
		s.refuse(r.w, bad)
		return
	}
	r.Request = admitted
	invoke(s, r, legacypb.A2AService_GetAgentCard_FullMethodName, &legacypb.GetAgentCardRequest{},
		func(m *legacypb.AgentCard) proto.Message { return m })
}

func fromConfig(c *a2apb.TaskPushNotificationConfig) proto.Message { return toPush(c) }

// createPush takes the config alone, as the proto says, in the request that it is part
// of, and bare, as clients send it.
func (s *restServer) createPush(r *request) {
	in := &legacypb.CreateTaskPushNotificationConfigRequest{}
	into := proto.Message(in)
	if !hasMember(r.body, "config") {
		in.Config = &legacypb.TaskPushNotificationConfig{}
		into = in.Config
	}
	if hasMember(r.body, "url") {
		in.Config.PushNotificationConfig = &legacypb.PushNotificationConfig{}
		into = in.Config.PushNotificationConfig
	}
	if bad := s.json.read(r.body, into); bad != nil {
		s.refuse(r.w, bad)
		return
	}
	if in.GetConfig().GetPushNotificationConfig() == nil {
		s.refuse(r.w, invalid("config.pushNotificationConfig", "is missing; send a config with a url"))
		return
	}
	config := fromPush(r.task, in.GetConfig().GetPushNotificationConfig())
	if config.Id == "" {
		config.Id = in.GetConfigId()
	}
	invoke(s, r, a2apb.A2AService_CreateTaskPushNotificationConfig_FullMethodName, config, fromConfig)
}

func (s *restServer) getPush(r *request) {
	invoke(s, r, a2apb.A2AService_GetTaskPushNotificationConfig_FullMethodName,
		&a2apb.GetTaskPushNotificationConfigRequest{TaskId: r.task, Id: r.config}, fromConfig)
}

func (s *restServer) listPush(r *request) {
	invoke(s, r, a2apb.A2AService_ListTaskPushNotificationConfigs_FullMethodName,
		&a2apb.ListTaskPushNotificationConfigsRequest{TaskId: r.task},
		func(m *a2apb.ListTaskPushNotificationConfigsResponse) proto.Message { return toPushList(m) })
}

func (s *restServer) deletePush(r *request) {
	err := s.binding.Invoke(r.w, r.Request, a2apb.A2AService_DeleteTaskPushNotificationConfig_FullMethodName,
		&a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: r.task, Id: r.config}, &emptypb.Empty{})
	if err != nil {
		s.refuse(r.w, status.Convert(err))
		return
	}
	r.w.WriteHeader(http.StatusNoContent)
}

// query reads parameters, which may be written in two ways, and keeps the first
// error.
type query struct {
	values url.Values
	bad    *status.Status
}

func (q *query) text(names ...string) string {
	for _, name := range names {
		if v := q.values.Get(name); v != "" {
			return v
		}
	}
	return ""
}

func (q *query) fail(name, format string, args ...any) {
	if q.bad == nil {
		q.bad = invalid(name, format, args...)
	}
}

func (q *query) number(names ...string) *int32 {
	v := q.text(names...)
	if v == "" {
		return nil
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		q.fail(names[0], "must be a number, and is %q", clip(v))
		return nil
	}
	out := int32(n)
	return &out
}

func (q *query) flag(names ...string) *bool {
	v := q.text(names...)
	if v == "" {
		return nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		q.fail(names[0], "must be true or false, and is %q", clip(v))
		return nil
	}
	return &b
}

func (q *query) state(name string) a2apb.TaskState {
	v := q.text(name)
	if v == "" {
		return a2apb.TaskState_TASK_STATE_UNSPECIFIED
	}
	n, ok := legacypb.TaskState_value[v]
	if !ok {
		q.fail(name, "must be a state such as TASK_STATE_WORKING, and is %q", clip(v))
	}
	return a2apb.TaskState(n)
}

func (q *query) time(names ...string) *timestamppb.Timestamp {
	v := q.text(names...)
	if v == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		q.fail(names[0], "must be a time such as 2025-01-31T12:00:00Z, and is %q", clip(v))
		return nil
	}
	return timestamppb.New(at)
}
