package skilltools_test

import (
	"testing"

	"agentmesh/mesh/text/texttest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	texttest.FromEnv()
	goleak.VerifyTestMain(m)
}
