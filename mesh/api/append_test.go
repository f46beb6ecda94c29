package api

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// underGrant is every caller as one execution.
type underGrant struct{ grant *mesh.Grant }

func (u *underGrant) Authenticate(context.Context, rpc.Credentials) (mesh.Principal, error) {
	return mesh.Principal{Tenant: u.grant.Tenant, User: u.grant.User, Grant: u.grant}, nil
}

// finding C3: over gRPC too, of 64 calls at once, with one left in the limit,
// exactly one is made.
func TestOneOfManyCallsOverGRPCGetsTheLastOne(t *testing.T) {
	s, err := disk.Open(filepath.Join(t.TempDir(), "mesh.db"), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	log := threadlog.New(s)
	states := cache.New(log, 0)
	admits := admission.New(log, states, nil, admission.WithBudgets(limit.Budgets{TurnCalls: 1}))
	signer, err := grant.NewSigner([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	l := &library{Threads: NewThreads(log, states, admits, Tickets{Signer: signer}, "main"), states: states, key: mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}}
	who := &underGrant{l.run(t, l.post(t), "main", "*")}
	srv := rpc.NewServer(rpc.Options{Auth: who})
	meshv1.RegisterThreadServiceServer(srv, l.Threads)
	client := meshv1.NewThreadServiceClient(start(t, srv))
	var all sync.WaitGroup
	var made atomic.Int32
	for i := range 64 {
		all.Go(func() {
			_, err := client.AppendEvents(as(t, "main"), &meshv1.AppendEventsRequest{ThreadId: l.key.ID, Events: []*meshv1.Event{{
				Id: mesh.NewEventID(), ExecutionId: string(who.grant.Execution),
				Body: &meshv1.Event_SkillCalled{SkillCalled: &meshv1.SkillCalled{Call: fmt.Sprint(i), Skill: "mail.send"}},
			}}})
			switch err := rpc.FromStatus(err); {
			case err == nil:
				made.Add(1)
			case !mesh.IsCode(err, mesh.Exhausted):
				t.Errorf("refused with %v", err)
			}
		})
	}
	all.Wait()
	tail, err := log.Tail(t.Context(), l.key)
	if err != nil || made.Load() != 1 || tail != 4 { // the turn, the agent, the call, the limit
		t.Errorf("%d calls were made; the log has %d events, %v", made.Load(), tail, err)
	}
}
