package api

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/security/credentials"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Registry serves mesh.v1.RegistryService over a registry.
type Registry struct {
	meshv1.UnimplementedRegistryServiceServer
	agents *registry.Registry
	keys   [][]byte
	read   ReadByRole

	states    *cache.States
	permitted func(p mesh.Principal, a mesh.Action, agent string) error
}

// NewRegistry returns the server. The public keys with which tickets and grants are
// checked go out with every registration.
func NewRegistry(agents *registry.Registry, keys [][]byte) *Registry {
	return &Registry{agents: agents, keys: keys, read: nobodyTold}
}

// WithAudit has f told who sees where agents of others are because a role allows it. It
// returns s, and is called before s serves.
func (s *Registry) WithAudit(f ReadByRole) *Registry {
	s.read = f
	return s
}

// WithRights has agents at work told which others they may not use for their user, whose
// roles the thread's log has: those for which permitted has an error. It returns s, and is
// called before s serves.
func (s *Registry) WithRights(states *cache.States, permitted func(p mesh.Principal, a mesh.Action, agent string) error) *Registry {
	s.states, s.permitted = states, permitted
	return s
}

// as returns the caller with the roles of the user for whom it works.
func (s *Registry) as(ctx context.Context, p mesh.Principal) (mesh.Principal, error) {
	if p.Grant == nil || s.states == nil {
		return p, nil
	}
	err := s.states.With(ctx, p.Grant.Key(), func(st *thread.State) error {
		p.Roles = nil
		if t := st.Turn(p.Grant.Turn); t != nil {
			p.Roles = t.Roles
		}
		return nil
	})
	return p, mesh.Wrap("api.Registry", err)
}

// shown is agentProto, with what an agent at work may not do with the other for its user.
func (s *Registry) shown(p mesh.Principal, e registry.Entry) *meshv1.Agent {
	out := agentProto(p, e)
	if p.Grant == nil || s.permitted == nil {
		return out
	}
	for _, a := range []mesh.Action{mesh.ActOrchestrate, mesh.ActHandoff} {
		if s.permitted(p, a, e.Name) != nil {
			out.DeniedActions = append(out.DeniedActions, string(a))
		}
	}
	return out
}

// RegisterAgent implements the RPC.
func (s *Registry) RegisterAgent(ctx context.Context, req *meshv1.RegisterAgentRequest) (*meshv1.RegisterAgentResponse, error) {
	const op = "api.RegisterAgent"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	want := registry.Request{Name: req.GetName(), Card: req.GetCard(), Endpoint: req.GetEndpoint(),
		CardURL: req.GetCardUrl(), Shared: req.GetShared(), Replica: req.GetReplica(), LeaseID: req.GetLeaseId(), Credentials: givenOf(req.GetCredentials())}
	if l := req.GetLease(); l != nil {
		want.Lease = l.AsDuration()
		if !l.IsValid() || want.Lease <= 0 {
			return nil, mesh.InvalidField(op, "lease", "must be %v to %v; leave it out for %v",
				registry.MinLease, registry.MaxLease, registry.DefaultLease)
		}
	}
	got, err := s.agents.Register(ctx, call.Principal, want)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	res := &meshv1.RegisterAgentResponse{Agent: agentProto(call.Principal, got.Entry), LeaseId: got.LeaseID, Secret: got.Secret, GrantKeys: s.keys}
	if got.Lease > 0 {
		res.Lease = durationpb.New(got.Lease)
	}
	return res, nil
}

// KeepAlive implements the RPC: each request renews its lease and is answered.
// It ends with the first that cannot be renewed. When the stream breaks, the
// leases just run out.
func (s *Registry) KeepAlive(stream grpc.BidiStreamingServer[meshv1.KeepAliveRequest, meshv1.KeepAliveResponse]) error {
	const op = "api.KeepAlive"
	call, err := callOf(stream.Context(), op)
	if err != nil {
		return err
	}
	if err := accept(stream); err != nil {
		return err
	}
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		expires, err := s.agents.KeepAlive(call.Principal, req.GetName(), req.GetLeaseId())
		if err != nil {
			return mesh.Wrap(op, err)
		}
		if err := stream.Send(&meshv1.KeepAliveResponse{Expires: timestamppb.New(expires), GrantKeys: s.keys}); err != nil {
			return err
		}
	}
}

// DeregisterAgent implements the RPC.
func (s *Registry) DeregisterAgent(ctx context.Context, req *meshv1.DeregisterAgentRequest) (*meshv1.DeregisterAgentResponse, error) {
	const op = "api.DeregisterAgent"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	if err := s.agents.Deregister(ctx, call.Principal, req.GetName(), req.GetLeaseId(), req.GetShared()); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.DeregisterAgentResponse{}, nil
}

// SetAgentCredentials implements the RPC.
func (s *Registry) SetAgentCredentials(ctx context.Context, req *meshv1.SetAgentCredentialsRequest) (*meshv1.SetAgentCredentialsResponse, error) {
	const op = "api.SetAgentCredentials"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	e, err := s.agents.SetCredentials(ctx, call.Principal, req.GetName(), req.GetShared(), givenOf(req.GetCredentials()))
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	return &meshv1.SetAgentCredentialsResponse{Agent: agentProto(call.Principal, e)}, nil
}

func givenOf(all []*meshv1.AgentCredential) []credentials.Given {
	var out []credentials.Given
	for _, c := range all {
		out = append(out, credentials.Given{Scheme: c.GetScheme(), Secret: c.GetValue()})
	}
	return out
}

// GetAgent implements the RPC.
func (s *Registry) GetAgent(ctx context.Context, req *meshv1.GetAgentRequest) (*meshv1.GetAgentResponse, error) {
	const op = "api.GetAgent"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	if err := s.agents.Refresh(ctx); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	e, err := s.agents.Get(call.Principal.Tenant, req.GetName())
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if e.ShownByRole(call.Principal) {
		s.read(ctx, e.Name)
	}
	as, err := s.as(ctx, call.Principal)
	if err != nil {
		return nil, err
	}
	return &meshv1.GetAgentResponse{Agent: s.shown(as, e)}, nil
}

// ListAgents implements the RPC.
func (s *Registry) ListAgents(ctx context.Context, req *meshv1.ListAgentsRequest) (*meshv1.ListAgentsResponse, error) {
	const op = "api.ListAgents"
	call, err := callOf(ctx, op)
	if err != nil {
		return nil, err
	}
	if err := s.agents.Refresh(ctx); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	as, err := s.as(ctx, call.Principal)
	if err != nil {
		return nil, err
	}
	res, byRole := &meshv1.ListAgentsResponse{}, false
	for _, e := range s.agents.List(call.Principal.Tenant, registry.Filter{
		Skill: req.GetSkill(), Tag: req.GetTag(), Query: req.GetQuery(), Live: req.GetLive(),
	}) {
		res.Agents = append(res.Agents, s.shown(as, e))
		byRole = byRole || e.ShownByRole(call.Principal)
	}
	if byRole {
		s.read(ctx, "agents")
	}
	return res, nil
}

// WatchAgents implements the RPC.
func (s *Registry) WatchAgents(_ *meshv1.WatchAgentsRequest, stream grpc.ServerStreamingServer[meshv1.WatchAgentsResponse]) error {
	const op = "api.WatchAgents"
	call, err := callOf(stream.Context(), op)
	if err != nil {
		return err
	}
	if err := accept(stream); err != nil {
		return err
	}
	read := sync.OnceFunc(func() { s.read(stream.Context(), "agents") })
	for change, err := range s.agents.Watch(stream.Context(), call.Principal.Tenant) {
		if err != nil {
			return mesh.Wrap(op, err)
		}
		if change.Kind != registry.Synced && change.Entry.ShownByRole(call.Principal) {
			read()
		}
		as, err := s.as(stream.Context(), call.Principal)
		if err == nil {
			err = stream.Send(s.change(as, change))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Registry) change(p mesh.Principal, c registry.Change) *meshv1.WatchAgentsResponse {
	res := &meshv1.WatchAgentsResponse{}
	switch c.Kind {
	case registry.Put:
		res.Kind, res.Agent = meshv1.WatchAgentsResponse_KIND_PUT, s.shown(p, c.Entry)
	case registry.Removed:
		res.Kind, res.Agent = meshv1.WatchAgentsResponse_KIND_REMOVED, s.shown(p, c.Entry)
	case registry.Synced:
		res.Kind = meshv1.WatchAgentsResponse_KIND_SYNCED
	}
	return res
}

// agentProto returns the wire form of an entry as the principal, whose roles are those of the
// user for whom it works, sees it: where the agent
// is, only its owner needs to know, and who calls it. It shares the entry's card.
func agentProto(p mesh.Principal, e registry.Entry) *meshv1.Agent {
	out := &meshv1.Agent{
		Name: e.Name, Tenant: string(e.Tenant), Owner: e.Owner, Trusted: e.Trusted, Card: e.Card, Endpoint: e.Endpoint, CardUrl: mesh.PublicURL(e.CardURL),
		Builtin: e.Builtin, Live: e.Live, Problem: e.Problem,
		Registered: stamp(e.Registered), Expires: stamp(e.Expires), Gone: stamp(e.Gone), RequiredPermissions: e.Requires(),
	}
	out.MissingPermissions = mesh.Lacking(p.Roles, out.RequiredPermissions)
	for _, w := range e.Warnings {
		out.Warnings = append(out.Warnings, &meshv1.CardWarning{Field: w.Field, Text: w.Text})
	}
	for _, c := range e.Credentials {
		out.Credentials = append(out.Credentials, &meshv1.AgentCredentialState{Scheme: c.Scheme, Kind: c.Kind})
	}
	for _, i := range e.Instances {
		out.Instances = append(out.Instances, &meshv1.AgentInstance{Id: i.ID, Endpoint: i.Endpoint, Interfaces: i.Interfaces, Live: i.Live, Problem: i.Problem,
			Registered: stamp(i.Registered), Expires: stamp(i.Expires)})
	}
	if p.Grant == nil && !e.OwnedBy(p) {
		out.Instances = nil
		out.Endpoint, out.CardUrl, out.Problem, out.Warnings, out.Credentials = "", "", "", nil, nil
		out.Card = proto.CloneOf(e.Card)
		out.Card.SupportedInterfaces, out.Card.Signatures = nil, nil // which sign them too
	}
	return out
}

// stamp returns nil for the zero time.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
