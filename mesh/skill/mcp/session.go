package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentmesh/mesh/skill"
)

const (
	// clientName is how the mesh introduces itself.
	clientName = "agentmesh"
	// firstVersion is the version of the protocol to fall back to: the last
	// one that begins with a handshake.
	firstVersion = "2025-11-25"
	// goodOrder is how long a server may take for each step of ending.
	goodOrder = 2 * time.Second
	// maxTools bounds the tools of a server, and maxPages how many answers
	// they may come in.
	maxTools = 5000
	maxPages = 200
)

// MetaKey is where the idempotency key of a call is in its _meta, in both
// directions: calls with the same key are to have one effect.
const MetaKey = "agentmesh/idempotency-key"

// errEnded is why a call fails whose connection ended.
var errEnded = errors.New("the connection ended")

// A session is a connection to a server. It is used concurrently; close comes
// last.
type session struct {
	client  *sdk.ClientSession
	proc    *process // or else
	carrier *carrier
	calls   cancels
	told    listeners
	grace   time.Duration // for each step of ending
	// changed is told when the server says that its tools changed.
	changed chan struct{}
	ended   chan struct{} // closed when the connection has ended
	waiting sync.WaitGroup
}

// A dialer makes sessions.
type dialer struct {
	server  Server
	version string
	grace   time.Duration
	logger  *slog.Logger
}

// dial connects within the server's timeout. Legacy asks for a version of the
// protocol that begins with a handshake, for servers that end or hang when they
// are asked anything before it.
func (d *dialer) dial(ctx context.Context, base http.RoundTripper, legacy bool) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, d.server.Timeout)
	defer cancel()
	s := &session{grace: d.grace, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	link, err := d.link(s, base)
	if err != nil {
		return nil, err
	}
	client := sdk.NewClient(&sdk.Implementation{Name: clientName, Version: d.version}, &sdk.ClientOptions{
		Capabilities:                &sdk.ClientCapabilities{},
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { wake(s.changed) },
		ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) { s.told.tell(req.Params) },
	})
	client.AddSendingMiddleware(uncached)
	var o sdk.ClientSessionOptions
	if legacy {
		o.ProtocolVersion = firstVersion
	}
	s.client, err = client.Connect(ctx, link, &o)
	if err != nil {
		s.cut()
		if link.made != nil {
			_ = link.made.Close()
		}
		return nil, err
	}
	s.waiting.Go(func() {
		defer close(s.ended)
		_ = s.client.Wait()
	})
	return s, nil
}

// link starts the process, or sets up the requests.
func (d *dialer) link(s *session, base http.RoundTripper) (*link, error) {
	if len(d.server.Command) > 0 {
		p, err := start(d.server, d.logger)
		if err != nil {
			return nil, err
		}
		s.proc = p
		return &link{Transport: &sdk.IOTransport{Reader: newMessages(p.stdout, d.logger), Writer: p, MaxLineLength: maxMessage}}, nil
	}
	origin, err := url.Parse(d.server.URL)
	if err != nil {
		return nil, err
	}
	s.carrier = &carrier{base: base, origin: origin, headers: d.server.Headers}
	return &link{Transport: &sdk.StreamableClientTransport{
		Endpoint: d.server.URL, HTTPClient: s.carrier.client(), MaxEventSize: maxMessage,
	}}, nil
}

// A link remembers the connection that its transport made.
type link struct {
	sdk.Transport
	made sdk.Connection
}

func (l *link) Connect(ctx context.Context) (sdk.Connection, error) {
	made, err := l.Transport.Connect(ctx)
	l.made = made
	return made, err
}

// uncached keeps the SDK from answering listings itself: who asks wants to know
// whether the server is there.
func uncached(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		if list, ok := res.(*sdk.ListToolsResult); ok && err == nil {
			list.TTLMs = 0
		}
		return res, err
	}
}

// wake tells a channel of capacity 1 that there is something to do.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// list returns all tools of the server, or as many as there may be.
func (s *session) list(ctx context.Context, timeout time.Duration) (tools []*sdk.Tool, whole bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if c := s.client.InitializeResult().Capabilities; c == nil || c.Tools == nil {
		return nil, true, nil
	}
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := s.client.ListTools(ctx, params)
		if err != nil {
			return nil, false, fmt.Errorf("listing tools: %w", err)
		}
		tools = append(tools, page.Tools...)
		if len(tools) > maxTools {
			return tools[:maxTools], false, nil
		}
		if page.NextCursor == "" {
			return tools, true, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return tools, false, nil
}

// call calls a tool, no longer than the connection lives. Progress, if there is one,
// is told how far it is.
func (s *session) call(ctx context.Context, tool, key string, args map[string]any, progress func(skill.Progress)) (*sdk.CallToolResult, error) {
	ctx, release := s.calls.join(ctx)
	defer release()
	params := &sdk.CallToolParams{Name: tool, Arguments: args}
	if key != "" {
		params.Meta = sdk.Meta{MetaKey: key}
	}
	if progress != nil {
		token, done := s.told.join(progress)
		defer done()
		params.SetProgressToken(token)
	}
	res, err := s.client.CallTool(ctx, params)
	if err != nil && errors.Is(context.Cause(ctx), errEnded) {
		return nil, errEnded
	}
	return res, err
}

// cut ends what is below the session.
func (s *session) cut() {
	s.calls.all(errEnded)
	if s.proc != nil {
		s.proc.stop(s.grace)
	}
	if s.carrier != nil {
		s.carrier.requests.all(errEnded)
	}
}

// close ends the session: in good order where the server takes part, and
// otherwise soon. Nothing of it is left then.
func (s *session) close() {
	s.calls.all(errEnded)
	if s.carrier != nil {
		late := time.AfterFunc(s.grace, func() { s.carrier.requests.all(errEnded) })
		defer late.Stop()
	} else {
		s.proc.stop(s.grace)
	}
	_ = s.client.Close()
	s.cut()
	s.waiting.Wait()
}
