package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/llm/probe"
	"agentmesh/mesh/node"
	"agentmesh/mesh/text"
)

const (
	// expiresSoon is how long before its end a certificate is told of.
	expiresSoon = 14 * 24 * time.Hour
	// littleRoom is how much room on a disk is too little, in bytes.
	littleRoom = 256 << 20
	// doctorTime bounds each look that the doctor takes.
	doctorTime = 20 * time.Second
)

// A doctor looks at a mesh, and says what it finds.
type doctor struct {
	app *app
	ill bool
}

func (d *doctor) well(format string, args ...any) { d.app.printf("✓ "+format+"\n", args...) }
func (d *doctor) note(format string, args ...any) { d.app.printf("· "+format+"\n", args...) }

// wrong says what is wrong, and what helps.
func (d *doctor) wrong(remedy, format string, args ...any) {
	d.ill = true
	d.app.printf("✗ "+format+"\n", args...)
	if remedy != "" {
		d.app.printf("  %s\n", remedy)
	}
}

func (a *app) doctorCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what a mesh needs, and say what helps",
		Long: `Check the mesh at --addr: whether it answers, who it takes you for, whether it is ready,
its certificate, its agents, and its alarms, which need the role operator.

In the folder of a mesh, where its mesh.yaml or its data folder is, check what it would start
with, too: the configuration, each model, which is asked for a word and a tool, the certificate, and the
room on the disk. Each thing that is wrong comes with what helps, and has the exit code 1.`,
		Example: `  mesh doctor
  mesh doctor --addr grpcs://mesh.example.com:7420 --ca ca.pem
  mesh doctor --config staging.yaml`,
		Args: nothing,
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `file` of a mesh here (default mesh.yaml, if it is there)")
	cmd.RunE = a.action(func(ctx context.Context, _ []string) error {
		d := &doctor{app: a}
		d.note("%s", versionLine())
		d.remote(ctx)
		cfg, err := a.config(cmd, file, &node.Config{})
		_, fileErr := os.Stat(defaultConfig)
		_, dataErr := os.Stat(orText(cfg.Data, node.DefaultData))
		switch {
		case err != nil:
			d.wrong("correct it; 'mesh config check' says all that is wrong", "configuration: %s", what(err))
		case file != "" || fileErr == nil || dataErr == nil:
			d.local(ctx, &cfg)
		}
		if d.ill {
			return errTestFailed
		}
		return ctx.Err()
	})
	return cmd
}

// remote looks at the mesh that is called.
func (d *doctor) remote(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	err := d.app.connected(ctx, nil, func(ctx context.Context, c *client, _ []string) error {
		d.well("a mesh answers at %s", d.app.flags.addr)
		d.ready(ctx, c)
		who, err := c.access.GetAccess(c.call(ctx, ""), &meshv1.GetAccessRequest{})
		if err != nil {
			return err // the rest would be refused as well
		}
		d.well("you are %s of the tenant %s", oneLine(who.GetUserId()), oneLine(who.GetTenantId()))
		d.agents(ctx, c)
		d.alarms(ctx, c)
		return nil
	})
	if err != nil {
		d.wrong("", "%s", explain(err, d.app.flags.addr))
	}
}

// ready looks whether the mesh takes messages, and at the certificate that it shows.
func (d *doctor) ready(ctx context.Context, c *client) {
	var who peer.Peer
	resp, err := healthpb.NewHealthClient(c.conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Peer(&who))
	switch {
	case err != nil:
		d.wrong("", "its health cannot be asked: %s", what(err))
	case resp.GetStatus() != healthpb.HealthCheckResponse_SERVING:
		d.wrong("wait until it has started; 'mesh status' and its log say what it cannot read or write", "it is not ready: %s", resp.GetStatus())
	default:
		d.well("it is ready")
	}
	if info, ok := who.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
		d.certificate("its certificate", info.State.PeerCertificates[0])
	}
}

// certificate looks how long a certificate is good for.
func (d *doctor) certificate(name string, c *x509.Certificate) {
	switch left := c.NotAfter.Sub(d.app.now()); {
	case left < 0:
		d.wrong("renew it", "%s ended on %s; or the clock of this machine, %s, is wrong", name, stampTime(c.NotAfter), stampTime(d.app.now()))
	case d.app.now().Before(c.NotBefore):
		d.wrong("set the clock", "%s begins on %s; the clock of this machine says %s", name, stampTime(c.NotBefore), stampTime(d.app.now()))
	case left < expiresSoon:
		d.wrong("renew it", "%s ends on %s", name, stampTime(c.NotAfter))
	default:
		d.well("%s is good until %s", name, stampTime(c.NotAfter))
	}
}

func stampTime(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func (d *doctor) agents(ctx context.Context, c *client) {
	resp, err := c.agents.ListAgents(c.call(ctx, ""), &meshv1.ListAgentsRequest{})
	if err != nil {
		d.wrong("", "agents cannot be listed: %s", what(err))
		return
	}
	live := 0
	for _, ag := range resp.GetAgents() {
		if ag.GetLive() {
			live++
			continue
		}
		d.wrong(fmt.Sprintf("start it, or take it away with 'mesh agents rm %s'", oneLine(ag.GetName())), "agent %s is %s", oneLine(ag.GetName()), agentState(ag))
	}
	d.well("%s answer", counted(live, "agent"))
}

func (d *doctor) alarms(ctx context.Context, c *client) {
	resp, err := meshv1.NewNodeServiceClient(c.conn).ListAlarms(c.call(ctx, ""), &meshv1.ListAlarmsRequest{})
	switch {
	case mesh.IsCode(err, mesh.Denied):
		d.note("its alarms are for operators")
	case err != nil:
		d.wrong("", "its alarms cannot be listed: %s", what(err))
	case len(resp.GetAlarms()) == 0:
		d.well("it has no alarms")
	}
	for _, al := range resp.GetAlarms() {
		d.wrong(oneLine(al.GetMeanwhile()), "alarm: %s: %s", oneLine(alarmOf(al)), oneLine(al.GetDetail()))
	}
}

// local looks at what a mesh in this folder starts with.
func (d *doctor) local(ctx context.Context, cfg *node.Config) {
	if _, problems := d.app.planned(*cfg, nil); len(problems) > 0 {
		d.wrong("correct it; 'mesh config check' says all that is wrong", "configuration: %s", what(cfg.Located(problems[0])))
	} else {
		d.well("the configuration has no mistakes")
	}
	d.models(ctx, cfg)
	if cfg.TLS.Cert != "" {
		d.certificateFile(cfg.TLS.Cert)
	}
	data := orText(cfg.Data, node.DefaultData)
	switch free, err := freeBytes(data); {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, errors.ErrUnsupported):
	case err != nil:
		d.wrong("look at the folder's permissions, or name another one with --data", "%s: %v", data, err)
	case free < littleRoom:
		d.wrong("make room; 'mesh threads delete --before 90d' deletes old conversations", "the disk of %s has %d MiB left", data, free>>20)
	default:
		d.well("the disk of %s has %s left", data, text.Size(int64(min(free, math.MaxInt64))))
	}
}

// models probes the endpoints of models.
func (d *doctor) models(ctx context.Context, cfg *node.Config) {
	all := cfg.Endpoints()
	if len(all) == 0 {
		d.note("no model is set, and the offline planner works by rules; 'mesh init' sets one up, or MESH_LLM_URL, MESH_LLM_KEY and MESH_LLM_MODEL")
	}
	for _, e := range all {
		d.probed(e, probe.Endpoint(ctx, e.Client, 0))
	}
}

// probed says what a probe found.
func (d *doctor) probed(e node.ModelEndpoint, r *probe.Report) {
	where := oneLine(e.Client.Model + " at " + mesh.PublicURL(e.Client.BaseURL))
	if failed := r.Failed(); failed != nil {
		d.wrong(failed.Remedy, "%s (%s): %s", oneLine(e.String()), where, failed.Detail)
		return
	}
	if r.Works() {
		d.well("the model %s answers", where)
	}
	for _, doubt := range r.Doubts() {
		d.note("%s (%s): %s", oneLine(e.String()), where, doubt)
	}
}

// certificateFile looks at the certificate that a mesh here would show.
func (d *doctor) certificateFile(file string) {
	data, err := os.ReadFile(file) // #nosec G304 -- the operator names it
	if err != nil {
		d.wrong("correct tls.cert", "the certificate cannot be read: %v", err)
		return
	}
	block, rest := pem.Decode(data)
	for block != nil && block.Type != "CERTIFICATE" { // its key may be in the file, too
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		d.wrong("correct tls.cert", "%s has no certificate", file)
		return
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		d.wrong("correct tls.cert", "%s: %v", file, err)
		return
	}
	d.certificate("the certificate "+file, c)
}
