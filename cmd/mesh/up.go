package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/datafolder"
	"agentmesh/mesh/skill"
	"agentmesh/skills"
)

// defaultConfig is read when it exists and no other file is named.
const defaultConfig = "mesh.yaml"

// upCommand runs a whole mesh in this process.
func (a *app) upCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:         "up",
		Annotations: map[string]string{startsMesh: "yes"},
		Short:       "Run a mesh in this process: the edge, the services, the gateway and the built-in agents",
		Long: `up runs a whole mesh until Ctrl-C: every built-in agent on a listener of its
own, the edge and the mesh's services on --grpc, REST and SSE on --http.

Settings come from mesh.yaml (or --config), then from MESH_* variables, then
from flags; the later one wins. Without a model (MESH_LLM_URL, MESH_LLM_KEY,
MESH_LLM_MODEL) agents use the offline planner, which needs no network.

Ctrl-C lets running turns finish for a while; a second one ends at once.`,
		Example: `  mesh up
  mesh up --data /var/lib/mesh --grpc 127.0.0.1:9000 --http 127.0.0.1:9080
  MESH_LLM_URL=http://127.0.0.1:11434/v1 MESH_LLM_MODEL=llama3.2 mesh up
  mesh up --grpc 0.0.0.0:7420 --http 0.0.0.0:7480 --auth tokens --tokens tokens.yaml --tls auto`,
		Args: nothing,
	}
	flags := &node.Config{}
	nodeFlags(cmd, flags)
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` (default mesh.yaml, if it is there)")
	cmd.RunE = a.raw(func(ctx context.Context, _ []string) error {
		cfg, err := a.config(cmd, file, flags)
		if err != nil {
			return err
		}
		return a.runNode(ctx, cfg)
	})
	return cmd
}

// nodeFlags adds the flags that set the fields of a node's configuration.
func nodeFlags(cmd *cobra.Command, c *node.Config) {
	f := cmd.Flags()
	f.StringVar(&c.GRPC, "grpc", node.DefaultGRPC, "gRPC `address` to listen on (MESH_GRPC)")
	f.StringVar(&c.HTTP, "http", node.DefaultHTTP, "HTTP `address` to listen on (MESH_HTTP)")
	f.StringVar(&c.Data, "data", node.DefaultData, "`folder` of the store and of what skills write (MESH_DATA)")
	f.StringVar(&c.Skills, "skills", "skills", "`folder` of skill files; beside it, those in the binary (MESH_SKILLS)")
	f.StringVar(&c.Docs, "docs", "docs", "`folder` of documents to answer from; if there is none, or it is '', those in the binary (MESH_DOCS)")
	f.StringVar(&c.Main, "main", node.DefaultMain, "`agent` that answers new conversations (MESH_MAIN)")
	f.StringVar((*string)(&c.Auth), "auth", "none", "`mode`: none, on this machine only, or some of tokens,oidc,mtls (MESH_AUTH)")
	f.StringVar(&c.TLS.Mode, "tls", "", "`mode` of encryption: auto, off for a proxy in front, or files, the default with --tls-cert (MESH_TLS)")
	f.StringVar(&c.TLS.Cert, "tls-cert", "", "PEM `file` of the mesh's certificate (MESH_TLS_CERT)")
	f.StringVar(&c.TLS.Key, "tls-key", "", "PEM `file` of its key (MESH_TLS_KEY)")
	f.StringVar(&c.TLS.ClientCA, "tls-client-ca", "", "PEM `file` of who issues certificates to callers (MESH_TLS_CLIENT_CA)")
	f.StringVar(&c.TLS.ClientAuth, "tls-client-auth", "request", "whether callers need a certificate: `mode` none, request or require (MESH_TLS_CLIENT_AUTH)")
	f.StringVar(&c.Tokens, "tokens", "", "`file` of hashed tokens, see 'mesh token hash' (MESH_TOKENS)")
	f.StringVar(&c.Policies, "policies", "", "`folder` of policies, see 'mesh policy' (MESH_POLICIES)")
	f.Float64Var(&c.RateLimit.PerSecond, "rate", 0, "`calls` per second of each user; 0 is the default: no limit with --auth none, else 100; -1 is no limit (MESH_RATE)")
	f.IntVar(&c.RateLimit.Burst, "burst", 0, "calls of a user that may come at once (MESH_BURST)")
	f.DurationVar(&c.Grace, "grace", 10*time.Second, "`time` that running turns have to finish after Ctrl-C (MESH_GRACE)")
	f.StringVar(&c.ToolMode, "tool-mode", node.ModeMultiAgent, "how a request is worked on: `mode` multi_agent, single_loop or direct (MESH_TOOL_MODE)")
	f.StringVar(&c.SkillInterface, "skill-interface", "", "how models call skills: `kind` cli or json (default: cli with several agents, else json) (MESH_SKILL_INTERFACE)")
	f.StringVar(&c.LogLevel, "log-level", "warn", "`level`: debug, info, warn or error (MESH_LOG_LEVEL)")
}

// config puts the settings together: the file, over it the environment, over it
// the flags that were given.
func (a *app) config(cmd *cobra.Command, file string, flags *node.Config) (node.Config, error) {
	cfg := node.Config{Skills: "skills", Docs: "docs"}
	if file == "" {
		switch info, err := os.Stat(defaultConfig); {
		case err != nil:
		case !ours(info):
			return cfg, mesh.Errorf(mesh.Precondition, "mesh.up", "%s in this folder belongs to another user, or others may write it, and it could start their programs; "+
				"name it with --config if you trust it, or start elsewhere", defaultConfig)
		default:
			file = defaultConfig
		}
	}
	if file != "" {
		loaded, err := node.LoadConfig(file)
		if err != nil {
			return cfg, err
		}
		loaded.Skills, loaded.Docs = orText(loaded.Skills, cfg.Skills), orText(loaded.Docs, cfg.Docs)
		cfg = loaded
	}
	if err := a.fromEnv(&cfg); err != nil {
		return cfg, err
	}
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	for _, s := range []struct {
		name     string
		to, from *string
	}{
		{"grpc", &cfg.GRPC, &flags.GRPC}, {"http", &cfg.HTTP, &flags.HTTP}, {"data", &cfg.Data, &flags.Data},
		{"skills", &cfg.Skills, &flags.Skills}, {"docs", &cfg.Docs, &flags.Docs}, {"main", &cfg.Main, &flags.Main},
		{"auth", (*string)(&cfg.Auth), (*string)(&flags.Auth)}, {"tokens", &cfg.Tokens, &flags.Tokens}, {"policies", &cfg.Policies, &flags.Policies}, {"log-level", &cfg.LogLevel, &flags.LogLevel},
		{"tls", &cfg.TLS.Mode, &flags.TLS.Mode}, {"tls-cert", &cfg.TLS.Cert, &flags.TLS.Cert}, {"tls-key", &cfg.TLS.Key, &flags.TLS.Key},
		{"tls-client-ca", &cfg.TLS.ClientCA, &flags.TLS.ClientCA}, {"tls-client-auth", &cfg.TLS.ClientAuth, &flags.TLS.ClientAuth},
		{"tool-mode", &cfg.ToolMode, &flags.ToolMode}, {"skill-interface", &cfg.SkillInterface, &flags.SkillInterface},
	} {
		if given(s.name) {
			*s.to = *s.from
			cfg.SetBy(settingOf(s.name), "--"+s.name)
		}
	}
	if given("rate") {
		cfg.RateLimit.PerSecond = flags.RateLimit.PerSecond
		cfg.SetBy("rate_limit.per_second", "--rate")
	}
	if given("burst") {
		cfg.RateLimit.Burst = flags.RateLimit.Burst
		cfg.SetBy("rate_limit.burst", "--burst")
	}
	if given("grace") {
		cfg.Grace = flags.Grace
		cfg.SetBy("grace", "--grace")
	}
	return cfg, cfg.Fill()
}

// settingOf is the field that a flag sets.
func settingOf(flag string) string {
	if what, ok := strings.CutPrefix(flag, "tls-"); ok {
		return "tls." + strings.ReplaceAll(what, "-", "_")
	}
	if flag == "tls" {
		return "tls.mode"
	}
	return strings.ReplaceAll(flag, "-", "_")
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// fromEnv sets what MESH_* variables name.
func (a *app) fromEnv(c *node.Config) error {
	for name, to := range map[string]*string{
		"MESH_GRPC": &c.GRPC, "MESH_HTTP": &c.HTTP, "MESH_DATA": &c.Data, "MESH_SKILLS": &c.Skills, "MESH_DOCS": &c.Docs,
		"MESH_MAIN": &c.Main, "MESH_AUTH": (*string)(&c.Auth), "MESH_TOKENS": &c.Tokens, "MESH_POLICIES": &c.Policies, "MESH_LOG_LEVEL": &c.LogLevel,
		"MESH_TLS": &c.TLS.Mode, "MESH_TLS_CERT": &c.TLS.Cert, "MESH_TLS_KEY": &c.TLS.Key,
		"MESH_TLS_CLIENT_CA": &c.TLS.ClientCA, "MESH_TLS_CLIENT_AUTH": &c.TLS.ClientAuth,
		"MESH_TOOL_MODE": &c.ToolMode, "MESH_SKILL_INTERFACE": &c.SkillInterface,
		"MESH_LLM_URL": &c.Model.URL, "MESH_LLM_KEY": &c.Model.Key, "MESH_LLM_MODEL": &c.Model.Name,
	} {
		if v := a.getenv(name); v != "" {
			*to = v
			field, ours := settingOf(strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "MESH_")), "_", "-")), map[string]string{
				"MESH_LLM_URL": "model.url", "MESH_LLM_KEY": "model.key", "MESH_LLM_MODEL": "model.name"}[name]
			c.SetBy(orText(ours, field), name)
		}
	}
	errs := []error{c.Telemetry.FromEnv(a.getenv)}
	if v := a.getenv("MESH_RATE"); v != "" {
		n, err := strconv.ParseFloat(v, 64)
		errs, c.RateLimit.PerSecond = append(errs, badEnv("MESH_RATE", v, err)), n
		c.SetBy("rate_limit.per_second", "MESH_RATE")
	}
	if v := a.getenv("MESH_MODEL_PROBE"); v != "" {
		on, err := strconv.ParseBool(v)
		errs, c.ModelProbe = append(errs, badEnv("MESH_MODEL_PROBE", v, err)), &on
		c.SetBy("model_probe", "MESH_MODEL_PROBE")
	}
	if v := a.getenv("MESH_BURST"); v != "" {
		n, err := strconv.Atoi(v)
		errs, c.RateLimit.Burst = append(errs, badEnv("MESH_BURST", v, err)), n
		c.SetBy("rate_limit.burst", "MESH_BURST")
	}
	if v := a.getenv("MESH_GRACE"); v != "" {
		d, err := time.ParseDuration(v)
		errs, c.Grace = append(errs, badEnv("MESH_GRACE", v, err)), d
		c.SetBy("grace", "MESH_GRACE")
	}
	return errors.Join(errs...)
}

func badEnv(name, value string, err error) error {
	if err == nil {
		return nil
	}
	return mesh.InvalidField("mesh.up", name, "is %q; see 'mesh up --help' for what it should be", value)
}

// logger writes the operator's log to stderr.
func (a *app) logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, mesh.InvalidField("mesh.up", "log_level", "must be debug, info, warn or error, and is %q", level)
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: l})), nil
}

// nodeOptions are what a node gets beside its configuration.
func nodeOptions(cfg *node.Config, c *crew, logger *slog.Logger) node.Options {
	opts := node.Options{Builtins: c.builtins(), Skills: []fs.FS{skills.FS}, Handlers: installed(), Logger: logger, Backend: datafolder.Opener(logger), Holders: c.kit.holders(),
		Sources: []func(context.Context, *skill.Library) error{func(ctx context.Context, l *skill.Library) error { return c.kit.servers.Run(ctx, l) }}}
	if m := memoryLimit(); m < math.MaxInt64 {
		opts.Memory = m
	}
	info, _ := debug.ReadBuildInfo()
	opts.Version = versionOf(info)
	if info, err := os.Stat(cfg.Skills); err == nil && info.IsDir() {
		opts.SkillsDir = cfg.Skills
	}
	return opts
}

// runNode runs the mesh until Ctrl-C or SIGTERM.
func (a *app) runNode(ctx context.Context, cfg node.Config) (err error) {
	logger, err := a.logger(cfg.LogLevel)
	if err != nil {
		return err
	}
	c, err := newCrew(cfg, a.now, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	opts := nodeOptions(&cfg, c, logger)
	opts.Now, opts.Ready = a.now, func(at node.Addresses) { a.greet(cfg, c, at, logger) }
	defer keepHeap(int64(cfg.HeapFloor) << 20)()
	ctx, stop := a.untilInterrupt(ctx, "Stopping; running turns have "+cfg.Grace.String()+" to finish. Press Ctrl-C again to end at once.")
	defer stop()
	return node.Run(ctx, cfg, opts)
}

// untilInterrupt returns a context that ends with the first Ctrl-C, which is
// answered with words; the next one ends the process. stop waits for the
// goroutine that listens.
func (a *app) untilInterrupt(ctx context.Context, words string) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // stop waits
		defer close(done)
		select {
		case <-a.interrupts:
			a.uninstall()
			_, _ = fmt.Fprintln(a.stderr, words)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-done }
}

// greet says that the mesh is up, and what to do with it.
func (a *app) greet(cfg node.Config, c *crew, at node.Addresses, logger *slog.Logger) {
	model := "offline planner (for a language model: 'mesh init', or MESH_LLM_URL, MESH_LLM_KEY and MESH_LLM_MODEL)"
	if end := c.endpoint(); !c.offline() {
		model = strings.TrimSpace(orText(cfg.Defaults.Model, end.Name) + " at " + mesh.PublicURL(end.URL))
	}
	var b strings.Builder
	addr, web := "", "http://"
	if at.GRPC != defaultAddr {
		addr = " --addr " + at.GRPC
	}
	if cfg.TLS.On() {
		addr, web = " --addr "+mesh.SecureScheme+at.GRPC, "https://"
	}
	fmt.Fprintf(&b, "mesh is up\n  gRPC    %s\n  HTTP    %s%s\n  data    %s\n  model   %s\n  agents  %s\n",
		at.GRPC, web, at.HTTP, cfg.Data, model, strings.Join(c.names(), ", "))
	for _, l := range c.Left {
		if slices.Contains(c.asked(), l.Name) {
			fmt.Fprintf(&b, "  note    %s is not offered: %s\n", l.Name, l.Why)
		}
	}
	if at.MainAway {
		fmt.Fprintf(&b, "  note    there is no agent %s, which is to answer new conversations (main): they fail until one registers by that name\n", cfg.Main)
	}
	if at.Interrupted > 0 {
		fmt.Fprintf(&b, "  note    %d turns were interrupted when the mesh last ended; they are marked FAILED\n", at.Interrupted)
	}
	if left := strings.Join(unclaimed(&cfg, at.SharedTasks), ", "); left != "" {
		logger.Warn("data that all users of a tenant shared is not shown to anybody: give it to a user with 'mesh data chown shared USER', or share it by shared_data", "domains", left)
		fmt.Fprintf(&b, "  note    what all users shared is kept, and shown to nobody: %s; see 'mesh data chown --help' and shared_data\n", left)
	}
	for _, p := range at.Problems {
		fmt.Fprintf(&b, "  skill   not loaded: %s\n", problemLine(&meshv1.SkillProblem{Path: p.Path, Line: int32(p.Line), Detail: p.Detail})) // #nosec G115 -- a line of a file of at most 256 KiB
	}
	if at.CA != "" {
		fmt.Fprintf(&b, "  CA      %s, which clients need: --ca, or MESH_CA\n", at.CA)
		addr += " --ca " + at.CA
	}
	fmt.Fprintf(&b, "Talk to it in another terminal: mesh chat%s\nCtrl-C stops it.\n", addr)
	_, _ = fmt.Fprint(a.stdout, b.String())
}
