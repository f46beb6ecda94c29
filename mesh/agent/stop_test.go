package agent_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/agenttest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// A run that is cut has no last word: whoever asked for it has it go on elsewhere.
func TestStoppingLetsRunsFinishAndCutsThoseThatDoNot(t *testing.T) {
	for name, tt := range map[string]struct {
		agent agent.Agent
		after time.Duration
		state string
		code  mesh.Code // with which those who follow are sent away
	}{
		"soon":   {paced(3*time.Second, "done"), 3 * time.Second, "COMPLETED", 0},
		"never":  {until(true, 0), 10 * time.Second, "", mesh.Unavailable},
		"slowly": {until(false, 2*time.Second), 12 * time.Second, "", mesh.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, stop := start(t, tt.agent)
				g := agenttest.NewGrant()
				send(t, r, g, agenttest.Message("go"))
				begun := time.Now()
				go func() {
					time.Sleep(time.Second)
					if _, err := r.Send(under(t.Context(), agenttest.NewGrant()), &a2apb.SendMessageRequest{Message: agenttest.Message("x")}); !mesh.IsCode(err, mesh.Unavailable) {
						t.Errorf("a new message while stopping: %v", err)
					}
				}()
				if err := stop(); err != nil {
					t.Error(err)
				}
				if got := time.Since(begun); got != tt.after {
					t.Errorf("stopped after %v, want %v", got, tt.after)
				}
				state, err := "", error(nil)
				for u, failed := range r.Updates(under(t.Context(), g), string(g.Execution), 0) {
					if err = failed; err == nil {
						if s, moved := a2a.StateOf(u.Response); moved && mesh.Terminal(s) {
							state = strings.TrimPrefix(s.String(), "TASK_STATE_")
						}
					}
				}
				if state != tt.state || (err != nil || tt.code != 0) && !mesh.IsCode(err, tt.code) {
					t.Errorf("ended %q, %v", state, err)
				}
			})
		})
	}
}

func TestStoppingEndsThoseWhoFollowATaskThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, stop := start(t, asker())
		g := agenttest.NewGrant()
		hs := listen(t, r, g, send(t, r, g, agenttest.Message("paint")).Cursor)
		ended := make(chan error, 1)
		go func() {
			for _, err := range r.Updates(under(t.Context(), g), string(g.Execution), last(hs).seq) {
				ended <- err
			}
		}()
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !mesh.IsCode(err, mesh.Unavailable) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnAgentThatIgnoresTheEndIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, stop := start(t, until(false, time.Hour))
		send(t, r, agenttest.NewGrant(), agenttest.Message("go"))
		if err := stop(); !mesh.IsCode(err, mesh.Timeout) {
			t.Errorf("got %v, want Timeout", err)
		}
		time.Sleep(2 * time.Hour) // it ends at last, and the bubble with it
	})
}

func TestTasksAtRestAreForgottenUnlessFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t, asker())
		g, followed := agenttest.NewGrant(), agenttest.NewGrant()
		listen(t, r, g, send(t, r, g, agenttest.Message("a")).Cursor)
		hs := listen(t, r, followed, send(t, r, followed, agenttest.Message("b")).Cursor)
		ctx, leave := context.WithCancel(under(t.Context(), followed))
		left := make(chan struct{})
		go func() {
			defer close(left)
			for range r.Updates(ctx, string(followed.Execution), last(hs).seq) {
			}
		}()
		time.Sleep(9 * time.Minute)
		if _, _, err := r.Task(under(t.Context(), g), string(g.Execution)); err != nil {
			t.Errorf("after 9 minutes: %v", err)
		}
		time.Sleep(3 * time.Minute)
		if _, _, err := r.Task(under(t.Context(), g), string(g.Execution)); !mesh.IsCode(err, mesh.NotFound) {
			t.Errorf("after 12 minutes: %v", err)
		}
		if _, _, err := r.Task(ctx, string(followed.Execution)); err != nil {
			t.Errorf("the followed task: %v", err)
		}
		leave()
		<-left
	})
}

func TestTheNumberOfKeptTasksIsBounded(t *testing.T) {
	r, _ := start(t, says())
	first := agenttest.NewGrant()
	listen(t, r, first, send(t, r, first, agenttest.Message("go")).Cursor)
	for range 4100 {
		g := agenttest.NewGrant()
		listen(t, r, g, send(t, r, g, agenttest.Message("go")).Cursor)
	}
	if _, _, err := r.Task(under(t.Context(), first), string(first.Execution)); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("got %v, want the oldest task to be forgotten", err)
	}
}

func TestTheCardSaysWhatTheRuntimeDoes(t *testing.T) {
	a := says()
	r := agent.NewRuntime(a, nil, agent.WithEndpoint("10.0.0.1:7000"))
	card := r.Card()
	i := card.GetSupportedInterfaces()
	if len(i) != 1 || i[0].GetUrl() != "10.0.0.1:7000" || i[0].GetProtocolBinding() != "GRPC" || i[0].GetProtocolVersion() != "1.0" {
		t.Errorf("interfaces are %v", i)
	}
	c := card.GetCapabilities()
	if !c.GetStreaming() || c.GetPushNotifications() || len(c.GetExtensions()) != 1 || c.GetExtensions()[0].GetUri() != mesh.ExtensionURI {
		t.Errorf("capabilities are %v", c)
	}
}
