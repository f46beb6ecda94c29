package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

func fakeAgents() map[string]*meshv1.Agent {
	return map[string]*meshv1.Agent{
		"main": {Name: "main", Builtin: true, Live: true, Endpoint: "127.0.0.1:9001", Card: &a2apb.AgentCard{
			Name: "Main", Description: "Answers, and asks others.", Version: "1.0.0",
			Skills: []*a2apb.AgentSkill{{Id: "talk", Description: "Talks", Tags: []string{"chat"}}}}},
		"mail": {Name: "mail", Builtin: true, Live: true, Endpoint: "127.0.0.1:9002", Card: &a2apb.AgentCard{
			Name: "Mail", Description: "Sends mail.", Version: "1.0.0",
			Skills: []*a2apb.AgentSkill{{Id: "mail.send", Description: "Sends a mail", Tags: []string{"mail", "write"},
				Examples: []string{"Mail bob the report"}}}}},
		"weather": {Name: "weather", Tenant: "default", Problem: "connection refused", Endpoint: "127.0.0.1:9003",
			CardUrl: "http://127.0.0.1:9003", Card: &a2apb.AgentCard{Name: "Weather", Version: "2.1"},
			Warnings: []*meshv1.CardWarning{{Field: "card.skills", Text: "is missing;\nnone is found"}}},
	}
}

func (f *fakeMesh) ListAgents(_ context.Context, req *meshv1.ListAgentsRequest) (*meshv1.ListAgentsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := &meshv1.ListAgentsResponse{}
	for _, ag := range f.agents {
		skills := ag.GetCard().GetSkills()
		has := func(ok func(*a2apb.AgentSkill) bool) bool { return slices.ContainsFunc(skills, ok) }
		if req.GetSkill() != "" && !has(func(s *a2apb.AgentSkill) bool { return s.GetId() == req.GetSkill() }) ||
			req.GetTag() != "" && !has(func(s *a2apb.AgentSkill) bool { return slices.Contains(s.GetTags(), req.GetTag()) }) ||
			req.GetLive() && !ag.GetLive() ||
			!strings.Contains(strings.ToLower(ag.GetCard().GetDescription()), strings.ToLower(req.GetQuery())) {
			continue
		}
		resp.Agents = append(resp.Agents, ag)
	}
	slices.SortFunc(resp.Agents, func(a, b *meshv1.Agent) int { return strings.Compare(a.GetName(), b.GetName()) })
	return resp, nil
}

func (f *fakeMesh) GetAgent(_ context.Context, req *meshv1.GetAgentRequest) (*meshv1.GetAgentResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ag := f.agents[req.GetName()]
	if ag == nil {
		return nil, mesh.Errorf(mesh.NotFound, "fake", "there is no agent %q; 'mesh agents list' shows them", req.GetName())
	}
	return &meshv1.GetAgentResponse{Agent: ag}, nil
}

func (f *fakeMesh) RegisterAgent(ctx context.Context, req *meshv1.RegisterAgentRequest) (*meshv1.RegisterAgentResponse, error) {
	call, _ := mesh.CallFrom(ctx)
	if !strings.HasPrefix(req.GetCardUrl(), "http") {
		return nil, mesh.InvalidField("fake", "card_url", "must be an http or https URL")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ag := &meshv1.Agent{Name: req.GetName(), CardUrl: req.GetCardUrl(), Endpoint: "127.0.0.1:9009", Live: true,
		Tenant: string(call.Principal.Tenant), Card: &a2apb.AgentCard{Name: req.GetName()},
		Credentials: given(req.GetCredentials()), Warnings: []*meshv1.CardWarning{{Field: "card.version", Text: "is missing"}}}
	f.agents[ag.GetName()] = ag
	return &meshv1.RegisterAgentResponse{Agent: ag}, nil
}

// given says how much came of each credential.
func given(all []*meshv1.AgentCredential) (out []*meshv1.AgentCredentialState) {
	for _, c := range all {
		out = append(out, &meshv1.AgentCredentialState{Scheme: c.GetScheme(), Kind: fmt.Sprintf("%d bytes", len(c.GetValue()))})
	}
	return out
}

func (f *fakeMesh) SetAgentCredentials(ctx context.Context, req *meshv1.SetAgentCredentialsRequest) (*meshv1.SetAgentCredentialsResponse, error) {
	resp, err := f.GetAgent(ctx, &meshv1.GetAgentRequest{Name: req.GetName()})
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	resp.GetAgent().Credentials = given(req.GetCredentials())
	return &meshv1.SetAgentCredentialsResponse{Agent: resp.GetAgent()}, nil
}

func (f *fakeMesh) DeregisterAgent(ctx context.Context, req *meshv1.DeregisterAgentRequest) (*meshv1.DeregisterAgentResponse, error) {
	if _, err := f.GetAgent(ctx, &meshv1.GetAgentRequest{Name: req.GetName()}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.agents, req.GetName())
	return &meshv1.DeregisterAgentResponse{}, nil
}
