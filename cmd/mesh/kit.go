package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"agentmesh/agents/specialist"
	"agentmesh/docs"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/llm/openai"
	"agentmesh/mesh/node"
	"agentmesh/mesh/security/egress"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/mcp"
	"agentmesh/mesh/skill/notify"
	"agentmesh/skills"
	"agentmesh/skills/calendar"
	"agentmesh/skills/files"
	httpskill "agentmesh/skills/http"
	"agentmesh/skills/knowledge"
	"agentmesh/skills/mail"
	"agentmesh/skills/markdown"
	"agentmesh/skills/memory"
	"agentmesh/skills/system"
	"agentmesh/skills/tasks"
)

// A kit has the handlers of all skills, and what they work with. It is not
// used concurrently; the handlers are.
type kit struct {
	cfg      *node.Config
	logger   *slog.Logger
	carrier  *http.Transport // of requests that skills and notifications make
	mail     []mail.Option
	calendar []calendar.Option
	index    *knowledge.Index
	watched  bool // the index
	memories *memory.Store
	vaults   *markdown.Vaults
	notifier *notify.Notifier
	servers  *mcp.Servers
	now      func() time.Time
	ranker   memory.Ranker // of memories
}

func newKit(cfg *node.Config, now func() time.Time, logger *slog.Logger) (*kit, error) {
	guard, err := egress.New(egress.Options{Allow: cfg.Egress.Allow, AllowHTTP: cfg.Egress.AllowHTTP})
	if err != nil {
		return nil, err
	}
	k := &kit{cfg: cfg, logger: logger, now: now, carrier: guard.Transport()}
	if k.ranker, err = ranker(cfg.Embedding, logger); err != nil {
		return nil, err
	}
	if k.mail, err = mailOptions(cfg); err != nil {
		return nil, err
	}
	if k.calendar, err = calendarOptions(cfg, k.mail); err != nil {
		return nil, err
	}
	var rules []notify.Rule
	for _, n := range cfg.Notify {
		rules = append(rules, notify.Rule{Skills: n.Skills, On: n.On, URL: n.Webhook})
	}
	if k.notifier, err = notify.New(rules, notify.Options{Client: &http.Client{Transport: k.carrier}, Now: now, Logger: logger}); err != nil {
		return nil, err
	}
	servers := map[string]mcp.Server{}
	for name, s := range cfg.MCP.Servers {
		servers[name] = mcp.Server{Command: s.Command, Env: s.Env, URL: s.URL, Headers: s.Headers, Timeout: s.Timeout}
	}
	info, _ := debug.ReadBuildInfo()
	version := versionOf(info)
	// The operator named these servers: they may be on this machine.
	k.servers, err = mcp.Open(servers, mcp.Options{Logger: logger, Version: version, Reserved: handlerDomains})
	if err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

// closeTime is how long notifications may take that are on their way when the
// program ends.
const closeTime = 5 * time.Second

func (k *kit) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	errs := []error{k.notifier.Close(ctx)}
	if k.index != nil {
		errs = append(errs, k.index.Close())
	}
	if k.memories != nil {
		errs = append(errs, k.memories.Close())
	}
	if k.vaults != nil {
		errs = append(errs, k.vaults.Close())
	}
	k.carrier.CloseIdleConnections()
	return errors.Join(errs...)
}

// notify returns who is told how the calls of an execution ended.
func (k *kit) notify(inv *agent.Invocation) skill.Notifier {
	return k.notifier.For(notify.Origin{Tenant: inv.Thread.Tenant, User: inv.User, Thread: inv.Thread.ID})
}

// handlerDomains are the domains that have handlers.
var handlerDomains = []string{"tasks", "mail", "calendar", "knowledge", "memory", "files", "markdown", "http", "system"}

// The folders of what skills keep, below the data folder, where they have one.
const (
	filesFolder  = "files"
	vaultFolder  = "vault"
	memoryFolder = "memory-index"
)

// handlers are what runs the skills of the domains, and of MCP servers if all
// are wanted or some are named.
func (k *kit) handlers(domains, servers []string) (map[string]skill.Handler, error) {
	all := map[string]skill.Handler{}
	if slices.Contains(domains, specialist.AnyDomain) {
		domains = handlerDomains
		if len(servers) == 0 {
			servers = k.servers.Names()
		}
	}
	tools := k.servers.Handlers()
	for _, name := range servers {
		h, ok := tools[mcp.HandlerName(name)]
		if !ok {
			return nil, mesh.InvalidField("mesh.agents", "mcp", "names the server %q, which mcp.servers does not have", name)
		}
		all[mcp.HandlerName(name)] = h
	}
	for _, d := range domains {
		h, err := k.domain(d)
		if err != nil {
			return nil, err
		}
		if k.cfg.Shares(d) {
			h = skill.Shared(h)
		}
		maps.Copy(all, h)
	}
	return all, nil
}

// installed returns which handlers there are: those that the embedded skills
// name, that of requests, and those of MCP servers, which come and go.
var installed = sync.OnceValue(func() func(name string) bool {
	known := map[string]bool{httpskill.Handler: true}
	catalog, _ := skill.Load(skills.FS)
	for _, s := range catalog.List() {
		known[s.Handler] = true
	}
	return func(name string) bool { return known[name] || strings.HasPrefix(name, mcp.HandlerName("")) }
})

// domain is what runs the skills of a domain.
func (k *kit) domain(name string) (map[string]skill.Handler, error) {
	switch name {
	case "tasks":
		return tasks.Handlers(), nil
	case "mail":
		return mail.Handlers(k.cfg.Data, k.mail...), nil
	case "calendar":
		return calendar.Handlers(k.cfg.Data, k.calendar...), nil
	case "files":
		return files.Handlers(filepath.Join(k.cfg.Data, filesFolder)), nil
	case "markdown":
		return markdown.Handlers(k.notes()), nil
	case "memory":
		return memory.Handlers(k.memory()), nil
	case "http":
		return k.http()
	case "system":
		return system.Handlers(), nil
	}
	if k.index == nil {
		if err := k.openIndex(); err != nil {
			return nil, err
		}
	}
	return knowledge.Handlers(k.index), nil
}

// openIndex opens the documents.
func (k *kit) openIndex() (err error) {
	self, err := os.Executable()
	if err != nil {
		return mesh.Errorf(mesh.Unknown, "kit.openIndex", "the program does not find itself: %w", err)
	}
	fsys, opts := fs.FS(docs.FS), knowledge.Options{Ignore: k.cfg.DocsIgnore, PDF: []string{self, readPDF}, Logger: k.logger}
	own := folderOr(k.cfg.Docs, nil)
	if own != nil {
		fsys, opts.Dir = own, k.cfg.Docs
	}
	if k.index, err = knowledge.Open(fsys, opts); err == nil && own != nil { // ours are few, and many never ask for them
		k.index.Prepare()
	}
	return err
}

// watch has the alarms of the node tell which documents cannot be searched.
func (k *kit) watch(alarms *alarm.Set) {
	if k.index == nil || k.watched || alarms == nil {
		return
	}
	k.watched = true
	k.index.Tell(func(problems []skill.Problem) {
		var err error
		if len(problems) > 0 {
			var all []string
			for _, p := range problems[:min(len(problems), maxNamed)] {
				all = append(all, p.Path+" "+p.Detail)
			}
			if len(problems) > 1 {
				all[0] = fmt.Sprintf("%d documents, all of which the log names: ", len(problems)) + all[0]
			}
			err = errors.New(strings.Join(all, "; "))
		}
		alarms.Report(context.Background(), alarm.Source{Setting: "docs"}, "the other documents are searched", err)
	})
}

// maxNamed is how many documents an alarm names.
const maxNamed = 20

// holders are what keeps something of users in files.
func (k *kit) holders() []node.Holder {
	return []node.Holder{mail.Holder(k.cfg.Data), calendar.Holder(k.cfg.Data), files.Holder(filepath.Join(k.cfg.Data, filesFolder)), k.notes(), k.memory()}
}

func (k *kit) notes() *markdown.Vaults {
	if k.vaults == nil {
		k.vaults = markdown.Open(filepath.Join(k.cfg.Data, vaultFolder))
	}
	return k.vaults
}

func (k *kit) memory() *memory.Store {
	if k.memories == nil {
		k.memories = memory.Open(filepath.Join(k.cfg.Data, memoryFolder), memory.WithRanker(k.ranker))
	}
	return k.memories
}

// ranker is how memories are found.
func ranker(e node.Embedding, logger *slog.Logger) (memory.Ranker, error) {
	if e.Name == "" {
		return memory.Words{}, nil
	}
	set := openai.Settings{URL: "embedding.url", Key: "embedding.key", Model: "embedding.name"}
	c, err := openai.New(openai.Config{BaseURL: e.URL, Key: e.Key, Model: e.Name, Settings: set, Logger: logger})
	return &memory.Meaning{Embedder: c, Least: e.Least, Logger: logger}, err
}

func (k *kit) http() (map[string]skill.Handler, error) {
	secrets := map[string]httpskill.Secret{}
	for name, s := range k.cfg.HTTPSkills.Secrets {
		secrets[name] = httpskill.Secret{Value: s.Value, Origins: s.Origins}
	}
	return httpskill.Handlers(httpskill.Options{
		Client: &http.Client{Transport: k.carrier}, Allow: k.cfg.HTTPSkills.Allow, Secrets: secrets,
	})
}
