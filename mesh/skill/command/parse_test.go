package command_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentmesh/mesh"
	"agentmesh/mesh/skill/command"
)

type flags = map[string]any

// S3-123: the parser. S3-009, S3-085, S3-089: the commands of the patterns and
// of the quick reference are read as they are meant.
func TestParse_readsCommands(t *testing.T) {
	for line, want := range map[string]*command.Command{
		`tasks.list`: {Skill: "tasks.list"},
		// Quick reference.
		`tasks.create --title "Call Ann" --due 2026-12-01 --priority high`: {Skill: "tasks.create", Flags: flags{"title": "Call Ann", "due": "2026-12-01", "priority": "high"}},
		`tasks.search --status todo,blocked --limit 5`:                     {Skill: "tasks.search", Flags: flags{"status": "todo,blocked", "limit": "5"}},
		`tasks.get --task_ids t-1,t-2`:                                     {Skill: "tasks.get", Flags: flags{"task_ids": "t-1,t-2"}},
		`tasks.get --recent true --limit 3`:                                {Skill: "tasks.get", Flags: flags{"recent": "true", "limit": "3"}},
		`email.send --to bob@example.com --subject 'The report' --body ""`: {Skill: "email.send", Flags: flags{"to": "bob@example.com", "subject": "The report", "body": ""}},
		`email.search --query "from:ann is:unread"`:                        {Skill: "email.search", Flags: flags{"query": "from:ann is:unread"}},
		`calendar.create --title Review --start 2026-12-01T14:00`:          {Skill: "calendar.create", Flags: flags{"title": "Review", "start": "2026-12-01T14:00"}},
		`memory.save --content "likes tea" --tags drink habit`:             {Skill: "memory.save", Flags: flags{"content": "likes tea", "tags": []string{"drink", "habit"}}},
		`memory.search --query tea`:                                        {Skill: "memory.search", Flags: flags{"query": "tea"}},
		// Flags.
		`a.b --x=1 --y=a=b --z= --q="c d"`: {Skill: "a.b", Flags: flags{"x": "1", "y": "a=b", "z": "", "q": "c d"}},
		`a.b --x --y 1 --z`:                {Skill: "a.b", Flags: flags{"x": true, "y": "1", "z": true}},
		`a.b --x 1 2 3 --y`:                {Skill: "a.b", Flags: flags{"x": []string{"1", "2", "3"}, "y": true}},
		`a.b --x 1 2 --x 3`:                {Skill: "a.b", Flags: flags{"x": "3"}},
		`a.b --due-date 1 --due_date 2`:    {Skill: "a.b", Flags: flags{"due_date": "2"}},
		`a.b --x -5 --camelCase v`:         {Skill: "a.b", Flags: flags{"x": "-5", "camelCase": "v"}},
		`a.b --x "--help" '--y'`:           {Skill: "a.b", Flags: flags{"x": []string{"--help", "--y"}}},
		`a.b c --x=1 d`:                    {Skill: "a.b", Flags: flags{"x": "1"}, Stray: []string{"c", "d"}},
		// Words.
		"a.b\t--x\t 1 ":                           {Skill: "a.b", Flags: flags{"x": "1"}},
		`a.b --x a"b c"d 'e'"f"`:                  {Skill: "a.b", Flags: flags{"x": []string{"ab cd", "ef"}}},
		`a.b --x "it's" 'say "hi"' "it's "'"so"'`: {Skill: "a.b", Flags: flags{"x": []string{"it's", `say "hi"`, `it's "so"`}}},
		`a.b --x don't --y the users' café's`:     {Skill: "a.b", Flags: flags{"x": "don't", "y": []string{"the", "users'", "café's"}}},
		`a.b --x "" --y a "" b ""`:                {Skill: "a.b", Flags: flags{"x": "", "y": []string{"a", "b"}}},
		`a.b --x $5 & more #3 * C:\dir $(x) ~ !`:  {Skill: "a.b", Flags: flags{"x": []string{"$5", "&", "more", "#3", "*", `C:\dir`, "$(x)", "~", "!"}}},
		`a.b --x "a | b" 'c;' d;e ">"`:            {Skill: "a.b", Flags: flags{"x": []string{"a | b", "c;", "d;e", ">"}}},
		"a.b --x \"one\n\n two\" --y='3\n4'":      {Skill: "a.b", Flags: flags{"x": "one\n\n two", "y": "3\n4"}},
		"a.b --x \"one\r\ntwo\"\r\n":              {Skill: "a.b", Flags: flags{"x": "one\ntwo"}},
		`"" a.b`:                                  {Skill: "a.b"},
		`"a.b" --x 1`:                             {Skill: "a.b", Flags: flags{"x": "1"}},
		`a.b: --x 1`:                              {Skill: "a.b", Flags: flags{"x": "1"}},
		// Questions.
		`tasks.search --help`:            {Skill: "tasks.search", Help: true},
		`tasks.search --status x --help`: {Skill: "tasks.search", Flags: flags{"status": "x"}, Help: true},
		`email --help`:                   {Domain: "email", Help: true},
		`get_skill`:                      {Skill: "get_skill"},
		`get_skill --help`:               {Skill: "get_skill", Help: true},
		`get_skill tasks`:                {Skill: "get_skill", Get: "tasks"},
		`get_skill: tasks.create`:        {Skill: "get_skill", Get: "tasks.create"},
		`get_skill:tasks.all`:            {Skill: "get_skill", Get: "tasks.all"},
		`get_skill --domain tasks`:       {Skill: "get_skill", Get: "tasks", Flags: flags{"domain": "tasks"}},
		`get_skill --search send mail`:   {Skill: "get_skill", Flags: flags{"search": []string{"send", "mail"}}},
	} {
		got, err := command.Parse(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if want.Skill != command.GetSkill && want.Skill != "" {
			want.Domain, want.Action, _ = strings.Cut(want.Skill, ".")
		}
		want.Raw = strings.TrimSpace(strings.ReplaceAll(line, "\r\n", "\n"))
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

// S3-009: help is recognised before anything is executed.
func TestParse_knowsQuestionsFromCalls(t *testing.T) {
	for line, want := range map[string]bool{
		"tasks.search --help": true, "email --help": true, "get_skill": true, "get_skill tasks": true,
		"tasks.search --x 1 --help": true, "tasks.search": false, `tasks.search --x "--help"`: false,
	} {
		c, err := command.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if c.Discovery() != want {
			t.Errorf("%s: asks for help: %v, want %v", line, c.Discovery(), want)
		}
	}
}

// S3-087: from an error a model can correct itself. S3-155: there are no pipes.
func TestParse_saysWhatIsWrong(t *testing.T) {
	for line, want := range map[string]struct{ kind, says string }{
		"":                                  {command.KindEmpty, "There is no command"},
		" \t":                               {command.KindEmpty, "There is no command"},
		`""`:                                {command.KindEmpty, "There is no command"},
		`a.b --x "y`:                        {command.KindTokenize, "In `a.b --x \"y`: the double quote (\") before `y` is opened and never closed"},
		`a.b --x 'y z`:                      {command.KindTokenize, "the single quote (') before `y z` is opened and never closed"},
		"a.b --x \"y\nc.d --z \"1\"":        {command.KindTokenize, "before `y…` is closed only in a later line, in the middle of a word"},
		"a.b\nc.d":                          {command.KindFormat, "one command per line"},
		"a.b --x 1 | c.d":                   {command.KindFormat, "`|` is not allowed: one command per line; pipes are not supported"},
		"a.b && c.d":                        {command.KindFormat, "`&&` is not allowed"},
		"a.b ; c.d":                         {command.KindFormat, "put the value into quotes"},
		"a.b --x 1 > file":                  {command.KindFormat, "`>` is not allowed"},
		"> a.b":                             {command.KindFormat, "`>` is not allowed"},
		"a.b --":                            {command.KindFormat, "`--` is not a flag"},
		"a.b --x 1 --- 2":                   {command.KindFormat, "`---` is not a flag"},
		"a.b --=1":                          {command.KindFormat, "after -- comes its name, as in --title"},
		"a.b --x;":                          {command.KindFormat, "`--x;` is not a flag"},
		"tasks":                             {command.KindFormat, "\"tasks --help\" lists its skills"},
		"--help":                            {command.KindFormat, "is not a skill's name"},
		"Tasks.Create --title x":            {command.KindFormat, "`Tasks.Create` is not a skill's name. A command begins with <domain>.<action> in lower case"},
		"$ tasks.get":                       {command.KindFormat, "nothing stands before it"},
		"# a comment":                       {command.KindFormat, "`#` is not a skill's name"},
		"tasks.create(title=x)":             {command.KindFormat, "is not a skill's name"},
		"../etc.passwd":                     {command.KindFormat, "is not a skill's name"},
		"a.b.c":                             {command.KindFormat, "is not a skill's name"},
		"```cmd":                            {command.KindFormat, "a block cannot stand within a block"},
		strings.Repeat("x", 1000) + " \x00": {command.KindFormat, "xxx…"},
	} {
		_, err := command.Parse(line)
		var bad *command.Error
		if !errors.As(err, &bad) {
			t.Errorf("%q gives %v", line, err)
			continue
		}
		if bad.Kind != want.kind || !strings.Contains(bad.Detail, want.says) {
			t.Errorf("%q: %v\nwant %s: %s", line, bad, want.kind, want.says)
		}
		if !strings.Contains(bad.Detail, `tasks.create --title "Call Ann" --tags customer call`) || len(bad.Detail) > 500 {
			t.Errorf("%q: no example, or too long: %s", line, bad.Detail)
		}
		if !mesh.IsCode(err, mesh.Invalid) || mesh.DetailOf(err) != bad.Detail {
			t.Errorf("%q: for the mesh it is %v, %q", line, mesh.CodeOf(err), mesh.DetailOf(err))
		}
	}
}

func TestCommand_Note_tellsOfWordsWithoutEffect(t *testing.T) {
	for line, want := range map[string]string{
		"a.b --x 1":           "",
		"a.b overdue":         "Note: `overdue` had no effect",
		"a.b --title=Fix the": "Note: `the` had no effect",
	} {
		c, err := command.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Note(); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// A line of megabytes, which a model gone wrong may write, is read in a time that
// grows as it does: looking for the line's end at each of its quotes takes minutes.
func TestALongLineIsReadInLinearTime(t *testing.T) {
	t.Parallel()
	const size = 2 << 20
	for _, unit := range []string{`"c"d`, ` "c"`} {
		if _, err := command.Parse("a.b --x a" + strings.Repeat(unit, size/len(unit))); err != nil {
			t.Errorf("%q: %v", unit, err)
		}
	}
}
