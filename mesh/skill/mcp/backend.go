package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh/skill"
)

// A Backend is the mesh for one caller: who it is, is in the context, as the
// request's context had it. It is called concurrently.
type Backend interface {
	// List returns the skills that the caller may call. They are shared and not
	// changed, and may lack their schemas; the slice is the server's.
	List(ctx context.Context) ([]*skill.Skill, error)
	// Complete returns those of the named skills that the caller may call, in any
	// order, with the schemas that they have of their own.
	Complete(ctx context.Context, names []string) ([]*skill.Skill, error)
	// Run calls a skill and waits for it; when ctx ends before, the run is cancelled.
	// NotFound says that there is no such skill for the caller; of any error the Detail
	// is told to the caller.
	Run(ctx context.Context, call *Call) (*Outcome, error)
}

// A Call asks a [Backend] for a skill.
type Call struct {
	Skill string
	Args  map[string]any
	// RequestID is never empty. Calls of the same caller with the same one have one
	// effect, and all get what came of it.
	RequestID string
	// Reply is what the user says to the question whose [QuestionID] is ReplyTo, or "".
	// It is given as the user's message, once, if that is what the run waits for.
	Reply, ReplyTo string
	// Progress is told how far the run is, one after the other; nil where nobody wants
	// to know.
	Progress func(skill.Progress)
}

// QuestionID tells questions apart.
func QuestionID(question string) string {
	sum := sha256.Sum256([]byte(question))
	return hex.EncodeToString(sum[:8])
}

// An Outcome is what a run of a skill came to.
type Outcome struct {
	// Text is what the skill said.
	Text string
	// Files are names of files that it made, and Parts images, sounds, files and links.
	Files []string
	Parts []*a2apb.Part
	// Metadata is what it said for programs; it has a JSON form.
	Metadata map[string]any
	// Failed says that it had no success.
	Failed bool
	// Asks is what the user is asked before the skill runs, or "". The answer
	// is given to Task, which then goes on. Approval says that a plain yes or no
	// answers it.
	Asks     string
	Approval bool
	Task     string
}
