package meshclient

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/thread"

	"google.golang.org/grpc"
)

// A Client is the mesh as one execution sees it: the node's services over gRPC,
// called under the execution's grant whatever identity the context has. It is
// safe for concurrent use. Its errors are those of the services.
type Client struct {
	call     mesh.Call
	grant    *mesh.Grant
	threads  meshv1.ThreadServiceClient
	handoffs meshv1.HandoffServiceClient
	registry meshv1.RegistryServiceClient
	skills   meshv1.SkillServiceClient
	states   meshv1.StateServiceClient
	grants   meshv1.GrantServiceClient
	blobs    meshv1.BlobServiceClient
	secret   func() string          // see HeldBy
	keys     func() *grant.Verifier // see HeldBy

	away atomic.Int64 // when the node was last found not to be there, in Unix milliseconds

	// writing serialises Record, so that events land in the order in which
	// they were recorded.
	queueing   sync.Mutex
	queue      []*recording // in the order in which they were called; under queueing
	writing    sync.Mutex
	kept       []*meshv1.Event // not sent yet; under writing, as what is next
	keptBytes  int
	armed      bool // they will be sent
	timer      *time.Timer
	closed     bool
	sending    sync.WaitGroup // what the timer runs
	lost       error          // why some of those were refused that nobody waited for
	reading    sync.Mutex
	tail       tail               // what was read so far; under reading, as all that is made of it
	begins     int                // where in it the transcript does
	transcript *thread.Transcript // nil if it cannot begin there yet
	actions    *thread.Actions    // use Did
	sent       func() int64       // see BeforeHandoff
	unread     atomic.Int32       // instructions, as the node's last answer said

	left atomic.Pointer[limit.Left] // what the node said last
}

// New returns the mesh as seen over conn, a connection of package rpc to
// the node, under the grant of the call.
func New(conn grpc.ClientConnInterface, call mesh.Call) (*Client, error) {
	g := call.Principal.Grant
	if g == nil {
		return nil, mesh.Errorf(mesh.Unauthenticated, "meshclient.New",
			"Agents call the node under a grant; redeem the ticket that came with the message")
	}
	// A cursor and extensions belong to the call that came, not to ours.
	call.AfterSeq, call.HasCursor, call.Extensions, call.TicketToken, call.Ticket = 0, false, nil, "", nil
	call.Thread, call.Execution, call.ParentTask = g.Thread, g.Execution, string(g.Parent)
	c := &Client{call: call, grant: g}
	if _, local := conn.(rpc.Conn); !local { // which goes with its agents
		conn = patient{conn, c}
	}
	c.threads = meshv1.NewThreadServiceClient(conn)
	c.handoffs = meshv1.NewHandoffServiceClient(conn)
	c.registry = meshv1.NewRegistryServiceClient(conn)
	c.skills = meshv1.NewSkillServiceClient(conn)
	c.states = meshv1.NewStateServiceClient(conn)
	c.grants = meshv1.NewGrantServiceClient(conn)
	c.blobs = meshv1.NewBlobServiceClient(conn)
	c.tail.page, c.sent, c.keys = c.page, func() int64 { return 0 }, func() *grant.Verifier { return nil }
	return c, nil
}

// HeldBy has the client prove, with the secret of the agent's registration as it is at the
// time, that the grant is its own, and check the node's permits with the keys as they are
// then; of a node in the same process it needs none. It returns c, and is called before c
// is used.
func (c *Client) HeldBy(secret func() string, keys func() *grant.Verifier) *Client {
	c.secret, c.keys = secret, keys
	return c
}

// Context returns ctx with the identity of the execution, and what proves it to the node.
func (c *Client) Context(ctx context.Context) context.Context {
	call := c.call
	if c.secret != nil {
		call.Holder = c.secret()
	}
	return mesh.WithCall(ctx, call)
}

// About returns ctx with the identity of the execution, and without its proof, which is
// for the node alone.
func (c *Client) About(ctx context.Context) context.Context {
	call := c.call
	call.GrantToken, call.Holder = "", ""
	return mesh.WithCall(ctx, call)
}

// Left is what the execution may still use, as the node said last: others may have used of
// it since. Before anything was recorded it is the grant's budget.
func (c *Client) Left() limit.Left {
	if left := c.left.Load(); left != nil {
		return *left
	}
	return limit.LeftOf(c.grant.Budget)
}

// learn notes what the node says is left.
func (c *Client) learn(r *meshv1.Remaining) {
	if r == nil { // a node of before
		return
	}
	of := func(n *int64) int64 {
		if n == nil {
			return limit.Unlimited
		}
		return max(*n, 0)
	}
	c.left.Store(&limit.Left{Calls: of(r.Calls), Agents: of(r.Agents), Tokens: of(r.Tokens), Cost: of(r.CostMicrodollars)})
}

// Agents lists the agents that the tenant may see. A nil request lists all.
func (c *Client) Agents(ctx context.Context, req *meshv1.ListAgentsRequest) ([]*meshv1.Agent, error) {
	res, err := c.registry.ListAgents(c.Context(ctx), req)
	return res.GetAgents(), failed("meshclient.Agents", err)
}

// Agent returns the agent of that name, which need not be one that is listed.
func (c *Client) Agent(ctx context.Context, name string) (*meshv1.Agent, error) {
	res, err := c.registry.GetAgent(c.Context(ctx), &meshv1.GetAgentRequest{Name: name})
	return res.GetAgent(), failed("meshclient.Agent", err)
}

// Skills lists all skills of the mesh by name, without their sources.
func (c *Client) Skills(ctx context.Context) ([]*meshv1.Skill, error) {
	skills, _, err := c.FindSkills(ctx, &meshv1.ListSkillsRequest{}, math.MaxInt)
	return skills, mesh.Wrap("meshclient.Skills", err)
}

// maxPage is the largest page of skills.
const maxPage = 1000

// FindSkills returns the skills that the request asks for, on however many
// pages they are, but at most that many, and whether there are more. Page size
// and token are filled in.
func (c *Client) FindSkills(ctx context.Context, req *meshv1.ListSkillsRequest, most int) (skills []*meshv1.Skill, more bool, err error) {
	for req.PageToken = ""; len(skills) < most; {
		req.PageSize = int32(min(most-len(skills), maxPage))
		res, err := c.skills.ListSkills(c.Context(ctx), req)
		if err != nil {
			return nil, false, failed("meshclient.FindSkills", err)
		}
		skills = append(skills, res.GetSkills()...)
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			return skills, false, nil
		}
	}
	return skills, true, nil
}

// SkillDomains lists the domains that have skills which one of the patterns
// matches, by name.
func (c *Client) SkillDomains(ctx context.Context, patterns []string) ([]*meshv1.SkillDomain, error) {
	res, err := c.skills.ListSkillDomains(c.Context(ctx), &meshv1.ListSkillDomainsRequest{Patterns: patterns})
	return res.GetDomains(), failed("meshclient.SkillDomains", err)
}

// Skill returns one skill with its source.
func (c *Client) Skill(ctx context.Context, name string) (*meshv1.Skill, error) {
	res, err := c.skills.GetSkill(c.Context(ctx), &meshv1.GetSkillRequest{Name: name})
	return res.GetSkill(), failed("meshclient.Skill", err)
}

// ValidateSkill checks a skill file and returns the problems that it has.
func (c *Client) ValidateSkill(ctx context.Context, source string) ([]*meshv1.SkillProblem, error) {
	res, err := c.skills.ValidateSkill(c.Context(ctx), &meshv1.ValidateSkillRequest{Source: source})
	return res.GetProblems(), failed("meshclient.ValidateSkill", err)
}

// AskToCreate records that the user is asked whether the skill of the file may be created,
// and returns the question, in the mesh's words: the agent asks it, alone or with others. With
// a version it is whether the skill of that name may be replaced, which CreateSkill does.
func (c *Client) AskToCreate(ctx context.Context, source, replaces string) (mesh.Question, error) {
	const op = "meshclient.AskToCreate"
	q := mesh.Question{Execution: c.grant.Execution, Call: "create-skill"}
	_, err := c.Record(ctx, &mesh.Event{Body: mesh.ApprovalAsked{Call: q.Call, Skill: mesh.CallCreateSkill, Args: mesh.ReplaceSkillArgs(source, replaces)}})
	if err != nil {
		return q, mesh.Wrap(op, err)
	}
	did, err := c.Actions(ctx)
	if err != nil {
		return q, mesh.Wrap(op, err)
	}
	if asked := did.Approval(q.Call); asked != nil {
		q.Text = asked.Text
	}
	return q, nil
}

// CreateSkill writes a new skill file and offers the skill. The user must be allowed
// to, and must have said yes to just this file: see AskToCreate. With a version it replaces
// the skill of that name, if it still has that one.
func (c *Client) CreateSkill(ctx context.Context, source, replaces string) (*meshv1.Skill, error) {
	res, err := c.skills.CreateSkill(c.Context(ctx), &meshv1.CreateSkillRequest{Source: source, Replaces: replaces})
	return res.GetSkill(), failed("meshclient.CreateSkill", err)
}

// State returns the tenant's values of the kinds that the grant names.
func (c *Client) State() skill.State { return &state{c} }

// failed gives err, as a call returned it, the name of the operation.
func failed(op string, err error) error {
	return mesh.Wrap(op, rpc.FromStatus(err))
}
