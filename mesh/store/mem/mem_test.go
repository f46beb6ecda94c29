package mem_test

import (
	"testing"

	"go.uber.org/goleak"

	"agentmesh/mesh/state"
	"agentmesh/mesh/state/statetest"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestThreadsConform(t *testing.T) {
	logtest.Run(t, func(*testing.T) threadlog.Backend { return mem.Open() })
}

func TestStateConforms(t *testing.T) {
	statetest.Run(t, func(*testing.T) state.Store { return mem.Open() })
}
