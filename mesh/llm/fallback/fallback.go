// Package fallback answers with the first of several models that can.
//
// A [Model] asks its models in their order. It moves on to the next one when a
// model fails before it has said anything, for a reason that another model may
// not have: it is unavailable, its quota is spent, it is too slow, it refuses
// the key or what the key may do, or it does not exist. It never moves on when the caller gave up or
// the request itself is wrong, nor after the first chunk: what was said cannot
// be taken back. The model that answered is asked first for a while, so that
// not every request waits for one that is down.
//
// A model whose provider lacks a native tool of the request is not asked while there is one
// that has it.
//
// A Model is safe for concurrent use and starts no goroutines. It does not
// retry a model; models do that themselves.
package fallback

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// DefaultCoolDown is how long a model that was passed over is not asked first.
const DefaultCoolDown = 5 * time.Minute

// Named is a model with the name that people know it by.
type Named struct {
	Name  string
	Model llm.Model
	// Ask is the model to ask for in place of the request's. Without it, the
	// first model is asked for the request's, and the others, which know other
	// names, for their own default.
	Ask string
}

// A Report says how a request was answered.
type Report struct {
	// Name is the model that answered, or "" if none did.
	Name string
	// Failed are the models that were asked before it, with their errors.
	Failed []Failure
}

// A Failure is why a model was passed over.
type Failure struct {
	Name string
	Err  error
}

// Options are the choices of [New].
type Options struct {
	// CoolDown is how long the model that answered is asked first. The default
	// is DefaultCoolDown; a negative one always begins with the first model.
	CoolDown time.Duration
	// Report is told, when the first chunk of an answer is there, who gives
	// it, and when there is none. It must not block. The default tells nobody.
	Report func(ctx context.Context, r Report)
	// Logger gets a warning for every model that is passed over. The default
	// discards.
	Logger *slog.Logger
	// Now is the clock. The default is time.Now.
	Now func() time.Time
}

// A Model is several models in the order of preference. Use [New].
type Model struct {
	models  []Named
	options Options

	mu    sync.Mutex
	first int       // the model to ask first
	until time.Time // for how long, if it is not the first anyway
}

var _ llm.Model = (*Model)(nil)

// New returns a model that asks the models in their order. There must be at
// least one, and each needs a name of its own.
func New(models []Named, o Options) (*Model, error) {
	if len(models) == 0 {
		return nil, mesh.InvalidField("fallback.New", "llm.models", "name at least one model")
	}
	seen := map[string]bool{"": true}
	for _, m := range models {
		if seen[m.Name] || m.Model == nil {
			return nil, mesh.InvalidField("fallback.New", "llm.models", "each model needs a name of its own; %q is not", m.Name)
		}
		seen[m.Name] = true
	}
	if o.CoolDown == 0 {
		o.CoolDown = DefaultCoolDown
	}
	if o.Report == nil {
		o.Report = func(context.Context, Report) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Model{models: slices.Clone(models), options: o}, nil
}

// Generate streams the reply of the first model that gives one. If none does,
// the error has the code of the model that was asked first and names them all.
func (m *Model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		var failed []Failure
		for _, at := range m.able(m.order(), req.NativeTools) {
			answered, err := m.try(ctx, at, req, failed, yield)
			if answered {
				return
			}
			failed = append(failed, Failure{m.models[at].Name, err})
			if ctx.Err() != nil || !movesOn(err) {
				break
			}
			m.options.Logger.WarnContext(ctx, "a model was passed over", "model", m.models[at].Name, "err", err)
		}
		m.options.Report(ctx, Report{Failed: failed})
		yield(llm.Chunk{}, failure(failed))
	}
}

// try lets one model answer. It returns false and the error if the model
// failed before it said anything.
func (m *Model) try(ctx context.Context, at int, req *llm.Request, failed []Failure, yield func(llm.Chunk, error) bool) (answered bool, err error) {
	asked := *req
	switch {
	case m.models[at].Ask != "":
		asked.Model = m.models[at].Ask
	case at > 0:
		asked.Model = ""
	}
	for chunk, err := range m.models[at].Model.Generate(ctx, &asked) {
		if !answered {
			if err != nil {
				return false, err
			}
			answered = true
			m.keep(at)
			m.options.Report(ctx, Report{Name: m.models[at].Name, Failed: failed})
		}
		if !yield(chunk, err) || err != nil {
			return true, nil
		}
	}
	if !answered {
		return false, mesh.Errorf(mesh.Unavailable, "fallback.Generate", "The model %s sent nothing", m.models[at].Name)
	}
	return true, nil
}

// order returns the models in the order in which they are asked now.
func (m *Model) order() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first > 0 && !m.options.Now().Before(m.until) {
		m.first = 0
	}
	order := []int{m.first}
	for i := range m.models {
		if i != m.first {
			order = append(order, i)
		}
	}
	return order
}

// able returns those of the models that lack the fewest of the native tools.
func (m *Model) able(order []int, native []string) []int {
	if len(native) == 0 {
		return order
	}
	least, out := len(native)+1, []int(nil)
	for _, at := range order {
		switch n := len(llm.Lacking(m.models[at].Model, native)); {
		case n < least:
			least, out = n, []int{at}
		case n == least:
			out = append(out, at)
		}
	}
	return out
}

// Offers reports whether one of the models has the native tool.
func (m *Model) Offers(tool string) bool {
	return slices.ContainsFunc(m.models, func(n Named) bool { return llm.Offers(n.Model, tool) })
}

// Sees reports whether the model that is asked first takes pictures. Another one that does not,
// and answers for it, reads that they are there.
func (m *Model) Sees() bool { return llm.Sees(m.models[0].Model) }

// Hears is Sees for audio.
func (m *Model) Hears() bool { return llm.Hears(m.models[0].Model) }

// keep remembers who answered. The time of one that is kept already is not
// prolonged, so that a better one gets its chance.
func (m *Model) keep(at int) {
	if m.options.CoolDown < 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if at != m.first {
		m.first, m.until = at, m.options.Now().Add(m.options.CoolDown)
	}
}

// movesOn reports whether another model may do better.
func movesOn(err error) bool {
	switch mesh.CodeOf(err) {
	case mesh.Unavailable, mesh.Exhausted, mesh.Timeout, mesh.Unauthenticated, mesh.Denied, mesh.NotFound:
		return true
	}
	return false
}

// failure is the error of a request that no model answered.
func failure(failed []Failure) error {
	if len(failed) == 1 {
		return failed[0].Err
	}
	var says []string
	var errs []error
	for _, f := range failed {
		why := mesh.DetailOf(f.Err)
		if why == "" {
			why = mesh.CodeOf(f.Err).String()
		}
		says = append(says, f.Name+": "+why)
		errs = append(errs, f.Err)
	}
	return &mesh.Error{
		Code: mesh.CodeOf(failed[0].Err), Op: "fallback.Generate",
		Detail: "None of the models answered. " + strings.Join(says, "; "), Err: errors.Join(errs...),
	}
}
