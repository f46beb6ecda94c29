package meshclient

import (
	"context"
	"sync"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"

	"google.golang.org/grpc"
)

const (
	// redeemTime bounds how long an agent waits for its grant: whoever called it waits too.
	redeemTime = 10 * time.Second
	// secretTime is how long the answer to a registration may take to arrive after the
	// messages that its node sends at once.
	secretTime  = 2 * time.Second
	secretEvery = 10 * time.Millisecond
)

// Redeem returns the call with the grant for its ticket, as the agent that has the secret
// of its registration, and how many instructions wait for the execution, for [Client.Waiting].
// A node at which the agent has just registered anew may send a message before the agent has
// its new secret: that is waited for.
func Redeem(ctx context.Context, node grpc.ClientConnInterface, call mesh.Call, secret func() string) (_ mesh.Call, told int32, err error) {
	ctx, cancel := context.WithTimeout(ctx, redeemTime)
	defer cancel()
	under := mesh.Call{Thread: call.Thread, Traceparent: call.Traceparent, TicketToken: call.TicketToken, Holder: secret()}
	under.Principal.Tenant = call.Principal.Tenant
	grants := meshv1.NewGrantServiceClient(node)
	res, err := grants.RedeemTicket(mesh.WithCall(ctx, under), &meshv1.RedeemTicketRequest{})
	for begun := time.Now(); stranger(err) && time.Since(begun) < secretTime && sleep(ctx, secretEvery); {
		if s := secret(); s != under.Holder {
			under.Holder = s
			res, err = grants.RedeemTicket(mesh.WithCall(ctx, under), &meshv1.RedeemTicketRequest{})
		}
	}
	if err != nil {
		return call, 0, failed("meshclient.Redeem", err)
	}
	call.GrantToken, call.TicketToken = res.GetGrant(), ""
	return call, res.GetInstructions(), nil
}

// ticketAge is how old a ticket may be that is sent again: good for as long again.
const ticketAge = 30 * time.Second

// Tickets returns what makes tickets for an execution that this one dispatched: the one
// that came when it was logged for as long as that is good, and then others of the node.
func (c *Client) Tickets(x mesh.ExecutionID, first string) func(context.Context) (string, error) {
	var mu sync.Mutex
	ticket, at := first, time.Now()
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if ticket != "" && time.Since(at) < ticketAge {
			return ticket, nil
		}
		res, err := c.grants.IssueTicket(c.Context(ctx), &meshv1.IssueTicketRequest{ExecutionId: string(x)})
		if err != nil {
			return "", failed("meshclient.Tickets", err)
		}
		ticket, at = res.GetTicket(), time.Now()
		return ticket, nil
	}
}
