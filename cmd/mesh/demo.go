package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/skill"
)

// demoTime bounds the whole demo.
const demoTime = 2 * time.Minute

// demoCommand shows the mesh at work, and checks that it worked.
func (a *app) demoCommand() *cobra.Command {
	var keep string
	cmd := &cobra.Command{
		Use:         "demo",
		Annotations: map[string]string{startsMesh: "yes"},
		Short:       "Show three conversations on a mesh of its own, and check what came of them",
		Long: `demo runs a mesh on free ports with an empty data folder, has three
conversations with it, and checks what they left: sources in an answer, a mail
and a calendar event on disk, a new skill that the mesh offers. It needs no key
and no network. It exits with 1 when something is not as it should be.`,
		Example: "  mesh demo\n  mesh demo --keep ./demo-data",
		Args:    nothing,
		RunE: a.action(func(ctx context.Context, _ []string) error {
			return a.demo(ctx, keep)
		}),
	}
	cmd.Flags().StringVar(&keep, "keep", "", "`folder` for the data, which is kept (default: a temporary one)")
	return cmd
}

// demo is a run of the demo.
type demo struct {
	*app
	*client
	data   string
	failed int
}

func (a *app) demo(ctx context.Context, keep string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, demoTime)
	defer cancel()
	dir := keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "agentmesh-demo-"); err != nil {
			return mesh.Errorf(mesh.Precondition, "mesh.demo", "no temporary folder can be made; name one with --keep: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	_, _ = fmt.Fprintln(a.stdout, "Three conversations on a mesh of their own, without key or network; that takes some seconds.")
	cfg := node.Config{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Data: dir, Grace: 2 * time.Second}
	if err := cfg.Fill(); err != nil {
		return err
	}
	logger, err := a.logger("error")
	if err != nil {
		return err
	}
	c, err := newCrew(cfg, a.now, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	opts := nodeOptions(&cfg, c, logger)
	up := make(chan string, 1)
	opts.Ready = func(at node.Addresses) { up <- at.GRPC }

	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	var mesh sync.WaitGroup
	mesh.Go(func() { ended <- node.Run(running, cfg, opts) })
	defer mesh.Wait()
	defer stop()
	select {
	case a.flags.addr = <-up:
	case err := <-ended:
		return err
	}
	_, _ = fmt.Fprintf(a.stdout, "A mesh is up: gRPC at %s, %d agents, each a gRPC server of its own.\n", a.flags.addr, len(crewNames))
	err = a.connected(ctx, nil, func(ctx context.Context, cl *client, _ []string) error {
		d := &demo{app: a, client: cl, data: dir}
		return d.journeys(ctx)
	})
	stop()
	return errors.Join(err, <-ended)
}

func (d *demo) journeys(ctx context.Context) error {
	for _, j := range []func(context.Context) error{d.question, d.errands, d.newSkill} {
		if err := j(ctx); err != nil {
			return err
		}
	}
	if d.failed > 0 {
		_, _ = fmt.Fprintf(d.stdout, "\n%d checks failed.\n", d.failed)
		return errTaskFailed
	}
	_, _ = fmt.Fprintln(d.stdout, "\nAll checks passed. Start a mesh of your own with 'mesh up', and talk to it with 'mesh chat'.")
	return nil
}

// question: the main agent asks another one, and answers itself.
func (d *demo) question(ctx context.Context) error {
	d.title("1. A question: main asks the knowledge agent and answers from documents")
	id := mesh.NewThreadID()
	said, err := d.ask(ctx, id, "How do I configure rate limiting for my agent?")
	if err != nil {
		return err
	}
	d.check("the user saw that somebody was asked", slices.ContainsFunc(said.status, func(s string) bool { return strings.Contains(s, "Researching") }))
	d.check("the answer says how (rate_limit)", strings.Contains(said.text, "rate_limit"))
	d.check("the answer names its sources", strings.Contains(said.text, "Sources:"))
	agents, err := d.agentsOf(ctx, id)
	d.check("knowledge was asked over gRPC: "+strings.Join(agents, ", "), slices.Contains(agents, "knowledge"))
	return err
}

// errands: the orchestrator dispatches, one after the other and in parallel.
func (d *demo) errands(ctx context.Context) error {
	d.title("2. Errands: the orchestrator dispatches a search, then mail and calendar in parallel")
	id := mesh.NewThreadID()
	now := d.now()
	for _, task := range []struct {
		title string
		days  int
	}{{"Send the invoice to Acme", -9}, {"Renew the certificate", -2}, {"Plan the offsite", 20}} {
		if _, err := d.ask(ctx, id, fmt.Sprintf("Create a task called %q due %s", task.title, now.AddDate(0, 0, task.days).Format(time.DateOnly))); err != nil {
			return err
		}
	}
	said, err := d.ask(ctx, id, "Find my overdue tasks, then email the report to bob@example.com and create a follow-up meeting tomorrow at 2pm")
	if err != nil {
		return err
	}
	files, _ := filepath.Glob(filepath.Join(d.data, "outbox", "*.eml"))
	d.check("nothing is sent before the user agrees", !said.over && len(files) == 0)
	if said, err = d.ask(ctx, id, "yes"); err != nil {
		return err
	}
	d.checkMail()
	d.checkEvent(now)
	d.check("the answer sums up", strings.Contains(said.text, "bob@example.com") && strings.Contains(said.text, "Renew the certificate"))
	agents, err := d.agentsOf(ctx, id)
	d.check("each agent did its part: "+strings.Join(agents, ", "),
		slices.Contains(agents, "orchestrator") && slices.Contains(agents, "tasks") && slices.Contains(agents, "mail") && slices.Contains(agents, "calendar"))
	return err
}

func (d *demo) checkMail() {
	files, _ := filepath.Glob(filepath.Join(d.data, "outbox", "*.eml"))
	d.check(fmt.Sprintf("one mail is in the outbox: %s", d.names(files)), len(files) == 1)
	if len(files) != 1 {
		return
	}
	f, err := os.Open(files[0])
	if err != nil {
		d.check("the mail can be read", false)
		return
	}
	defer func() { _ = f.Close() }() // only read
	m, err := mail.ReadMessage(f)
	d.check("the mail is a valid message (RFC 5322)", err == nil)
	if err != nil {
		return
	}
	to, err := m.Header.AddressList("To")
	d.check("it goes to bob@example.com", err == nil && len(to) == 1 && to[0].Address == "bob@example.com")
	subject := m.Header.Get("Subject")
	d.check("its subject says what it is about: "+subject, strings.Contains(strings.ToLower(subject), "overdue"))
	raw, _ := os.ReadFile(files[0])
	d.check("it has the overdue tasks, and only those", strings.Contains(string(raw), "Renew the certificate") &&
		strings.Contains(string(raw), "Send the invoice to Acme") && !strings.Contains(string(raw), "Plan the offsite"))
}

func (d *demo) checkEvent(now time.Time) {
	files, _ := filepath.Glob(filepath.Join(d.data, "calendar", "*.ics"))
	d.check(fmt.Sprintf("one event is in the calendar: %s", d.names(files)), len(files) == 1)
	if len(files) != 1 {
		return
	}
	raw, _ := os.ReadFile(files[0])
	at := time.Date(now.Year(), now.Month(), now.Day()+1, 14, 0, 0, 0, now.Location())
	local, utc := at.Format("20060102T150405"), at.UTC().Format("20060102T150405Z")
	d.check("it begins tomorrow at 2pm", strings.Contains(string(raw), "DTSTART") && (strings.Contains(string(raw), local) || strings.Contains(string(raw), utc)))
}

// newSkill: control goes to the skill builder and comes back, in one stream.
func (d *demo) newSkill(ctx context.Context) error {
	d.title("3. A new skill: the conversation is handed over to the skill builder, and comes back")
	id := mesh.NewThreadID()
	all := ""
	said, err := d.ask(ctx, id, "I want to create a skill that sends Slack alerts")
	answers := []string{"It posts a short alert to a Slack channel; it needs the channel and the text",
		"slack.send_alert, when I say alert the team", "yes, save it"}
	for _, answer := range answers {
		if err != nil {
			return err
		}
		all += said.text
		if said.over {
			break
		}
		said, err = d.ask(ctx, id, answer)
	}
	if err != nil {
		return err
	}
	all += said.text
	d.check("the task is complete after the answers", said.over)
	files := d.skillFiles()
	d.check("a skill file exists: "+d.names(files), len(files) == 1)
	if len(files) == 1 {
		raw, _ := os.ReadFile(files[0])
		s, err := skill.Parse("", raw)
		d.check("it passes validation", err == nil)
		if err == nil {
			_, err = d.skills.GetSkill(ctx, &meshv1.GetSkillRequest{Name: s.Name})
			d.check("the mesh offers it: "+s.Name, err == nil)
			d.check("main confirms it", strings.Contains(all, s.Name))
		}
	}
	resp, err := d.threads.GetThread(d.inThread(ctx, id), &meshv1.GetThreadRequest{ThreadId: id})
	d.check("control is back with main", err == nil && resp.GetThread().GetActiveAgent() == node.DefaultMain)
	return nil
}

// heard is what a turn told.
type heard struct {
	text   string
	status []string
	over   bool // the task is over, and does not wait for an answer
}

// ask says something in the thread and shows the answer as it comes.
func (d *demo) ask(ctx context.Context, thread, text string) (heard, error) {
	_, _ = fmt.Fprintf(d.stdout, "\nyou › %s\n", text)
	t := newTurn(thread, "", text)
	v := newView(true)
	var h heard
	for u, err := range d.updates(ctx, t) {
		if err != nil {
			return h, err
		}
		h.text += u.text
		if u.artifact == "" && u.text != "" {
			h.status = append(h.status, u.text)
		}
		d.print(v.show(u))
	}
	d.print(v.end(t.state))
	h.over = mesh.Terminal(t.state)
	if t.failed() {
		d.check("the turn did not fail", false)
	}
	return h, nil
}

func (d *demo) print(text, note string) { _, _ = fmt.Fprint(d.stdout, text, note) }

func (d *demo) inThread(ctx context.Context, id string) context.Context {
	return mesh.WithCall(ctx, mesh.Call{Thread: id})
}

// agentsOf are the agents that worked in the thread, by its log.
func (d *demo) agentsOf(ctx context.Context, id string) ([]string, error) {
	resp, err := d.threads.GetThread(d.inThread(ctx, id), &meshv1.GetThreadRequest{ThreadId: id})
	var names []string
	for _, x := range resp.GetThread().GetExecutions() {
		if name := x.GetExecution().GetAgent(); x.GetExecution().GetKind() != string(mesh.KindTurn) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, err
}

func (d *demo) skillFiles() []string {
	var files []string
	_ = fs.WalkDir(os.DirFS(d.data), "tenant-skills", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, ".md") {
			files = append(files, filepath.Join(d.data, path))
		}
		return nil
	})
	return files
}

func (d *demo) names(files []string) string {
	out := make([]string, 0, len(files))
	for _, f := range files {
		rel, err := filepath.Rel(d.data, f)
		if err != nil {
			rel = f
		}
		out = append(out, rel)
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

func (d *demo) title(words string) {
	_, _ = fmt.Fprintf(d.stdout, "\n── %s\n", words)
}

// check notes whether something is as it should be.
func (d *demo) check(what string, ok bool) {
	mark := "✓"
	if !ok {
		mark = "✗"
		d.failed++
	}
	_, _ = fmt.Fprintf(d.stdout, "  %s %s\n", mark, what)
}
