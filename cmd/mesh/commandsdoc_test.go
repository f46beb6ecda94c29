package main

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	grpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/status"

	"agentmesh/docs"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// The page of the commands has the exit codes and the commands of a chat as they are.
func TestThePageOfTheCommandsIsRight(t *testing.T) {
	page, err := fs.ReadFile(docs.FS, "commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range exitCodes {
		if row := fmt.Sprintf("| %d | %s |\n", c.code, c.meaning); !strings.Contains(string(page), row) {
			t.Errorf("the page does not have %s", row)
		}
	}
	for _, c := range chatCommands {
		if c != "/help" && !strings.Contains(chatHelp, c+" ") {
			t.Errorf("/help does not tell %s", c)
		}
	}
}

// The page of errors has each code, and the exit code of each, as they are.
func TestThePageOfErrorsIsRight(t *testing.T) {
	page, err := fs.ReadFile(docs.FS, "errors.md")
	if err != nil {
		t.Fatal(err)
	}
	for code := mesh.Invalid; code <= mesh.DataLoss; code++ {
		err := &mesh.Error{Code: code}
		row := fmt.Sprintf("| `%s` | \\d{3} | %d | ", grpccode.Code(status.Code(rpc.ToStatus(err))), exitCode(err))
		if !regexp.MustCompile("(?m)^" + strings.ReplaceAll(row, "|", "\\|")).Match(page) {
			t.Errorf("the page does not have %s", row)
		}
	}
}
