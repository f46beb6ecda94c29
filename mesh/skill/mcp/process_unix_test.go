//go:build unix

package mcp_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill/mcp"
)

// No process is left, also none that a server started, although the server
// neither ends with its input nor when it is asked to.
func TestRunLeavesNoProcess(t *testing.T) {
	for _, mode := range []string{"yes", "stubborn"} {
		m := run(t, map[string]mcp.Server{"box": self(t, mode)}, mcp.Options{})
		m.awaitSkill(t, "box.pids")
		var server, child int
		if _, err := fmt.Sscan(m.does(t, "box.pids", nil).Content, &server, &child); err != nil {
			t.Fatal(err)
		}
		m.stop()
		for _, pid := range []int{server, child} {
			if alive(pid) {
				t.Errorf("%s: process %d is still there", mode, pid)
			}
		}
		if _, err := m.call(t.Context(), "box.echo", nil); !mesh.IsCode(err, mesh.Unavailable) {
			t.Errorf("%s: a call afterwards: %v", mode, err)
		}
	}
}

// alive reports whether there is such a process, other than as a zombie that
// waits for init.
func alive(pid int) bool {
	for range 1000 {
		if syscall.Kill(pid, 0) != nil {
			return false
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}
