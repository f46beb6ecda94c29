package node_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"
)

var everyKill = flag.Bool("everykill", false, "kill at every append of the run that is to survive, and not only at some")

// An outcome is what a run came to.
type outcome struct {
	said    string         // what its user reads: the state and the text
	ends    []string       // of each execution in the log: by whom and for whom it was, and how it ended
	times   map[string]int // how often the model was told of each job, and the turn ended
	effects []string
	appends int
	killed  []string // the roles that died
	open    []string // the jobs whose calls have no outcome in the log
	log     []*meshv1.Event
}

// survive has the run go on whose processes of these roles are ended by the signal before or
// after the n-th append.
func survive(t *testing.T, profile dispatch.Profile, by syscall.Signal, when string, n int, roles ...string) (o outcome) {
	t.Helper()
	dir := t.TempDir()
	at := rpctest.Free(t)
	ctx, stop := context.WithCancel(context.Background())
	file := func(name string) string { return filepath.Join(dir, name) }
	p := &troupe{t: t, victims: file("victims"), ctx: ctx, pids: map[string]int{}, env: []string{surviveNode + "=" + at, "MESH_TEST_DATA=" + file("data"),
		surviveVictims + "=" + file("victims"), surviveEffects + "=" + file("effects"), surviveAppends + "=" + file("appends"), surviveProfile + "=" + string(profile)}}
	defer p.wg.Wait()
	defer stop()
	p.up("surviving-mesh", fmt.Sprintf("%s=%s %d %d", surviveDie, when, n, by))
	for _, role := range []string{"surviving-lead", "surviving-worker", "surviving-helper"} {
		p.up(role)
	}
	p.condemn(roles)
	conn := reached(t, at)
	id := mesh.NewThreadID()
	under := func() context.Context {
		return mesh.WithCall(ctx, mesh.Call{Principal: mesh.Principal{Tenant: "default", User: "ann"}, Thread: id, Extensions: []string{mesh.ExtensionURI}})
	}
	there := func(name string) bool {
		a, err := meshv1.NewRegistryServiceClient(conn).GetAgent(under(), &meshv1.GetAgentRequest{Name: name})
		return err == nil && a.GetAgent().GetLive()
	}
	all := func() bool {
		return !slices.ContainsFunc([]string{"lead", "worker", "clerk", "helper", "scribe"}, func(name string) bool { return !there(name) })
	}
	awaits(t, "all agents are there", all)
	m := say("go")
	m.Configuration = &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	var task *a2apb.Task
	awaits(t, "the turn has ended", func() bool { // sent again, it is the same message
		if task == nil && !all() { // a mesh that has just begun anew refuses what it does not know, and so do its agents
			return false
		}
		if task == nil {
			if resp, err := a2apb.NewA2AServiceClient(conn).SendMessage(under(), m); err == nil {
				task = resp.GetTask()
			}
			return false
		}
		got, err := a2apb.NewA2AServiceClient(conn).GetTask(under(), &a2apb.GetTaskRequest{Id: task.GetId()})
		if err == nil {
			task = got
		}
		return err == nil && mesh.Terminal(got.GetStatus().GetState())
	})
	o.said = strings.TrimPrefix(task.GetStatus().GetState().String(), "TASK_STATE_")
	for _, a := range task.GetArtifacts() {
		o.said += " " + textOf(a.GetParts())
	}
	awaits(t, "the log is read", func() bool {
		o.log = readAll(under(), meshv1.NewThreadServiceClient(conn), id)
		return o.log != nil
	})
	o.fold(t)
	data, _ := os.ReadFile(file("effects"))
	o.effects = strings.Fields(strings.ReplaceAll(string(data), "do ", ""))
	slices.Sort(o.effects)
	data, _ = os.ReadFile(file("appends"))
	if o.appends = len(data); n > 0 && n <= o.appends { // then everybody of the roles has died, once
		slices.Sort(roles)
		awaits(t, fmt.Sprintf("%q are killed", roles), func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			o.killed = slices.Sorted(slices.Values(p.killed))
			return slices.Equal(o.killed, roles)
		})
	}
	return o
}

// condemn writes whom the store kills.
func (p *troupe) condemn(roles []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pids []string
	for _, role := range roles {
		if pid := p.pids[role]; role == "surviving-mesh" {
			pids = append(pids, "0")
		} else {
			pids = append(pids, strconv.Itoa(pid))
		}
	}
	if err := os.WriteFile(p.victims, []byte(strings.Join(pids, "\n")), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// fold takes from the log what has to be the same after any kill.
func (o *outcome) fold(t *testing.T) {
	t.Helper()
	var events []*mesh.Event
	o.times = map[string]int{}
	name := map[string]string{}
	for _, e := range o.log {
		ev, err := eventpb.EventFromProto(e)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, ev)
		if x := e.GetDispatchAccepted().GetChild(); x != nil {
			name[x.GetId()] = x.GetLabel()
		}
		for _, id := range append(e.GetResultsDelivered().GetExecutions(), e.GetToolReturned().GetDelivered()...) {
			o.times["told of "+name[id]]++
		}
		if s := e.GetDispatchSettled(); s != nil {
			o.times["end of "+name[s.GetChild()]]++
		}
		if mesh.Terminal(e.GetTaskMoved().GetState()) {
			o.times["end of the turn"]++
		}
	}
	state := thread.Fold(events)
	for _, x := range state.Executions() {
		parent := ""
		if up := state.Execution(x.Parent); up != nil {
			parent = up.Agent
		}
		if len(x.Unsettled) > 0 {
			o.open = append(o.open, x.Label)
		}
		o.ends = append(o.ends, fmt.Sprintf("%s %s of %s for %s: %s %s %q", x.Kind, x.Label, x.Agent, parent, x.State, x.Reason, x.Result))
	}
	slices.Sort(o.ends)
}

func readAll(ctx context.Context, threads meshv1.ThreadServiceClient, id string) []*meshv1.Event {
	resp, err := threads.ReadThread(ctx, &meshv1.ReadThreadRequest{ThreadId: id, Limit: 1000})
	if err != nil {
		return nil
	}
	return resp.GetEvents()
}

// once is what happens once in a run.
func once() map[string]int {
	all := map[string]int{"end of the turn": 1, "end of ": 1} // that of who leads has no label
	for _, j := range jobs {
		all["told of "+j.id], all["end of "+j.id] = 1, 1
	}
	return all
}

// lost returns the jobs without their effect; of those that had it twice, too.
func (o *outcome) lost() (all []string) {
	for _, j := range jobs {
		if i := slices.Index(o.effects, j.id); i < 0 || slices.Contains(o.effects[i+1:], j.id) {
			all = append(all, j.id)
		}
	}
	return all
}

// finding R7: a run of a node and five agents in three more processes, one of which has the
// others do five jobs in three waves, and collects their results or gets them pushed, is killed
// before or after any append, or told to stop, the node, a process with agents, or all,
// whatever they are at, and ends as it would have: the same words, the same ends, each effect
// once, and the model told of each result once.
//
// An effect may be missing where the process died that was about to have it: between the
// decision in the log and its outcome nobody knows whether it was had, and what is no reading
// is not done again on a guess (ADR 0039). Then, and only then, the log has a call without an
// outcome.
func TestARunSurvivesKill9AtEveryAppend(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for _, profile := range []dispatch.Profile{dispatch.ProfileFull, dispatch.ProfilePush} {
		t.Run(string(profile), func(t *testing.T) {
			t.Logf("seed %d", seed)
			survivesKills(t, profile, r)
		})
	}
}

// survivesKills has runs with the profile killed, and stopped: at every append, or at some.
func survivesKills(t *testing.T, profile dispatch.Profile, r *rand.Rand) {
	want := survive(t, profile, syscall.SIGKILL, "never", 0)
	if d := cmp.Diff(once(), want.times); d != "" || want.said != "COMPLETED I have it done.\n\nAll are done: 1 1 1 1 1" || len(want.lost())+len(want.open) > 0 || len(want.ends) != 7 {
		t.Fatalf("without a kill, it ended %q with the effects %q and\n%s\n%s", want.said, want.effects, strings.Join(want.ends, "\n"), d)
	}
	type kill struct {
		by    syscall.Signal
		when  string
		n     int
		roles []string
	}
	var kills []kill
	for n := 1; n <= want.appends; n++ {
		for _, when := range []string{"before", "after"} {
			for _, roles := range [][]string{{"surviving-mesh"}, {"surviving-lead"}, {"surviving-worker"}, {"surviving-helper"}, {"surviving-helper", "surviving-lead", "surviving-mesh", "surviving-worker"}} {
				kills = append(kills, kill{syscall.SIGKILL, when, n, roles})
				if slices.ContainsFunc(roles, func(role string) bool { return role == "surviving-mesh" || role == "surviving-lead" }) {
					kills = append(kills, kill{syscall.SIGTERM, when, n, roles}) // other agents that stop have left, and are not waited for
				}
			}
		}
	}
	if !*everyKill {
		r.Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
	}
	if *everyKill {
		kills = slices.DeleteFunc(kills, func(k kill) bool { // a fourth of what is like the others
			return (k.by != syscall.SIGKILL || profile != dispatch.ProfileFull) && r.IntN(4) > 0
		})
	}
	left := map[syscall.Signal]int{syscall.SIGKILL: 2, syscall.SIGTERM: 1}
	died := 0
	for _, k := range kills {
		if left[k.by]--; !*everyKill && left[k.by] < 0 && died > 0 { // a run may have fewer appends than the first one, in which nobody dies
			continue
		}
		t.Run(fmt.Sprintf("%s %s %d %s", k.by, k.when, k.n, strings.Join(k.roles, " ")), func(t *testing.T) {
			got := survive(t, profile, k.by, k.when, k.n, k.roles...)
			died += len(got.killed)
			works := slices.Contains(got.killed, "surviving-worker") || slices.Contains(got.killed, "surviving-helper")
			for _, id := range got.lost() {
				if !works || !slices.Contains(got.open, id) || slices.Contains(got.effects, id) {
					t.Errorf("the effects are %q, and without an outcome are the calls of %q", got.effects, got.open)
				}
			}
			if d := cmp.Diff(want.ends, got.ends); d != "" || got.said != want.said {
				t.Errorf("it ended %q, and the executions (-want +got):\n%s", got.said, d)
			}
			if d := cmp.Diff(once(), got.times); d != "" {
				t.Errorf("what happens once (-want +got):\n%s", d)
			}
			if t.Failed() {
				for _, e := range got.log {
					t.Log(e)
				}
			}
		})
	}
	if died == 0 {
		t.Error("nobody was killed")
	}
}
