package agenttest

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// RegisterAgent implements the RPC.
func (n *Node) RegisterAgent(_ context.Context, req *meshv1.RegisterAgentRequest) (*meshv1.RegisterAgentResponse, error) {
	conn, err := net.DialTimeout("tcp", req.GetEndpoint(), time.Second)
	if err != nil {
		return nil, mesh.Errorf(mesh.Invalid, "node", "The agent does not answer at %s", req.GetEndpoint())
	}
	_ = conn.Close()
	n.Mu.Lock()
	defer n.Mu.Unlock()
	name := req.GetName()
	if n.Busy > 0 {
		n.Busy--
		return nil, rpc.WithRetryAfter(mesh.Errorf(mesh.Exhausted, "node", "Too many register at once"), time.Millisecond)
	}
	if n.Leases[name] != "" {
		return nil, mesh.Errorf(mesh.Precondition, "node", "The name %s is taken", name)
	}
	n.Leases[name] = mesh.NewEventID()
	n.Agents[name] = &meshv1.Agent{Name: name, Card: req.GetCard(), Endpoint: req.GetEndpoint(), Live: true}
	n.notify()
	return &meshv1.RegisterAgentResponse{
		Agent: n.Agents[name], LeaseId: n.Leases[name], Lease: durationpb.New(time.Second), GrantKeys: n.signer.Public(), Secret: n.Leases[name],
	}, nil
}

// KeepAlive implements the RPC.
func (n *Node) KeepAlive(stream grpc.BidiStreamingServer[meshv1.KeepAliveRequest, meshv1.KeepAliveResponse]) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		n.Mu.Lock()
		ok := n.Leases[req.GetName()] == req.GetLeaseId()
		n.Renewed++
		n.notify()
		n.Mu.Unlock()
		if !ok {
			return mesh.Errorf(mesh.NotFound, "node", "The lease is not known")
		}
		if err := stream.Send(&meshv1.KeepAliveResponse{}); err != nil {
			return err
		}
	}
}

// DeregisterAgent implements the RPC.
func (n *Node) DeregisterAgent(_ context.Context, req *meshv1.DeregisterAgentRequest) (*meshv1.DeregisterAgentResponse, error) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.Leases[req.GetName()] != req.GetLeaseId() {
		return nil, mesh.Errorf(mesh.NotFound, "node", "The lease is not known")
	}
	delete(n.Leases, req.GetName())
	delete(n.Agents, req.GetName())
	n.notify()
	return &meshv1.DeregisterAgentResponse{}, nil
}

// ListAgents implements the RPC.
func (n *Node) ListAgents(context.Context, *meshv1.ListAgentsRequest) (*meshv1.ListAgentsResponse, error) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	res := &meshv1.ListAgentsResponse{}
	for _, a := range n.Agents {
		res.Agents = append(res.Agents, a)
	}
	return res, nil
}
