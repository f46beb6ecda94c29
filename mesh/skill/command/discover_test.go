package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
)

const (
	createBody = "# Create a task\n\n## Usage\n\n    tasks.create --title <text>"
	searchBody = "# Search tasks\n\nFinds them."
	sendBody   = "# Send mail\n\nSends."
	tasksBody  = "# Tasks\n\n| skill |\n|---|\n| tasks.create |"
)

// catalog reads a small folder of skills.
func catalog(t *testing.T) command.Catalog {
	t.Helper()
	file := func(front, body string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("---\n" + front + "---\n\n" + body + "\n")}
	}
	c, problems := skill.Load(fstest.MapFS{
		"tasks/SKILL.md": file("domain: tasks\ndescription: The to-do list\n", tasksBody),
		"tasks/create.md": file("name: tasks.create\ndescription: Create a task\nhandler: x\ntags: [todo]\nparameters:\n"+
			"  - {name: title, type: string, required: true, description: What is to be done}\n", createBody),
		"tasks/search.md": file("name: tasks.search\ndescription: Find tasks\nhandler: x\n", searchBody),
		"email/send.md":   file("name: email.send\ndescription: Send mail to people\nhandler: x\n", sendBody),
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return command.Local(c)
}

// ask runs a line that asks for help.
func ask(t *testing.T, c command.Catalog, line string) *skill.Result {
	t.Helper()
	cmd, err := command.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	if !cmd.Discovery() {
		t.Fatalf("%s is no question", line)
	}
	return command.Help(t.Context(), c, cmd)
}

// S3-007, S3-009, S3-123: help. S3-016, S3-096: a search. S3-017, S3-088,
// S3-094: what can be done, without a schema. S3-095: a domain. S3-018: the
// count. S3-157: the file is the help.
func TestHelp_answersInText(t *testing.T) {
	const summary = "- email (1 skills): Send mail to people\n- tasks (2 skills): The to-do list\n\n" +
		"Call get_skill with a domain to see its skills and their parameters."
	const tasks = tasksBody + "\n\nAlso in tasks:\n- tasks.search: Find tasks"
	c := catalog(t)
	for line, want := range map[string]struct {
		text  string
		count int
	}{
		"get_skill":               {summary, 3},
		"get_skill --help":        {summary, 3},
		"get_skill tasks":         {tasks, 2},
		"get_skill: tasks":        {tasks, 2},
		"tasks --help":            {tasks, 2},
		"get_skill email":         {"Skills of email:\n- email.send: Send mail to people", 1},
		"get_skill tasks.create":  {createBody, 1},
		"tasks.create --help":     {createBody, 1},
		"tasks.create --x --help": {createBody, 1},
		"get_skill tasks.all":     {createBody + "\n\n---\n\n" + searchBody, 2},
		"get_skill --search TODO": {"- tasks.create: Create a task\n\nWrite \"<skill> --help\" to see how one is called.", 1},
		"get_skill tasks --search mail find": {
			"- tasks.search: Find tasks\n\nWrite \"<skill> --help\" to see how one is called.", 1,
		},
		"get_skill --search zebra": {
			"No skills match `zebra`. Try other words, or call get_skill without arguments for the list of domains.", 0,
		},
	} {
		r := ask(t, c, line)
		if r.Content != want.text || r.Failed() || r.Metadata[command.SkillCount] != want.count {
			t.Errorf("%s is answered by %+v\nwant %d\n%s", line, r, want.count, want.text)
		}
	}
}

// S3-019, S3-097: an unknown domain or skill.
func TestHelp_saysWhatThereIsInsteadOfTheUnknown(t *testing.T) {
	c := catalog(t)
	for line, want := range map[string]string{
		"get_skill task":         "Unknown domain 'task'. Did you mean 'tasks'? Domains: email, tasks.",
		"zebra --help":           "Unknown domain 'zebra'. Domains: email, tasks.",
		"get_skill zebra.all":    "Unknown domain 'zebra'. Domains: email, tasks.",
		"tasks.make --help":      "Unknown skill 'tasks.make'. Did you mean 'tasks.create'? Skills of tasks: tasks.create, tasks.search.",
		"mail.send --help":       "Unknown skill 'mail.send'. Did you mean 'email.send'? There is no domain 'mail'. Domains: email, tasks.",
		"get_skill qqq.zzz":      "Unknown skill 'qqq.zzz'. There is no domain 'qqq'. Domains: email, tasks.",
		"get_skill ../etc":       "Unknown skill '../etc'. There is no domain ''. Domains: email, tasks.",
		"get_skill \"[System:\"": "Unknown domain '[System:'. Domains: email, tasks.",
	} {
		r := ask(t, c, line)
		if r.Content != want || !r.Failed() || r.Metadata[command.SkillCount] != 0 {
			t.Errorf("%s is answered by %+v\nwant %s", line, r, want)
		}
	}
	if got := command.Discover(t.Context(), c, command.Query{Domain: "tsks"}); !got.Failed() || !strings.Contains(got.Content, "Did you mean 'tasks'?") {
		t.Errorf("the JSON tool answers %+v", got)
	}
}

// S3-012: domain and search, neither needed. S3-015, S3-095: a domain's skills
// with their schemas. S3-016, S3-096: a search. S3-018: the count.
func TestDiscover_answersWithSchemas(t *testing.T) {
	const create = `{"name":"tasks.create","description":"Create a task","parameters":{"type":"object","properties":{` +
		`"title":{"type":"string","description":"What is to be done"}},"required":["title"],"additionalProperties":false},"access":"write","tags":["todo"]}`
	const search = `{"name":"tasks.search","description":"Find tasks","parameters":{"type":"object","properties":{},"additionalProperties":false},"access":"read"}`
	c := catalog(t)
	for _, tt := range []struct {
		query command.Query
		want  string
		count int
	}{
		{command.Query{Domain: "tasks"}, `{"domain":"tasks","skills":[` + create + `,` + search + `]}`, 2},
		{command.Query{Domain: "tasks.all"}, `{"domain":"tasks","skills":[` + create + `,` + search + `]}`, 2},
		{command.Query{Domain: "tasks.create"}, `{"domain":"tasks","skills":[` + create + `]}`, 1},
		{command.Query{Search: "find"}, `{"search":"find","skills":[` + search + `]}`, 1},
		{command.Query{Domain: "tasks", Search: "mail create"}, `{"domain":"tasks","search":"mail create","skills":[` + create + `]}`, 1},
	} {
		r := command.Discover(t.Context(), c, tt.query)
		if diff := cmp.Diff(tt.want, r.Content); diff != "" || r.Failed() || r.Metadata[command.SkillCount] != tt.count {
			t.Errorf("%+v (-want +got):\n%s%+v", tt.query, diff, r.Metadata)
		}
	}
	// S3-017, S3-094: without arguments no schema, but the domains.
	r := command.Discover(t.Context(), c, command.Query{})
	if !strings.HasPrefix(r.Content, "- email (1 skills): ") || strings.Contains(r.Content, "title") || r.Metadata[command.SkillCount] != 3 {
		t.Errorf("without arguments: %+v", r)
	}
}

// S3-012: nothing is required. S3-013, S3-098: the domains that there are.
// S3-014: the model must ask before it calls what it does not know.
func TestDefinition_namesTheDomainsThatThereAre(t *testing.T) {
	domains, err := catalog(t).Domains(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	description, parameters := command.Definition(domains)
	if !strings.Contains(description, "You MUST call get_skill before use_skill") {
		t.Errorf("the description does not oblige: %s", description)
	}
	var schema struct {
		Properties map[string]struct{ Enum []string }
		Required   []string
	}
	if err := json.Unmarshal(parameters, &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"email", "tasks"}, schema.Properties["domain"].Enum); diff != "" {
		t.Error(diff)
	}
	if _, ok := schema.Properties["search"]; !ok || len(schema.Required) > 0 {
		t.Errorf("%s", parameters)
	}
	if _, none := command.Definition(nil); !json.Valid(none) || strings.Contains(string(none), "enum") {
		t.Errorf("without domains: %s", none)
	}
}

// S3-007: what a model is told before it asks, and what it may get at once, do
// not grow with the number of skills.
func TestDiscovery_isBounded(t *testing.T) {
	var c skill.Catalog
	summary := map[int]string{}
	for n := range 3000 {
		name := fmt.Sprintf("many.s%d", n)
		c.Put(&skill.Skill{Name: name, Domain: "many", Action: name[5:], Description: "Does", Body: strings.Repeat("x", 1000)})
		if n == 9 || n == 2999 {
			summary[n] = ask(t, command.Local(&c), "get_skill").Content
		}
	}
	if a, b := len(summary[9]), len(summary[2999]); b-a > 2 {
		t.Errorf("the summary grew from %d to %d bytes", a, b)
	}
	for line, most := range map[string]int{
		"get_skill many": 5 << 10, "get_skill many.all": 70 << 10, "get_skill --search does": 5 << 10, "many.nothing --help": 2 << 10,
	} {
		r := ask(t, command.Local(&c), line)
		if len(r.Content) > most || !strings.Contains(r.Content, " more") {
			t.Errorf("%s is answered by %d bytes: %.80s…", line, len(r.Content), r.Content)
		}
	}
	r := command.Discover(t.Context(), command.Local(&c), command.Query{Domain: "many"})
	if len(r.Content) > 32<<10 || !strings.Contains(r.Content, `"note":"2900 more skills are left out`) || r.Metadata[command.SkillCount] != 3000 {
		t.Errorf("%d bytes, %v: …%s", len(r.Content), r.Metadata, r.Content[len(r.Content)-100:])
	}
}

// broken is a catalog that cannot be reached.
type broken struct{ err error }

func (b broken) Domains(context.Context) ([]skill.Index, error)         { return nil, b.err }
func (b broken) List(context.Context, string) ([]*skill.Skill, error)   { return nil, b.err }
func (b broken) Get(context.Context, string) (*skill.Skill, error)      { return nil, b.err }
func (b broken) Search(context.Context, string) ([]*skill.Skill, error) { return nil, b.err }

func TestHelp_saysThatTheCatalogCannotBeReached(t *testing.T) {
	for err, want := range map[error]string{
		mesh.Errorf(mesh.Unavailable, "x", "the node does not answer; try again"): "Skills cannot be looked up: the node does not answer; try again",
		context.DeadlineExceeded: "Skills cannot be looked up: internal error",
	} {
		for _, line := range []string{"get_skill", "get_skill a", "a.b --help", "get_skill a.all", "get_skill --search a"} {
			if r := ask(t, broken{err}, line); r.Content != want || !r.Failed() {
				t.Errorf("%s is answered by %+v", line, r)
			}
		}
		for _, q := range []command.Query{{}, {Domain: "a"}, {Domain: "a.b"}, {Search: "a"}} {
			if r := command.Discover(t.Context(), broken{err}, q); r.Content != want || !r.Failed() {
				t.Errorf("%+v is answered by %+v", q, r)
			}
		}
	}
}
