package grant

import (
	"crypto/rand"
	"time"

	"agentmesh/mesh"
)

// TicketTime is how long a ticket is good from when it is made, for those whose clock is
// the maker's; Skew is how far others may be off.
const (
	TicketTime = time.Minute
	Skew       = time.Minute
)

// Ticket returns a signed ticket for the grant: what goes to the agent with a message, and
// is of no use to anybody else. The grant gets a new id.
func (s *Signer) Ticket(g mesh.Grant, now time.Time) string {
	g.ID = rand.Text()
	return s.sign(tickets, payloadOf(g, now.Unix()))
}

// CheckTicket returns the grant for which the ticket may be redeemed, if the signer made
// it less than [TicketTime] ago, give or take [Skew]. Its errors are those of Check.
func (v *Verifier) CheckTicket(token string) (*mesh.Grant, error) {
	const op = "grant.CheckTicket"
	p, err := v.open(op, tickets, token)
	if err != nil {
		return nil, err
	}
	at, now := time.Unix(p.Made, 0), v.now()
	if now.Add(Skew).Before(at) || now.After(at.Add(TicketTime+Skew)) {
		return nil, refuse(op, tickets, "the ticket was made at "+at.UTC().Format(time.RFC3339)+" and is good for a minute; "+
			"set the clocks right, or have the message sent again")
	}
	return p.grant(), v.stands(op, tickets, p)
}
