package a2a_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/rpc"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A library is a shelf that can list, and has an extended card.
type library struct {
	*shelf
	asked []*a2apb.ListTasksRequest
	err   error
}

func (l *library) List(_ context.Context, req *a2apb.ListTasksRequest) (*a2apb.ListTasksResponse, error) {
	l.asked = append(l.asked, req)
	return &a2apb.ListTasksResponse{PageSize: req.GetPageSize()}, l.err
}

func (l *library) ExtendedCard(ctx context.Context) (*a2apb.AgentCard, error) {
	call, _ := mesh.CallFrom(ctx)
	return &a2apb.AgentCard{Name: "library of " + string(call.Principal.Tenant)}, l.err
}

func TestListTasksSaysWhichFieldIsWrong(t *testing.T) {
	l := &library{shelf: newShelf()}
	client := serve(t, l)
	for name, tt := range map[string]struct {
		req   *a2apb.ListTasksRequest
		field string
	}{
		"no page":       {&a2apb.ListTasksRequest{PageSize: proto.Int32(0)}, "page_size"},
		"negative page": {&a2apb.ListTasksRequest{PageSize: proto.Int32(-1)}, "page_size"},
		"large page":    {&a2apb.ListTasksRequest{PageSize: proto.Int32(101)}, "page_size"},
		"history":       {&a2apb.ListTasksRequest{HistoryLength: proto.Int32(-1)}, "history_length"},
		"state":         {&a2apb.ListTasksRequest{Status: 99}, "status"},
		"time":          {&a2apb.ListTasksRequest{StatusTimestampAfter: &timestamppb.Timestamp{Nanos: -1}}, "status_timestamp_after"},
		"long context":  {&a2apb.ListTasksRequest{ContextId: strings.Repeat("x", 257)}, "context_id"},
	} {
		_, err := client.ListTasks(t.Context(), tt.req)
		if e := errorOf(t, err); e.Code != mesh.Invalid || e.Field != tt.field || e.Detail == "" {
			t.Errorf("%s: got %v (%s), want Invalid (%s)", name, e, e.Field, tt.field)
		}
	}
	if _, err := client.ListTasks(t.Context(), &a2apb.ListTasksRequest{Tenant: "other"}); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("for another tenant: %v", err)
	}
	if len(l.asked) != 0 {
		t.Errorf("%d of the requests reached the service", len(l.asked))
	}
}

func TestListTasksHasAPageSizeAndEchoesTheExtension(t *testing.T) {
	l := &library{shelf: newShelf()}
	client := serve(t, l)
	var header metadata.MD
	ctx := mesh.WithCall(t.Context(), mesh.Call{Extensions: []string{mesh.ExtensionURI}})
	for given, want := range map[*int32]int32{nil: a2a.DefaultPageSize, proto.Int32(1): 1, proto.Int32(100): 100} {
		req := &a2apb.ListTasksRequest{PageSize: given, Status: working, StatusTimestampAfter: timestamppb.New(time.Unix(5, 0))}
		res, err := client.ListTasks(ctx, req, grpc.Header(&header))
		if err != nil || res.GetPageSize() != want {
			t.Errorf("page size %v: %v, %v", given, res, err)
		}
		if got := header.Get(rpc.KeyExtensions); len(got) != 1 || got[0] != mesh.ExtensionURI {
			t.Errorf("the extension is echoed as %v", got)
		}
	}
	l.err = mesh.InvalidField("library", "page_token", "is not one")
	_, err := client.ListTasks(ctx, &a2apb.ListTasksRequest{PageToken: "x"})
	if e := errorOf(t, err); e.Code != mesh.Invalid || e.Field != "page_token" {
		t.Errorf("the service's error became %v", err)
	}
}

func TestTheExtendedCardIsForWhoeverIsKnown(t *testing.T) {
	l := &library{shelf: newShelf()}
	client := serve(t, l)
	req := &a2apb.GetExtendedAgentCardRequest{}
	if _, err := client.GetExtendedAgentCard(t.Context(), req); errorOf(t, err).Reason != a2a.ReasonUnsupported {
		t.Errorf("when the card does not say that there is one: %v", err)
	}
	l.card.Capabilities.ExtendedAgentCard = proto.Bool(true)
	if card, err := client.GetExtendedAgentCard(t.Context(), req); err != nil || card.GetName() != "library of acme" {
		t.Errorf("got %v, %v", card, err)
	}
	plain := newShelf()
	plain.card.Capabilities.ExtendedAgentCard = proto.Bool(true)
	if _, err := serve(t, plain).GetExtendedAgentCard(t.Context(), req); errorOf(t, err).Reason != a2a.ReasonCardNotConfigured {
		t.Errorf("when there is none although the card says so: %v", err)
	}
}

// A2A v1.0 §3.6.2: no version is version 0.3, for those who take it strictly.
func TestAStrictServerRefusesRequestsWithoutAVersion(t *testing.T) {
	for name, tt := range map[string]struct {
		service a2apb.A2AServiceServer
		version string
		ok      bool
	}{
		"lenient, none":  {a2a.NewServer(newShelf()), "", true},
		"strict, none":   {a2a.NewServer(newShelf(), a2a.WithStrictVersion()), "", false},
		"strict, 1.0":    {a2a.NewServer(newShelf(), a2a.WithStrictVersion()), "1.0", true},
		"strict, 1.0.1":  {a2a.NewServer(newShelf(), a2a.WithStrictVersion()), "1.0.1", true},
		"strict, 0.3":    {a2a.NewServer(newShelf(), a2a.WithStrictVersion()), "0.3", false},
		"lenient, 0.3":   {a2a.NewServer(newShelf()), "0.3", false},
		"lenient, wrong": {a2a.NewServer(newShelf()), "one", false},
	} {
		_, err := tt.service.GetTask(mesh.WithCall(t.Context(), mesh.Call{Version: tt.version}), &a2apb.GetTaskRequest{Id: "other"})
		e := errorOf(t, err)
		if refused := e.Reason == a2a.ReasonVersionNotSupported; refused == tt.ok {
			t.Errorf("%s: %v", name, err)
		}
		if tt.ok {
			continue
		}
		told := ""
		for _, d := range grpcstatus.Convert(rpc.ToStatus(err)).Details() {
			if info, is := d.(*errdetails.ErrorInfo); is {
				told = info.GetMetadata()["supportedVersions"]
			}
		}
		if told != "1.0" {
			t.Errorf("%s: the error says that %q is supported", name, told)
		}
	}
}

// A2A v1.0 §3.3.4.
func TestWhoDoesNotSupportARequiredExtensionIsRefused(t *testing.T) {
	s := newShelf()
	s.card.Capabilities.Extensions = []*a2apb.AgentExtension{{Uri: "urn:nice"}, {Uri: "urn:needed", Required: true}}
	client := serve(t, s)
	calls := map[string]func(context.Context) error{
		"send": func(ctx context.Context) error {
			req := hello()
			req.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
			_, err := client.SendMessage(ctx, req)
			return err
		},
		"stream": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			stream, err := client.SendStreamingMessage(ctx, hello())
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"subscribe": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			stream, err := client.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: taskID})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	}
	for name, call := range calls {
		err := call(mesh.WithCall(t.Context(), mesh.Call{Extensions: []string{"urn:nice"}}))
		if e := errorOf(t, err); e.Code != mesh.Precondition || e.Reason != a2a.ReasonExtensionRequired || e.Detail == "" {
			t.Errorf("%s without it: %v", name, err)
		}
		if err := call(mesh.WithCall(t.Context(), mesh.Call{Extensions: []string{"urn:needed"}})); err != nil {
			t.Errorf("%s with it: %v", name, err)
		}
	}
	if s.sent != 2 {
		t.Errorf("%d messages reached the service, want the two that may", s.sent)
	}
}
