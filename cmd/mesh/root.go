package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// defaultAddr is where 'mesh up' listens unless told otherwise.
const defaultAddr = "127.0.0.1:7420"

// rootCommand builds the tree of commands.
func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "mesh",
		Short: "Talk to a mesh of agents, and run one",
		Long: `mesh talks to a mesh of agents over gRPC. 'mesh chat' is a conversation,
'mesh send' one message; 'mesh agents', 'mesh threads' and 'mesh skills' show
what there is.

A conversation is a thread, named by a UUID v4. Everything that happens in it is
kept by the mesh: a chat can be left and gone on with, by its thread id.

Where a flag is not given, the environment is asked: MESH_ADDR, MESH_TENANT,
MESH_USER, MESH_TOKEN, MESH_CA, MESH_CERT, MESH_KEY. Without a token and a certificate,
that of 'mesh login' is shown to the mesh that it is for.`,
		Example: `  mesh chat
  mesh send "How do I configure rate limiting?"
  mesh threads list --addr 10.0.0.7:7420`,
		Args: noCommand,
		RunE: showHelp,
		// Usage errors are told in one line, by execute.
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(flagError)
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&a.flags.addr, "addr", a.env("MESH_ADDR", defaultAddr), "gRPC `address` of the mesh; grpcs://host:port for TLS (MESH_ADDR)")
	flags.StringVar(&a.flags.tenant, "tenant", a.env("MESH_TENANT", ""), "tenant to act for (MESH_TENANT)")
	flags.StringVar(&a.flags.user, "user", a.env("MESH_USER", ""), "user to act as (MESH_USER)")
	flags.StringVar(&a.flags.thread, "thread", "", "`id` of the thread, a UUID v4")
	// The variable's value is not the flag's default: help would print it.
	flags.StringVar(&a.flags.token, "token", "", "bearer token; MESH_TOKEN is better, other users can see flags")
	flags.StringVar(&a.flags.ca, "ca", a.env("MESH_CA", ""), "PEM `file` of who issued the mesh's certificate, which is called over TLS then (MESH_CA)")
	flags.StringVar(&a.flags.cert, "cert", a.env("MESH_CERT", ""), "PEM `file` of a certificate to show the mesh (MESH_CERT)")
	flags.StringVar(&a.flags.key, "key", a.env("MESH_KEY", ""), "PEM `file` of its key (MESH_KEY)")
	flags.BoolVar(&a.flags.plaintext, "plaintext-token", false, "let the token travel unencrypted beyond this machine")
	flags.DurationVar(&a.flags.timeout, "timeout", 0,
		"longest `time` that the command may take; in a chat, each turn, and in a test, each message (default 30s for look-ups, none for streams)")
	a.offerFlag(root, "thread", threadNames)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := ownMesh(cmd); err != nil {
			return err
		}
		return a.checkGlobals()
	}
	root.AddCommand(
		a.initCommand(),
		a.upCommand(),
		a.demoCommand(),
		a.agentCommand(),
		a.chatCommand(),
		a.sendCommand(),
		a.agentsCommand(),
		a.threadsCommand(),
		a.tasksCommand(),
		a.skillsCommand(),
		a.mcpCommand(),
		a.loginCommand(),
		a.logoutCommand(),
		a.tokenCommand(),
		a.dataCommand(),
		a.configCommand(),
		a.policyCommand(),
		a.auditCommand(),
		a.usersCommand(),
		a.tenantsCommand(),
		a.statusCommand(),
		a.usageCommand(),
		a.doctorCommand(),
		a.protosCommand(),
		a.versionCommand(),
		a.manCommand(root),
		a.readPDFCommand(),
		exitCodesTopic(),
	)
	return root
}

// startsMesh marks commands that start a mesh, and call none.
const startsMesh = "starts-mesh"

// ownMesh refuses flags of a call where the command starts a mesh: whoever gives --addr
// means where that listens, and would not be told that it is another address.
func ownMesh(cmd *cobra.Command) (err error) {
	if cmd.Annotations[startsMesh] == "" {
		return nil
	}
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && err == nil {
			err = fmt.Errorf("--%s is for calls to a mesh, and '%s' starts one, which has flags of its own", f.Name, cmd.CommandPath())
		}
	})
	return err
}

// checkGlobals completes the flags of all commands and refuses malformed ones.
func (a *app) checkGlobals() error {
	if a.flags.token == "" {
		a.flags.token = a.getenv("MESH_TOKEN")
	}
	if a.flags.timeout < 0 {
		return fmt.Errorf("--timeout must not be negative, and is %v", a.flags.timeout)
	}
	if a.flags.tenant != "" {
		if err := mesh.TenantID(a.flags.tenant).Validate(); err != nil {
			return fmt.Errorf("--tenant %s", mesh.DetailOf(err))
		}
	}
	if a.flags.user != "" {
		if err := rpc.CheckUser(a.flags.user); err != nil {
			return fmt.Errorf("--user %s", mesh.DetailOf(err))
		}
	}
	if a.flags.thread != "" {
		id, err := parseThread("--thread", a.flags.thread)
		if err != nil {
			return err
		}
		a.flags.thread = id
	}
	return nil
}

// parseThread checks a thread id of the command line, and names where it stood.
func parseThread(where, s string) (string, error) {
	id, err := mesh.ParseThreadID(s)
	if err != nil {
		return "", fmt.Errorf("%s %s", where, mesh.DetailOf(err))
	}
	return id, nil
}

func (a *app) env(name, otherwise string) string {
	if v := a.getenv(name); v != "" {
		return v
	}
	return otherwise
}

// group returns a command that only holds others.
func group(use, short, example string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Example: example, Args: noCommand, RunE: showHelp, SuggestionsMinimumDistance: 2}
	g.AddCommand(commands...)
	return g
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// noCommand refuses what is left when no command of a group has the name.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		slices.Sort(near)
		names = near
	}
	return fmt.Errorf("there is no command %q; try %s", args[0], strings.Join(names, ", "))
}

// exactly refuses other than one argument, and says what it should have been.
func exactly(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s is missing", what)
		case len(args) > 1:
			return fmt.Errorf("%s is one argument, and there are %d", what, len(args))
		}
		return nil
	}
}

// exitCodesTopic is a page of help without a command.
func exitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit codes of mesh:\n\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&b, "  %3d  %s\n", c.code, c.meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: strings.TrimRight(b.String(), "\n")}
}
