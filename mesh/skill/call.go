package skill

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// The values of Result.Status.
const (
	StatusOK    = "ok"
	StatusError = "error"
	// StatusWaiting says that the call was not made: the user is asked first.
	// Only the executor sets it.
	StatusWaiting = "waiting"
)

// A Call asks for a skill.
type Call struct {
	// ID is the caller's own id of the call, as a model gave it, or "".
	ID    string
	Skill string
	// Of is the skill that is called, as it was looked up, shown and approved: the executor
	// sets it.
	Of *Skill
	// Source says how the skill is called: one of the Source constants of
	// package mesh, or "".
	Source string
	// Args are the arguments by name, as JSON decodes them. A handler gets
	// them checked and converted: string, int64, float64, bool, []any of
	// these, map[string]any; defaults are filled in.
	Args map[string]any
	// Key is the idempotency key: calls with the same key have one effect.
	Key string
	// Effect is what the call has the mesh do, if its handler is made by
	// [EffectHandler]: the executor sets it, and the user is asked about it instead of the call.
	Effect *Effect
}

// An Effect is something that the mesh does for a call and that its user has to approve,
// as [mesh.CallCreateSkill], with arguments in JSON.
type Effect struct{ Name, Args string }

// String returns the argument, or "" if it is no text.
func (c *Call) String(name string) string {
	s, _ := c.Args[name].(string)
	return s
}

// A Result is what a call came to, for the model that made it.
type Result struct {
	// Status is StatusOK, StatusError or StatusWaiting.
	Status string `json:"status"`
	// Content is told to the model.
	Content  string         `json:"content"`
	Files    []string       `json:"files,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
	// Parts are images, sounds, files and links that the call made, for the user: a
	// model is told of them in Content.
	Parts []*a2apb.Part `json:"-"`
	// Ask is what the user is asked, if Status is StatusWaiting.
	Ask string `json:"-"`
	// Full is the content as it was before the executor cut it, or "" if it
	// did not.
	Full string `json:"-"`
	// Err is why the executor did not run the call or the handler failed, for
	// programs; nil where only Content knows.
	Err error `json:"-"`
}

// Failed reports whether the call had no success, and does not wait for one.
func (r *Result) Failed() bool { return r.Status != StatusOK && r.Status != StatusWaiting }

// Template reports whether the content is a template, which the model carries out.
func (r *Result) Template() bool { return r.Metadata[interpret] == true }

// Whole returns the content, uncut.
func (r *Result) Whole() string { return cmp.Or(r.Full, r.Content) }

// An Env is what a handler may use of the world around its call.
type Env struct {
	Tenant mesh.TenantID
	User   string
	// Shared says that the call works with what all users of the tenant share, and not
	// with what is the user's own.
	Shared bool
	// Thread is the id of the conversation, or "".
	Thread string
	// State is nil where the mesh gives the agent none.
	State State
	// CreateSkill creates a skill for the user, who has approved just that; it is Conflict
	// if there is another one of that name. Nil where the mesh creates none.
	CreateSkill func(ctx context.Context, s *Skill) error
	// Progress tells the user how far the call is, and does not block; nil where nobody
	// is told.
	Progress func(Progress)
	// Now tells the time, in the user's zone. Nil means time.Now.
	Now func() time.Time
	// Logger is for the operator. Nil discards.
	Logger *slog.Logger
}

// Progress is how far a call is. Total is 0 where nobody knows it.
type Progress struct {
	Text        string
	Done, Total float64
}

// Owner returns whose data the call works with.
func (e *Env) Owner() mesh.Owner {
	if e.Shared {
		return mesh.Owner{Tenant: e.Tenant}
	}
	return mesh.Owner{Tenant: e.Tenant, User: e.User}
}
