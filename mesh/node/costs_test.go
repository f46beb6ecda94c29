package node_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/threadlog"
)

// A costed store keeps what calls ask it about which thread; what the node asks by itself, as
// when it is told of news, costs no caller anything.
type costed struct {
	threadlog.Backend
	*costs
}

type costs struct {
	mu  sync.Mutex
	log []string
}

func (a *costs) note(ctx context.Context, op string, key mesh.ThreadKey) {
	if call, ok := mesh.CallFrom(ctx); !ok || call.Principal.User == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log = append(a.log, fmt.Sprintf("%s %s/%s", op, key.Tenant, key.ID))
}

// about returns what was asked of the thread, in whatever tenant, since it was last asked.
func (a *costs) about(id string) (out []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.log {
		if rest, found := strings.CutSuffix(l, "/"+id); found {
			out = append(out, rest)
		}
	}
	a.log = nil
	return out
}

func (t costed) Append(ctx context.Context, key mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	t.note(ctx, "append to", key)
	return t.Backend.Append(ctx, key, b)
}

func (t costed) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	t.note(ctx, "read", key)
	return t.Backend.Read(ctx, key, after, limit)
}

func (t costed) Info(ctx context.Context, key mesh.ThreadKey) (threadlog.Info, bool, error) {
	t.note(ctx, "look up", key)
	return t.Backend.Info(ctx, key)
}

func (t costed) Settle(ctx context.Context, key mesh.ThreadKey, first mesh.Pos, upTo mesh.Seq) error {
	t.note(ctx, "settle", key)
	return t.Backend.Settle(ctx, key, first, upTo)
}

func (t costed) Delete(ctx context.Context, key mesh.ThreadKey, last mesh.Pos) error {
	t.note(ctx, "delete", key)
	return t.Backend.Delete(ctx, key, last)
}

// S4-052, S4-068: how long a call takes does not tell a thread of another tenant from one that
// does not exist either. No time is measured: for both the store is asked the same, as often, and
// of the caller's tenant alone, by every RPC of handoffs and by the query of conversations, from
// users, auditors and agents at work.
func TestAForeignThreadCostsWhatAnUnknownOneCosts(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.Egress.Allow = "tokens", adminsFile(t), []string{"127.0.0.1"}
	var store costs
	m := start(t, cfg, map[string]run{"main": greeter, "builder": builder}, func(o *node.Options) {
		open := o.Backend
		o.Backend = func(cfg node.Config, address string) (node.Backend, error) {
			b, err := open(cfg, address)
			if err == nil {
				b.Threads = costed{b.Threads, &store}
			}
			return b, err
		}
	})
	conn := m.raw(t)
	theirs := mesh.NewThreadID()
	stream, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(as(plain(t), "b", "thread-id", theirs), say("make a skill"))
	if s := hear(t, stream, err); s.state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED { // in a handoff
		t.Fatalf("ended %v", s.state)
	}
	w := m.atWork(t, "friend", "admin")
	handoffs, record := meshv1.NewHandoffServiceClient(conn), meshv1.NewAuditServiceClient(conn)
	calls := map[string]func(ctx context.Context, id string) error{
		"GetHandoff": func(ctx context.Context, id string) error {
			_, err := handoffs.GetHandoff(ctx, &meshv1.GetHandoffRequest{ThreadId: id})
			return err
		},
		"StartHandoff": func(ctx context.Context, id string) error {
			_, err := handoffs.StartHandoff(ctx, &meshv1.StartHandoffRequest{ThreadId: id, TargetAgent: "builder"})
			return err
		},
		"EndHandoff": func(ctx context.Context, id string) error {
			_, err := handoffs.EndHandoff(ctx, &meshv1.EndHandoffRequest{ThreadId: id, Outcome: "cancelled", ArtifactIds: []string{"a"}})
			return err
		},
		"ListAuditTrail": func(ctx context.Context, id string) error {
			_, err := record.ListAuditTrail(ctx, &meshv1.ListAuditTrailRequest{ThreadId: id})
			return err
		},
	}
	callers := map[string][]string{"a user": of("a"), "a tenant's admin": of("admin"), "an auditor": of("auditor"), "an agent at work": w.under(w.grant, w.secret)}
	for name, call := range calls {
		for who, headers := range callers {
			for how, with := range map[string]func(id string) []string{
				"in the request":      func(string) []string { return headers },
				"in the metadata too": func(id string) []string { return append(slices.Clone(headers), "thread-id", id) },
			} {
				cost := func(id string) (codes.Code, []string) {
					store.about(id)
					err := call(metadata.NewOutgoingContext(plain(t), metadata.Pairs(with(id)...)), id)
					return status.Code(err), store.about(id)
				}
				foreign, spent := cost(theirs)
				unknown, most := cost(mesh.NewThreadID())
				if foreign != unknown || foreign == codes.OK || !slices.Equal(spent, most) {
					t.Errorf("%s of %s, %s: of another tenant's thread %v after %q, of none %v after %q", name, who, how, foreign, spent, unknown, most)
				}
				if slices.ContainsFunc(spent, func(s string) bool { return !strings.HasSuffix(s, " a") }) {
					t.Errorf("%s of %s, %s: another tenant's was asked for: %q", name, who, how, spent)
				}
				if len(spent) == 0 && who == "a tenant's admin" && name != "StartHandoff" {
					t.Errorf("%s of %s, %s does not come as far as the store: nothing is compared", name, who, how)
				}
			}
		}
	}
}
