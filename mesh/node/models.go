package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/llm/openai"
	"agentmesh/mesh/llm/probe"
)

// Clients are how the endpoint is reached, and after it its fallbacks, in their order; none
// without URL and key.
func (m Model) Clients() []openai.Config {
	if m.URL == "" && m.Key == "" {
		return nil
	}
	var all []openai.Config
	for _, e := range append([]Endpoint{{URL: m.URL, Key: m.Key, Name: m.Name, NativeTools: m.NativeTools, Pictures: m.Pictures, Audio: m.Audio}}, m.Fallbacks...) {
		all = append(all, openai.Config{BaseURL: e.URL, Key: e.Key, Model: e.Name, API: openai.API(m.API), NativeTools: e.NativeTools, Pictures: e.Pictures, Audio: e.Audio,
			Cache: openai.Cache(m.Cache), Extra: m.Extra, MaxRetries: m.Retries})
	}
	return all
}

// A ModelEndpoint is an endpoint of a configuration.
type ModelEndpoint struct {
	// Setting and Of say where it is set, as alarms do: model, or models and a name.
	Setting, Of string
	// Client is how it is reached, and names its settings.
	Client openai.Config
}

// String names the endpoint by its settings.
func (e ModelEndpoint) String() string { return alarm.Source{Setting: e.Setting, Of: e.Of}.String() }

// Endpoints are all endpoints of models, also of fallbacks, each once, in the order of their
// settings. The configuration must be filled.
func (c *Config) Endpoints() []ModelEndpoint {
	var all []ModelEndpoint
	seen := map[[3]string]bool{}
	add := func(setting, name, at string, m Model) {
		for i, client := range m.Clients() {
			of, path := name, at
			if i > 0 {
				of = fmt.Sprintf("fallbacks[%d]", i-1)
				path += "." + of
				if name != "" {
					of = name + "." + of
				}
			}
			client.Settings = openai.Settings{URL: path + ".url", Key: path + ".key", Model: path + ".name"}
			if i == 0 && setting == "model" {
				client.Settings = openai.Settings{URL: "model.url (MESH_LLM_URL)", Key: "model.key (MESH_LLM_KEY)", Model: "model.name (MESH_LLM_MODEL)"}
			}
			id := [3]string{client.BaseURL, client.Key, client.Model}
			if !seen[id] {
				all = append(all, ModelEndpoint{setting, of, client})
			}
			seen[id] = true
		}
	}
	add("model", "", "model", c.Model)
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		add("models", name, "models."+name, c.Models[name])
	}
	return all
}

// How long after a probe that failed an endpoint is probed again: twice as long each time.
const (
	firstProbeAgain = 15 * time.Second
	lastProbeAgain  = 5 * time.Minute
)

// watchModels keeps an alarm of each endpoint that does not work, until it does or ctx is
// done. One that works is not asked again.
func (n *node) watchModels(ctx context.Context, endpoints []ModelEndpoint) error {
	var each sync.WaitGroup
	defer each.Wait()
	for _, e := range endpoints {
		each.Go(func() { n.watchModel(ctx, e) })
	}
	return nil
}

func (n *node) watchModel(ctx context.Context, e ModelEndpoint) {
	for pause := firstProbeAgain; !n.probed(ctx, e, probe.Endpoint(ctx, e.Client, 0)) && ctx.Err() == nil; pause = min(2*pause, lastProbeAgain) {
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
	}
}

// probed takes in what was found of an endpoint, and reports whether it works.
func (n *node) probed(ctx context.Context, e ModelEndpoint, r *probe.Report) bool {
	if ctx.Err() != nil {
		return false // it was not looked at to the end
	}
	var wrong error
	if failed := r.Failed(); failed != nil {
		wrong = errors.New(failed.String())
	}
	for _, doubt := range r.Doubts() {
		if wrong == nil {
			n.logger.WarnContext(ctx, "the model's endpoint works, with a doubt", "setting", e.String(), "model", e.Client.Model,
				"at", mesh.PublicURL(e.Client.BaseURL), "doubt", doubt.String())
		}
	}
	n.alarms.Report(ctx, alarm.Source{Setting: e.Setting, Of: e.Of}, "agents that ask this model fail, unless it has fallbacks that work", wrong)
	return wrong == nil
}
