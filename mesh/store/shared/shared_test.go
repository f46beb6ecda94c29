package shared_test

import (
	"testing"

	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

func TestAHandleConforms(t *testing.T) {
	logtest.Run(t, func(*testing.T) threadlog.Backend { return shared.New(mem.Open()).Handle() })
}
