package main

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"agentmesh/docs"
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
