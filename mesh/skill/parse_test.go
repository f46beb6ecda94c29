package skill_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

const good = `---
name: mail.send
description: Send an email
handler: mail.send
tags: [email, "send: now"]
requires_approval: true
created: 2026-11-20
parameters:
  - name: to
    type: array
    required: true
    description: Who gets it
  - name: priority
    enum: [low, high]
    default: low
---

# Send

Sends.
`

// S3-125: the front matter names the code that runs the skill, and its flags.
func TestParse_readsEveryField(t *testing.T) {
	got, err := skill.Parse("mail/send.md", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := &skill.Skill{
		Name: "mail.send", Domain: "mail", Action: "send", Description: "Send an email", Handler: "mail.send",
		Created: "2026-11-20", RequiresApproval: true, Access: skill.AccessWrite, Tags: []string{"email", "send: now"},
		Parameters: []skill.Parameter{
			{Name: "to", Type: "array", Required: true, Description: "Who gets it"},
			{Name: "priority", Type: "string", Enum: []string{"low", "high"}, Default: "low"},
		},
		Body: "# Send\n\nSends.", Path: "mail/send.md", Source: []byte(good), Version: "115813c84c3c",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParse_readsFilesOfOtherSystems(t *testing.T) {
	for name, data := range map[string]string{
		"windows line ends": strings.ReplaceAll(good, "\n", "\r\n"),
		"byte order mark":   "\xef\xbb\xbf" + good,
		"spaces after rule": strings.ReplaceAll(good, "---\n", "--- \n"),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := skill.Parse("mail/send.md", []byte(data))
			if err != nil {
				t.Fatal(err)
			}
			if got.Body != "# Send\n\nSends." || len(got.Parameters) != 2 {
				t.Errorf("read %q with %d parameters", got.Body, len(got.Parameters))
			}
		})
	}
}

// S3-076, S3-078: name and description are enough; the domain is that of the
// folder, and the access follows the action unless the file says it.
func TestParse_derivesDomainAndAccess(t *testing.T) {
	for data, want := range map[string]string{
		"---\nname: a.search\ndescription: d\n---\nb":               skill.AccessRead,
		"---\nname: a.list\ndescription: d\n---\nb":                 skill.AccessRead,
		"---\nname: a.send\ndescription: d\n---\nb":                 skill.AccessWrite,
		"---\nname: a.get\ndescription: d\naccess: write\n---\nb":   skill.AccessWrite,
		"---\nname: a.report\ndescription: d\naccess: read\n---\nb": skill.AccessRead,
	} {
		s, err := skill.Parse("", []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		if s.Access != want || s.Domain != "a" || s.Path != "a/"+s.Action+".md" {
			t.Errorf("%s: access %s, domain %s, path %s", s.Name, s.Access, s.Domain, s.Path)
		}
	}
}

func TestParse_namesFileLineAndRemedy(t *testing.T) {
	file := func(front string) string { return "---\n" + front + "---\n\nbody\n" }
	ok := "name: mail.send\ndescription: d\n"
	tests := map[string]struct {
		path, data string
		want       string // beginning of the detail
		remedy     string
	}{
		"empty file":             {"mail/send.md", "", "mail/send.md:1: has no front matter", "begin the file with"},
		"no front matter":        {"mail/send.md", "# Send\n", "mail/send.md:1: has no front matter", "three dashes"},
		"front matter open":      {"mail/send.md", "---\nname: mail.send\n", "mail/send.md:1: the front matter is not closed", "add a line"},
		"front matter empty":     {"mail/send.md", "---\n---\nb\n", "mail/send.md:2: the front matter is empty", "add at least name"},
		"YAML error":             {"mail/send.md", file("name: mail.send\ndescription: a: b\n"), "mail/send.md:3: the front matter is not YAML", "quote values"},
		"tab":                    {"mail/send.md", file("name: mail.send\n\tdescription: d\n"), "mail/send.md:3: the front matter is not YAML", "indent with spaces"},
		"not a mapping":          {"mail/send.md", file("- a\n- b\n"), "mail/send.md:2: the front matter is not a mapping", "one \"field: value\" per line"},
		"two documents":          {"mail/send.md", file("name: a.b\n...\nname: c.d\n"), "mail/send.md:2: the front matter is not one YAML mapping", "per line"},
		"no name":                {"mail/send.md", file("description: d\n"), "mail/send.md:1: name is missing", "add a line such as"},
		"null name":              {"mail/send.md", file("name:\ndescription: d\n"), "mail/send.md:2: name is missing", "add a line such as"},
		"no description":         {"mail/send.md", file("name: mail.send\n"), "mail/send.md:1: description is missing", "say in one line"},
		"bad name":               {"mail/send.md", file("description: d\nname: Mail.Send\n"), "mail/send.md:3: name must be <domain>.<action>", "as mail.send"},
		"reserved action":        {"mail/all.md", file("name: mail.all\ndescription: d\n"), `mail/all.md:2: name the action "all" is reserved`, "choose another"},
		"other domain":           {"post/send.md", file(ok), `post/send.md:2: name is "mail.send", but the file's place says "post.send"`, "rename"},
		"other file name":        {"mail/sned.md", file(ok), `mail/sned.md:2: name is "mail.send"`, "rename"},
		"no domain folder":       {"send.md", file(ok), "send.md: is not in a domain folder", "move it to mail/send.md"},
		"unknown field":          {"mail/send.md", file(ok + "handlr: x\n"), `mail/send.md:4: unknown field "handlr"`, "known are access, author"},
		"field twice":            {"mail/send.md", file(ok + "name: a.b\n"), "mail/send.md:4: name is there twice, first on line 2", "remove one"},
		"tags not a list":        {"mail/send.md", file(ok + "tags: a\n"), "mail/send.md:4: tags must be a list", "as [a, b]"},
		"empty tag":              {"mail/send.md", file(ok + "tags: [a, '']\n"), "mail/send.md:4: tags[1] is empty", "remove it"},
		"description a list":     {"mail/send.md", file("name: mail.send\ndescription: [a]\n"), "mail/send.md:3: description must be one text value", "quotes"},
		"line break in field":    {"mail/send.md", file("name: mail.send\ndescription: \"a\\nb\"\n"), "mail/send.md:3: description must be one line", "one line"},
		"approval not boolean":   {"mail/send.md", file(ok + "requires_approval: maybe\n"), "mail/send.md:4: requires_approval must be true or false", "true or false"},
		"confirm is no question": {"mail/send.md", file(ok + "confirm: false\n"), "mail/send.md:4: confirm is the question to ask the user", "requires_approval"},
		"bad access":             {"mail/send.md", file(ok + "access: all\n"), "mail/send.md:4: access must be read or write", "read or write"},
		"not a schedule":         {"mail/send.md", file(ok + "schedule: daily\n"), "mail/send.md:4: schedule is not a cron expression", "as \"0 9 * * 1-5\""},
		"no such date":           {"mail/send.md", file(ok + "schedule: 0 0 31 2 *\n"), "mail/send.md:4: schedule is never due", "correct day and month"},
		"zone in schedule":       {"mail/send.md", file(ok + "schedule: TZ=UTC 0 0 * * *\n"), "mail/send.md:4: schedule has a time zone in it", "field timezone"},
		"no such zone":           {"mail/send.md", file(ok + "timezone: Mars/Olympus\n"), "mail/send.md:4: timezone must be an IANA time zone", "Europe/Berlin"},
		"alias":                  {"mail/send.md", file("name: &n mail.send\ndescription: *n\n"), "mail/send.md:2: name uses a YAML anchor", "write the value out"},
		"parameters a mapping":   {"mail/send.md", file(ok + "parameters: {to: x}\n"), "mail/send.md:4: parameters must be a list", "- name:"},
		"parameter a text":       {"mail/send.md", file(ok + "parameters: [to]\n"), "mail/send.md:4: parameters[0] must be a mapping", "mapping"},
		"parameter without name": {"mail/send.md", file(ok + "parameters:\n  - type: string\n"), "mail/send.md:5: parameters[0].name is missing", "needs a name"},
		"parameter bad type":     {"mail/send.md", file(ok + "parameters:\n  - name: to\n    type: text\n"), "mail/send.md:6: parameters[0].type must be one of string", "one of"},
		"parameter twice":        {"mail/send.md", file(ok + "parameters:\n  - name: a-b\n  - name: a_b\n"), `mail/send.md:6: parameters[1].name "a_b" is there twice`, "rename"},
		"items of a string":      {"mail/send.md", file(ok + "parameters:\n  - name: to\n    items: string\n"), "mail/send.md:6: parameters[0].items is only for arrays", "remove it"},
		"default not in enum":    {"mail/send.md", file(ok + "parameters:\n  - name: to\n    enum: [a]\n    default: b\n"), "mail/send.md:7: parameters[0].default 'to' must be one of: a", "write a value"},
		"default and required":   {"mail/send.md", file(ok + "parameters:\n  - name: to\n    required: true\n    default: b\n"), "mail/send.md:7: parameters[0].default is never used", "remove"},
		"empty body":             {"mail/send.md", "---\n" + ok + "---\n \n\n", "mail/send.md:5: body is empty", "describe"},
		"not UTF-8":              {"mail/send.md", file(ok) + "caf\xe9\n", "mail/send.md:7: is not valid UTF-8", "save the file as UTF-8"},
		"too long":               {"mail/send.md", file(ok) + strings.Repeat("x", skill.MaxFile), "mail/send.md: is ", "at most"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := skill.Parse(tt.path, []byte(tt.data))
			if !mesh.IsCode(err, mesh.Invalid) {
				t.Fatalf("error is %v, want Invalid", err)
			}
			detail := mesh.DetailOf(err)
			if !strings.HasPrefix(detail, tt.want) || !strings.Contains(detail, tt.remedy) {
				t.Errorf("detail is %q,\nwant it to begin with %q and to contain %q", detail, tt.want, tt.remedy)
			}
		})
	}
}

func TestParseIndex_wantsTheFoldersDomain(t *testing.T) {
	ix, err := skill.ParseIndex("mail/SKILL.md", []byte("---\ndomain: mail\ndescription: Mail\n---\n# Mail\n"))
	if err != nil || *ix != (skill.Index{Domain: "mail", Description: "Mail", Body: "# Mail"}) {
		t.Errorf("got %+v, %v", ix, err)
	}
	for data, want := range map[string]string{
		"---\ndomain: post\ndescription: Mail\n---\n": `mail/SKILL.md:2: domain is "post", but the folder is "mail"`,
		"---\ndescription: Mail\n---\n":               "mail/SKILL.md: domain must be",
		"---\ndomain: mail\n---\n":                    "mail/SKILL.md:1: description is missing",
		"---\ndomain: mail\nname: x\n---\n":           `mail/SKILL.md:3: unknown field "name"`,
	} {
		if _, err := skill.ParseIndex("mail/SKILL.md", []byte(data)); !strings.HasPrefix(mesh.DetailOf(err), want) {
			t.Errorf("%q: %v, want %q", data, err, want)
		}
	}
}

// A file written by Render is read back as the same skill, whatever is in its
// fields.
func TestRender_roundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSkill(t)
		if err := skill.Validate(s); err != nil {
			t.Fatalf("drew an invalid skill: %v", err)
		}
		data := skill.Render(s)
		got, err := skill.Parse(s.Path, data)
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		if diff := cmp.Diff(s, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(skill.Skill{}, "Source", "Version")); diff != "" {
			t.Fatalf("%s\nin\n%s", diff, data)
		}
	})
}

// Line breaks in a field cannot add fields: Validate refuses them, and Render
// writes them as escapes all the same.
func TestRender_letsNoValueOutOfItsField(t *testing.T) {
	s := &skill.Skill{
		Name: "a.b", Domain: "a", Action: "b", Body: "b", Access: skill.AccessWrite,
		Description: "x\nhandler: mail.send\n---\nevil",
	}
	if err := skill.Validate(s); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("Validate said %v", err)
	}
	data := string(skill.Render(s))
	if strings.Contains(data, "\nhandler:") || strings.Count(data, "\n---\n") != 1 {
		t.Errorf("rendered\n%s", data)
	}
}

func drawSkill(t *rapid.T) *skill.Skill {
	part := rapid.StringMatching(`[a-z][a-z0-9_]{0,8}`).Filter(func(s string) bool { return !skill.ReservedAction(s) })
	hostile := rapid.SampledFrom([]string{
		"", "true", "null", "~", "1", "0x1", "2026-01-01", "a: b", "- a", "# x", "'", `"`, "{}", "[a]", "*x", "&x", "!!str x",
		"---", "...", "%YAML", "@", "`", "|", ">", "é", "日本", "\\n", "a #b", "?", "<<", "=", ".inf", "1e3", "no",
	})
	line := rapid.OneOf(hostile, rapid.Map(rapid.String(), func(s string) string {
		return strings.TrimSpace(strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == '\ufffd' {
				return -1
			}
			return r
		}, s))
	}))
	some := line.Filter(func(s string) bool { return s != "" })
	s := &skill.Skill{
		Domain: part.Draw(t, "domain"), Action: part.Draw(t, "action"),
		Description: some.Draw(t, "description"), Handler: line.Draw(t, "handler"), Schedule: rapid.SampledFrom([]string{"", "@daily", "*/5 9-17 * * 1-5"}).Draw(t, "schedule"),
		Timezone: rapid.SampledFrom([]string{"", "UTC", "Europe/Berlin"}).Draw(t, "timezone"), Author: line.Draw(t, "author"), Created: line.Draw(t, "created"),
		Confirm: line.Filter(func(s string) bool { return s != "true" && s != "false" }).Draw(t, "confirm"), RequiresApproval: rapid.Bool().Draw(t, "approval"),
		Access: rapid.SampledFrom([]string{skill.AccessRead, skill.AccessWrite}).Draw(t, "access"),
		Tags:   rapid.SliceOfN(some, 0, 3).Draw(t, "tags"),
		Body: "# " + strings.TrimRight(strings.NewReplacer("\r", "", "\x00", "").Replace(
			rapid.OneOf(rapid.String(), rapid.Just("x\n---\ny: z\n---\nend")).Draw(t, "body")), " \t\n") + ".",
	}
	s.Name = s.Domain + "." + s.Action
	s.Path = s.Domain + "/" + s.Action + ".md"
	names := rapid.SliceOfNDistinct(part, 0, 3, func(s string) string { return s }).Draw(t, "names")
	for _, name := range names {
		p := skill.Parameter{
			Name: name, Type: rapid.SampledFrom(skill.Types()).Draw(t, "type"),
			Required: rapid.Bool().Draw(t, "required"), Description: line.Draw(t, "about"),
			Enum: rapid.SliceOfN(some, 0, 2).Draw(t, "enum"),
		}
		if p.Type == "array" {
			p.Items = rapid.SampledFrom([]string{"", "string", "integer"}).Draw(t, "items")
		}
		if p.Type == "string" && !p.Required && len(p.Enum) > 0 {
			p.Default = p.Enum[0]
		}
		s.Parameters = append(s.Parameters, p)
	}
	return s
}

// Whatever is parsed is valid, and is parsed again from what Render makes of it.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("---\nname: a.b\ndescription: >\n  folded\n  text\n---\nx\n"))
	f.Add([]byte("---\n---\n"))
	f.Add([]byte("---\nname: [\n---\n"))
	f.Add([]byte("---\nname: a.b\ndescription: d\nparameters:\n- {name: x, type: array, items: integer, default: '1,2'}\n---\nx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := skill.Parse("", data)
		if err != nil {
			if !mesh.IsCode(err, mesh.Invalid) || mesh.DetailOf(err) == "" {
				t.Fatalf("error without code or detail: %v", err)
			}
			return
		}
		if err := skill.Validate(s); err != nil {
			t.Fatalf("parsed what is not valid: %v", err)
		}
		again, err := skill.Parse("", skill.Render(s))
		if err != nil {
			t.Fatalf("cannot read what was rendered: %v\n%s", err, skill.Render(s))
		}
		if diff := cmp.Diff(s, again, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(skill.Skill{}, "Source", "Version")); diff != "" {
			t.Fatal(diff)
		}
	})
}
