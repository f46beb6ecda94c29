package main

import (
	"github.com/spf13/cobra"

	"agentmesh/skills/knowledge"
)

// readPDF is the command of the process that a mesh starts to read a PDF file.
const readPDF = "read-pdf"

func (a *app) readPDFCommand() *cobra.Command {
	return &cobra.Command{
		Use:    readPDF,
		Short:  "Read a PDF file from the input and write its pages as JSON",
		Hidden: true,
		Args:   nothing,
		RunE:   func(*cobra.Command, []string) error { return knowledge.ReadPDF(a.stdin, a.stdout) },
	}
}
