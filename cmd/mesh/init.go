package main

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentmesh/mesh"
	"agentmesh/mesh/llm/openai"
	"agentmesh/mesh/llm/probe"
	"agentmesh/mesh/node"
)

const (
	// keyVariable is where a mesh looks for the key of its model.
	keyVariable = "MESH_LLM_KEY"
	// localTime bounds the search for endpoints on this machine.
	localTime = 2 * time.Second
	// shownModels is how many models are listed to choose from.
	shownModels = 20
)

// A setup is a mesh.yaml in the making.
type setup struct {
	*app
	who *respondent // nil if nobody can be asked

	file, docs, model, url string
	keyEnv, keyFile        string
	key                    string // what the endpoint is asked with
	keep                   bool   // whether the key itself is in the file
	yes, offline, force    bool
	locals                 []probe.Local // where an endpoint may be on this machine
}

func (a *app) initCommand() *cobra.Command {
	s := &setup{app: a, locals: probe.Locals()}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write the settings of a new mesh, and check that its model works",
		Long: `Write a commented mesh.yaml, which only you can read, for 'mesh up' in this folder.

At a terminal you are asked for what no flag says: the endpoint of the language model, where
those that serve on this machine are proposed, its key, the model, and a folder of documents.
Elsewhere --model-url and --model are needed, or --offline for the planner that works by rules.
MESH_LLM_URL, MESH_LLM_KEY and MESH_LLM_MODEL count as flags do.

The endpoint is asked for a word and a tool before anything is written, which costs some
hundred tokens. If it does not answer as agents need it, you are told what is wrong and what
helps, and nothing is written unless you want it (--yes).

The key stays in the environment: the file names the variable. With --model-key-file, or if
you say so, it is in the file itself.`,
		Example: `  mesh init
  mesh init --model-url http://127.0.0.1:11434/v1 --model llama3.2
  mesh init --model-url https://api.openai.com/v1 --model gpt-4.1-mini --model-key-env OPENAI_API_KEY
  mesh init --offline --docs handbook`,
		Args: nothing,
	}
	f := cmd.Flags()
	f.StringVar(&s.file, "config", defaultConfig, "`file` to write")
	f.StringVar(&s.url, "model-url", "", "`URL` of an OpenAI-compatible endpoint, up to and with its version (MESH_LLM_URL)")
	f.StringVar(&s.model, "model", "", "`name` of the model (MESH_LLM_MODEL)")
	f.StringVar(&s.keyEnv, "model-key-env", "", "`variable` that has the key, which the file names (default MESH_LLM_KEY, if it is set)")
	f.StringVar(&s.keyFile, "model-key-file", "", "`file` that has the key, which is copied into the settings")
	f.StringVar(&s.docs, "docs", "", "`folder` of documents to answer from")
	f.BoolVar(&s.offline, "offline", false, "use no language model")
	f.BoolVar(&s.yes, "yes", false, "ask nothing, and write also if the endpoint does not work")
	f.BoolVar(&s.force, "force", false, "write a file that is there anew")
	cmd.MarkFlagsMutuallyExclusive("model-key-env", "model-key-file")
	cmd.MarkFlagsMutuallyExclusive("offline", "model-url")
	cmd.RunE = a.action(func(ctx context.Context, _ []string) error {
		ctx, cancel := a.limited(ctx)
		defer cancel()
		return s.run(ctx)
	})
	return cmd
}

// run asks, probes and writes.
func (s *setup) run(ctx context.Context) error {
	if _, err := os.Lstat(s.file); err == nil && !s.force {
		return mesh.Errorf(mesh.Precondition, "mesh.init", "%s is there already; look at it with 'mesh config show', or write it anew with --force", s.file)
	}
	if !s.yes {
		s.who = s.respondent()
	}
	if err := s.given(); err != nil {
		return err
	}
	key, keep := s.key, s.keep // as flags and the environment say
	for !s.offline {
		if err := s.askModel(ctx); err != nil {
			return err
		}
		if s.offline {
			break
		}
		again, err := s.check(ctx)
		if err != nil {
			return err
		}
		if !again {
			break
		}
		s.url, s.model, s.key, s.keep = "", "", key, keep
	}
	if err := s.askDocs(); err != nil {
		return err
	}
	if err := s.write(); err != nil {
		return err
	}
	return s.next()
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// given takes in what flags and the environment say, and says what is missing where nobody
// can be asked.
func (s *setup) given() error {
	const op = "mesh.init"
	if s.offline {
		return s.checkDocs()
	}
	s.url, s.model = orText(s.url, s.getenv("MESH_LLM_URL")), orText(s.model, s.getenv("MESH_LLM_MODEL"))
	named := s.keyEnv != ""
	s.keyEnv = orText(s.keyEnv, keyVariable)
	switch s.key = s.getenv(s.keyEnv); {
	case s.keyFile != "":
		data, err := os.ReadFile(s.keyFile)
		if err != nil {
			return mesh.InvalidField(op, "--model-key-file", "cannot be read: %v", err)
		}
		if s.key, s.keep = strings.TrimSpace(string(data)), true; s.key == "" {
			return mesh.InvalidField(op, "--model-key-file", "is empty; put the key into it")
		}
	case !variable.MatchString(s.keyEnv):
		return mesh.InvalidField(op, "--model-key-env", "must be the name of a variable such as %s; keys are not given on the command line, where others see them", keyVariable)
	case named && s.key == "":
		return mesh.InvalidField(op, "--model-key-env", "names %s, which is not set; set it first, as the mesh will need it", s.keyEnv)
	}
	if s.who == nil {
		var missing []string
		for _, f := range []struct{ flag, value string }{{"--model-url", s.url}, {"--model", s.model}} {
			if f.value == "" {
				missing = append(missing, f.flag)
			}
		}
		if len(missing) > 0 {
			return mesh.InvalidField(op, strings.Join(missing, ", "), "cannot be asked for here, and must be given; or use --offline for a mesh without a language model")
		}
	}
	return s.checkDocs()
}

// checkDocs refuses a folder that a mesh would refuse.
func (s *setup) checkDocs() error {
	if s.docs == "" {
		return nil
	}
	dir, err := filepath.Abs(s.docs)
	if err != nil {
		return mesh.InvalidField("mesh.init", "--docs", "cannot be found: %v", err)
	}
	cfg := node.Config{Docs: dir}
	cfg.SetBy("docs", "--docs")
	if wrong := missingFolders(&cfg); len(wrong) > 0 {
		return wrong[0]
	}
	return nil
}

// askModel asks for what is not known of the model. No URL is no model.
func (s *setup) askModel(ctx context.Context) (err error) {
	if s.url == "" {
		if err := s.askURL(ctx); err != nil || s.url == "" {
			s.offline = s.url == ""
			return err
		}
	}
	if s.who == nil || s.model != "" && (s.key != "" || local(s.url)) {
		return nil
	}
	r, err := s.models(ctx)
	if err != nil {
		return err
	}
	failed := r.Failed()
	if s.key == "" && failed != nil && (failed.Code == probe.KeyMissing || failed.Code == probe.ModelMissing && !local(s.url)) {
		if err := s.askKey(); err != nil {
			return err
		}
		if r, err = s.models(ctx); err != nil {
			return err
		}
		failed = r.Failed()
	}
	if s.model != "" || failed == nil || failed.Code != probe.ModelMissing && failed.Code != probe.KeyMissing {
		return nil // the check says what is wrong
	}
	return s.askName(r.Models)
}

// models looks which models there are, and how far a request comes.
func (s *setup) models(ctx context.Context) (*probe.Report, error) {
	r := probe.Endpoint(ctx, openai.Config{BaseURL: s.url, Key: s.key, Settings: s.settings()}, 0)
	return r, ctx.Err()
}

// local reports whether the URL is one of this machine, where endpoints want no key.
func local(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
}

// askURL asks for the endpoint, and proposes those of this machine.
func (s *setup) askURL(ctx context.Context) (err error) {
	s.printf("The language model is reached at an OpenAI-compatible endpoint.\n")
	usual := ""
	for _, l := range probe.Find(ctx, s.locals, localTime) {
		s.printf("  %s answers at %s, with %s\n", l.Name, l.URL, counted(len(l.Models), "model"))
		usual = orText(usual, l.URL)
	}
	if usual == "" {
		s.url, err = s.who.ask("URL, as https://api.openai.com/v1 (Enter for no model): ", false)
		return err
	}
	if s.url, err = s.who.ask("URL (Enter for "+usual+", none for no model): ", false); s.url == "none" {
		s.url = ""
	} else if s.url == "" && err == nil {
		s.url = usual
	}
	return err
}

// askKey asks for the key, and where it is to be.
func (s *setup) askKey() (err error) {
	if s.key, err = s.who.ask("Key, which is not shown (Enter for none): ", true); err != nil || s.key == "" {
		return err
	}
	s.printf("A mesh takes the key from %s, unless it is in %s, which only you can read.\n", s.keyEnv, s.file)
	answer, err := s.who.choose("Write it there? [y/N] ", "ny")
	s.keep = answer == 'y'
	return err
}

// askName asks for one of the models, or another one.
func (s *setup) askName(models []string) (err error) {
	if len(models) == 0 {
		s.model, err = s.who.ask("Model: ", false)
		return err
	}
	for i, m := range models {
		if i == shownModels {
			s.printf("  and %d more\n", len(models)-i)
			break
		}
		s.printf("  %s\n", clip(m, 100))
	}
	s.model, err = s.who.ask("Model (Enter for "+clip(models[0], 100)+"): ", false)
	s.model = orText(s.model, models[0])
	return err
}

func (s *setup) settings() openai.Settings {
	if s.who != nil {
		return openai.Settings{URL: "the URL", Key: "the key", Model: "the model"}
	}
	key := s.keyEnv
	if s.keyFile != "" {
		key = "--model-key-file"
	}
	return openai.Settings{URL: "--model-url", Key: key, Model: "--model"}
}

// check probes the endpoint and says what it finds. It returns whether the person wants to
// say it all again, and an error if nothing is to be written.
func (s *setup) check(ctx context.Context) (again bool, err error) {
	s.printf("Asking %s for a word and a tool …\n", oneLine(mesh.PublicURL(s.url)))
	r := probe.Endpoint(ctx, openai.Config{BaseURL: s.url, Key: s.key, Model: s.model, Settings: s.settings()}, 0)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	d := &doctor{app: s.app}
	for _, x := range r.Results {
		switch {
		case x.Status == probe.OK:
			d.well("%s", x.Step)
		case x.Status == probe.Failed:
			d.wrong(x.Remedy, "%s: %s", x.Step, x.Detail)
		case x.Code != probe.NotReached:
			d.note("%s: %s", x.Step, x)
		}
	}
	if r.Failed() == nil || s.yes {
		return false, nil
	}
	if s.who == nil {
		return false, mesh.Errorf(mesh.Precondition, "mesh.init", "nothing was written, for the endpoint does not work; correct what is said of it, or write anyway with --yes")
	}
	switch answer, err := s.who.choose("Say it again, write it anyway, or leave (a/w/l)? [a] ", "awl"); {
	case err != nil:
		return false, err
	case answer == 'l':
		return false, errInterrupted
	case answer == 'w' && s.model == "":
		return false, s.askName(nil)
	default:
		return answer == 'a', nil
	}
}

// askDocs asks for the folder of documents, until there is one.
func (s *setup) askDocs() (err error) {
	for s.who != nil && s.docs == "" {
		if s.docs, err = s.who.ask("Folder of documents to answer from (Enter for those about the mesh): ", false); err != nil || s.docs == "" {
			return err
		}
		if err := s.checkDocs(); err != nil {
			s.printf("%s\n", what(err))
			s.docs = ""
		}
	}
	return nil
}

// next checks the file as 'mesh config check' does, and says what comes next.
func (s *setup) next() error {
	s.printf("%s is written.\n", s.file)
	needsKey := s.key != "" && !s.keep && s.getenv(s.keyEnv) == ""
	if !needsKey {
		_, problems := node.Problems(s.file, func(cfg *node.Config) []error {
			if err := s.fromEnv(cfg); err != nil {
				return []error{err}
			}
			_, problems := s.planned(*cfg, nil)
			return problems
		})
		if len(problems) > 0 {
			return problems[0]
		}
	}
	for _, v := range []struct{ name, value string }{{"MESH_LLM_URL", s.url}, {"MESH_LLM_MODEL", s.model}, {keyVariable, s.key}} {
		if set := s.getenv(v.name); set != "" && set != v.value {
			s.printf("· %s is set to something else, and wins over the file; unset it\n", v.name)
		}
	}
	steps := []string{"mesh up", "mesh chat       # in another terminal"}
	if s.file != defaultConfig {
		steps[0] += " --config " + s.file
	}
	if needsKey {
		steps = slices.Insert(steps, 0, "export "+s.keyEnv+"=…")
	}
	s.printf("Next:\n  %s\n", strings.Join(steps, "\n  "))
	return nil
}
