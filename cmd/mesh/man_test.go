package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A package installs a page for each command that help lists, with the date that it is given.
func TestEveryCommandHasAManualPage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	dir := filepath.Join(t.TempDir(), "man1")
	a := quietApp()
	if code := a.execute(t.Context(), []string{"man", dir}); code != exitOK {
		t.Fatalf("the exit code is %d", code)
	}
	seen := 0
	walk(a.rootCommand(), func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() && cmd.HasParent() {
			return
		}
		seen++
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		for _, part := range []string{`"Jan 1970"`, `"mesh ` + versionOf(nil), ".SH SYNOPSIS"} {
			if !strings.Contains(string(page), part) {
				t.Errorf("the page of %s has no %s", cmd.CommandPath(), part)
			}
		}
	})
	if pages, err := os.ReadDir(dir); err != nil || len(pages) < seen || seen < 60 {
		t.Errorf("%d commands have %d pages, %v", seen, len(pages), err)
	}
}
