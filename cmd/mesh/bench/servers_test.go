//go:build linux

package bench_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	meshv1 "agentmesh/gen/mesh/v1"
)

// A server is a process that is measured.
type server struct {
	*process
	name  string
	conn  *grpc.ClientConn
	doors map[string]door
	tasks []string // of the tenant that reads
}

// A cleaner is what ends things: a test, or a part of one.
type cleaner interface{ Cleanup(func()) }

var (
	isReady   = regexp.MustCompile(`(?:card (\S+)\n)?ready (\S+)\n`)
	meshReady = regexp.MustCompile(`(?s)gRPC +(\S+)\n +HTTP +(http://\S+)\n.*Ctrl-C stops it`)
)

// prepare builds and starts all that take part, and ends them with the test.
func (b *bench) prepare(ctx context.Context, t *testing.T) (err error) {
	if b.dir, err = b.folder(t); err != nil {
		return err
	}
	if b.cores, err = splitCores(); err != nil {
		return err
	}
	if b.cores.only {
		b.note("there is one core: whoever asks and answers shares it with what is measured")
	}
	if err := keepTo(b.cores.load); err != nil {
		return err
	}
	t.Cleanup(func() { _ = keepTo(b.cores.all) })
	if b.sync, err = newSyncer(b.dir); err != nil {
		return err
	}
	at, err := b.help(t, b.self("agent", ""))
	if err != nil {
		return err
	}
	b.card, b.agent = at[1], at[2]
	if b.mesh, err = b.prepareMesh(ctx, t, "mesh", top); err != nil {
		return err
	}
	if err := b.prepareFan(ctx, t); err != nil {
		return err
	}
	if b.hop, err = b.start(t, "hop", b.self("hop", b.agent)); err != nil {
		return err
	}
	if b.sdk, err = b.start(t, "sdk", b.self("sdk", "")); err != nil {
		return err
	}
	if !b.others {
		return nil
	}
	return b.prepareOthers(ctx, t)
}

// prepareMesh builds the mesh whose sources are in the folder, and starts it with
// the agent that hands over.
func (b *bench) prepareMesh(ctx context.Context, t *testing.T, name, src string) (*server, error) {
	b.bins[name] = filepath.Join(b.dir, name)
	if err := run(ctx, src, "go", "build", "-trimpath", "-o", b.bins[name], "./cmd/mesh"); err != nil {
		return nil, err
	}
	if b.others {
		at := slices.IndexFunc(storePackages, func(pkg string) bool {
			_, err := os.Stat(filepath.Join(src, pkg))
			return err == nil
		})
		if at < 0 {
			return nil, fmt.Errorf("%s has none of the stores %v", src, storePackages)
		}
		if err := b.compile(ctx, src, name+"-store", storePackages[at]); err != nil {
			return nil, err
		}
		b.stores[name] = b.bins[name+"-store"]
	}
	giver, err := b.build(ctx, src, name+"-giver", "testdata/giver/main.go")
	if err != nil {
		return nil, err
	}
	s, err := b.startMesh(ctx, t, name, name)
	if err == nil {
		cmd := exec.Command(giver)
		cmd.Env = environment(toEnv + "=" + s.conn.Target())
		_, err = b.help(t, cmd)
	}
	return s, err
}

// build makes a program of one file with the sources of a mesh.
func (b *bench) build(ctx context.Context, src, name, file string) (string, error) {
	source, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	out := filepath.Join(b.dir, name)
	return out, run(ctx, src, "go", "build", "-trimpath", "-o", out, source)
}

// compile makes a program of the tests of a package.
func (b *bench) compile(ctx context.Context, src, name, pkg string) error {
	b.bins[name] = filepath.Join(b.dir, name+".test")
	return run(ctx, src, "go", "test", "-c", "-o", b.bins[name], pkg)
}

// run runs a program in the folder.
func run(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

// help starts a process on the cores of those who ask and answer.
func (b *bench) help(t cleaner, cmd *exec.Cmd) ([]string, error) {
	p, at, err := launch(cmd, b.cores.load, isReady)
	if err != nil {
		return nil, err
	}
	t.Cleanup(p.end)
	b.running = append(b.running, p)
	return at, nil
}

// folder is where everything is kept: on a disk, if anything is to be said of it.
func (b *bench) folder(t *testing.T) (string, error) {
	if !b.others {
		return t.TempDir(), nil
	}
	in, err := filepath.Abs(*dir)
	if err == nil {
		err = os.MkdirAll(in, 0o755)
	}
	t.Setenv("TMPDIR", in)
	return t.TempDir(), errors.Join(err, onDisk(in))
}

// prepareOthers makes what is there only when it can be fetched or built.
func (b *bench) prepareOthers(ctx context.Context, t *testing.T) error {
	if packages, err := jsPackages(ctx); err != nil {
		b.note("a2a-js is not measured: %v", err)
	} else if b.js, err = b.start(t, "js", exec.Command("node", filepath.Join("testdata", "server.mjs"), packages)); err != nil {
		return err
	}
	if *base == "" {
		b.note("nothing is compared with an older revision: none is named by -base")
		return nil
	}
	src, err := b.sources(ctx)
	if err != nil {
		b.note("nothing is compared with %s: %v", *base, err)
		return nil
	}
	b.base, err = b.prepareMesh(ctx, t, "base", src)
	return err
}

// sources makes a folder of those of the revision to compare with.
func (b *bench) sources(ctx context.Context) (string, error) {
	src, archive := filepath.Join(b.dir, "base-src"), filepath.Join(b.dir, "base.tar")
	if err := os.MkdirAll(src, 0o755); err != nil {
		return "", err
	}
	if err := run(ctx, top, "git", "archive", "-o", archive, *base); err != nil {
		return "", err
	}
	return src, run(ctx, src, "tar", "-x", "-f", archive)
}

// jsPackages returns the folder that has the official SDK for JavaScript, and
// installs it, in the user's cache, if it is not there.
func jsPackages(ctx context.Context) (string, error) {
	wanted := []string{"@a2a-js/sdk@1.3.0", "@grpc/grpc-js@1.14.7", "@bufbuild/protobuf@2.17.0", "express@5.3.0"}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", err
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	in := filepath.Join(cache, "agentmesh-bench", "a2a-js-1.3.0")
	if _, err := os.Stat(filepath.Join(in, "node_modules", "@a2a-js", "sdk")); err == nil {
		return in, nil
	}
	args := append([]string{"install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", in}, wanted...)
	if err := run(ctx, "", "npm", args...); err != nil {
		return "", errors.Join(err, os.RemoveAll(in))
	}
	return in, nil
}

// self is this binary in a role.
func (b *bench) self(role, to string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = environment(roleEnv+"="+role, toEnv+"="+to)
	return cmd
}

// start starts a server on the core of those that are measured.
func (b *bench) start(t *testing.T, name string, cmd *exec.Cmd) (*server, error) {
	p, at, err := launch(cmd, b.cores.server, isReady)
	if err != nil {
		return nil, err
	}
	t.Cleanup(p.end)
	b.running = append(b.running, p)
	return connect(t, name, p, at[2])
}

func connect(t cleaner, name string, p *process, address string) (*server, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &server{process: p, name: name, conn: conn, doors: map[string]door{"grpc": byGRPC(conn)}}, nil
}

// settings let an agent have as many others work at once as is measured.
const settings = "defaults:\n  orchestrator:\n    max_concurrent_agents: 128\nlimits:\n  turn_agents: 128\n  children: 128\nquotas:\n  user:\n    agents: 128\n"

// startMesh starts a mesh, in a folder of its own, whose main agent is the one that
// others ask directly.
func (b *bench) startMesh(ctx context.Context, t cleaner, name, folder string, env ...string) (*server, error) {
	home := filepath.Join(b.dir, folder+"-home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	if name == "mesh" { // one that has many agents work for a message
		if err := os.WriteFile(filepath.Join(home, "mesh.yaml"), []byte(settings), 0o600); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(b.bins[name], "up", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", "data", "--main", "bench", "--log-level", "error")
	cmd.Dir, cmd.Env = home, environment(env...)
	p, at, err := launch(cmd, b.cores.server, meshReady)
	if err != nil {
		return nil, err
	}
	t.Cleanup(p.end)
	b.running = append(b.running, p)
	s, err := connect(t, name, p, strings.TrimSpace(at[1]))
	if err != nil {
		return nil, err
	}
	s.doors["rest"], s.doors["jsonrpc"] = byREST(at[2]), byJSONRPC(at[2])
	agents := meshv1.NewRegistryServiceClient(s.conn)
	if _, err := agents.GetAgent(ctx, &meshv1.GetAgentRequest{Name: "bench"}); err == nil {
		return s, nil // the folder has it
	}
	for path := range bindings {
		if path != "" && name != "mesh" {
			continue
		}
		req := &meshv1.RegisterAgentRequest{Name: strings.TrimSuffix("bench-"+path, "-"), CardUrl: b.card + strings.TrimSuffix("/"+path, "/") + "/.well-known/agent-card.json", Shared: true}
		if _, err := agents.RegisterAgent(ctx, req); err != nil {
			return nil, err
		}
	}
	return s, nil
}
