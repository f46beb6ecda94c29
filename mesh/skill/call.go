package skill

import (
	"context"
	"log/slog"
	"time"

	"agentmesh/mesh"
)

// The values of Result.Status.
const (
	StatusOK    = "ok"
	StatusError = "error"
)

// A Call asks for a skill.
type Call struct {
	Skill string
	// Args are the arguments by name, as JSON decodes them. A handler gets
	// them checked and converted: string, int64, float64, bool, []any of
	// these, map[string]any; defaults are filled in.
	Args map[string]any
	// Key is the idempotency key: calls with the same key have one effect.
	Key string
}

// Has reports whether the argument is there.
func (c *Call) Has(name string) bool {
	_, ok := c.Args[name]
	return ok
}

// String returns the argument, or "".
func (c *Call) String(name string) string {
	s, _ := c.Args[name].(string)
	return s
}

// Int returns the argument, or 0.
func (c *Call) Int(name string) int64 {
	n, _ := c.Args[name].(int64)
	return n
}

// Bool returns the argument, or false.
func (c *Call) Bool(name string) bool {
	b, _ := c.Args[name].(bool)
	return b
}

// Strings returns the argument, an array of strings, or nil.
func (c *Call) Strings(name string) []string {
	list, _ := c.Args[name].([]any)
	var out []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// A Result is what a call came to, for the model that made it.
type Result struct {
	// Status is StatusOK or StatusError.
	Status   string         `json:"status"`
	Content  string         `json:"content"`
	Files    []string       `json:"files,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Failed reports whether the call had no success.
func (r *Result) Failed() bool { return r.Status != StatusOK }

// An Env is what a handler may use of the world around its call.
type Env struct {
	Tenant mesh.TenantID
	User   string
	// Thread is the id of the conversation, or "".
	Thread string
	// State is nil where the mesh gives the agent none.
	State State
	// Now tells the time, in the user's zone. Nil means time.Now.
	Now func() time.Time
	// Logger is for the operator. Nil discards.
	Logger *slog.Logger
}

// A Handler is the code of a skill. Its arguments are checked. It ends soon
// after ctx does, has one effect per key, and may be called concurrently. Of
// an error that is a [mesh.Error], Field and Detail are told to the model; of
// any other error nothing is.
type Handler interface {
	Execute(ctx context.Context, call *Call, env *Env) (*Result, error)
}

// HandlerFunc makes a Handler of a function.
type HandlerFunc func(ctx context.Context, call *Call, env *Env) (*Result, error)

// Execute calls f.
func (f HandlerFunc) Execute(ctx context.Context, call *Call, env *Env) (*Result, error) {
	return f(ctx, call, env)
}
