package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"go.yaml.in/yaml/v3"
)

// patient is how long a mesh may take to start or to stop.
const patient = 2 * time.Minute

// A mesh is one that runs as a process of its own.
type mesh struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}

	mu   sync.Mutex
	said bytes.Buffer
	more chan struct{} // gets a value when something was said
}

func (m *mesh) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case m.more <- struct{}{}:
	default:
	}
	return m.said.Write(p)
}

// start runs the command, and returns where its mesh listens.
func start(t *testing.T, cmd *exec.Cmd) (m *mesh, addr string) {
	t.Helper()
	m = &mesh{t: t, cmd: cmd, ended: make(chan struct{}), more: make(chan struct{}, 1)}
	cmd.Stdout, cmd.Stderr = m, m
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process, which the cleanup ends and waits for
		defer close(m.ended)
		_ = cmd.Wait() // the exit code says it
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-m.ended
	})
	limit := time.After(patient)
	for {
		m.mu.Lock()
		text := m.said.String()
		m.mu.Unlock()
		if at := regexp.MustCompile(`gRPC +(\S+)[\s\S]*Ctrl-C stops it`).FindStringSubmatch(text); at != nil {
			return m, at[1]
		}
		select {
		case <-m.more:
		case <-m.ended:
			t.Fatalf("it ended: %s", m.said.String())
		case <-limit:
			t.Fatalf("it is not up: %s", text)
		}
	}
}

// stop ends the mesh as a supervisor does.
func (m *mesh) stop() {
	m.t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		m.t.Fatal(err)
	}
	select {
	case <-m.ended:
	case <-time.After(patient):
		m.t.Fatal("it does not stop")
	}
	if code := m.cmd.ProcessState.ExitCode(); code != 0 {
		m.t.Errorf("it ended with %d: %s", code, m.said.String())
	}
}

// The binary of an archive needs nothing: no Go, no other program, no folder but an empty one.
func TestTheBareBinaryRunsAMesh(t *testing.T) {
	dir, program := t.TempDir(), filepath.Join(unpacked(t), "mesh")
	var addr string
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=", "HOME=" + dir, "MESH_ADDR=" + addr}
		return cmd
	}
	var m *mesh
	m, addr = start(t, command("up", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"))
	for _, args := range [][]string{
		{"status", "--ready"}, {"status"}, {"agents", "list"}, {"skills", "run", "tasks.create", "--title", "Call Ann"},
		{"send", "What is a handoff?"}, {"threads", "list"},
	} {
		if out, err := command(args...).CombinedOutput(); err != nil {
			t.Errorf("mesh %q: %v: %s", args, err, out)
		}
	}
	m.stop()
	if out, err := command("data", "verify").CombinedOutput(); err != nil {
		t.Errorf("what it left: %v: %s", err, out)
	}
}

// imageHere unpacks the image for this machine from the file of the release.
func imageHere(t *testing.T) (string, v1.Config) {
	t.Helper()
	if here.os != "linux" {
		t.Skip("images are for Linux, and made where a release for it is")
	}
	image, tag := imageIn(t, artifact(t, "_image.tar"), here.arch)
	if tag != testVersion {
		t.Errorf("its tag is %s", tag)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	dir, r := t.TempDir(), mutate.Extract(image)
	defer func() { _ = r.Close() }() // it is read
	untar(t, r, dir)
	return dir, config.Config
}

// imageIn is the image for an architecture in the file of one, and its tag.
func imageIn(t *testing.T, data []byte, arch string) (v1.Image, string) {
	t.Helper()
	folder := t.TempDir()
	untar(t, bytes.NewReader(data), folder)
	path, err := layout.FromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	named, err := outer.IndexManifest()
	if err != nil || len(named.Manifests) != 1 {
		t.Fatalf("it has other than one name: %+v, %v", named, err)
	}
	index, err := outer.ImageIndex(named.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	all, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all.Manifests, func(d v1.Descriptor) bool { return d.Platform.Architecture == arch })
	if at < 0 {
		t.Fatalf("there is no image for %s: %+v", arch, all.Manifests)
	}
	image, err := index.Image(all.Manifests[at].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image, named.Manifests[0].Annotations["org.opencontainers.image.ref.name"]
}

// A compose file, as far as the tests look at it.
type compose struct {
	Services map[string]struct {
		Image, User string
		ReadOnly    bool `yaml:"read_only"`
		Command     []string
		Volumes     []string
		Tmpfs       []string
		Healthcheck struct{ Test []string }
	}
	Volumes map[string]any
}

// What deploy/compose.yaml starts runs as nobody, on a root that cannot be written, and with
// the health check that it has there.
func TestTheImageRunsAsNobodyOnAReadOnlyRoot(t *testing.T) {
	dir, config := imageHere(t)
	roots := x509.NewCertPool()
	if data, err := os.ReadFile(filepath.Join(dir, "etc/ssl/certs/ca-certificates.crt")); err != nil || !roots.AppendCertsFromPEM(data) || bytes.Count(data, []byte("BEGIN CERTIFICATE")) < 100 {
		t.Errorf("there are no authorities: %v", err)
	}
	var file compose
	data, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	service := file.Services["mesh"]
	if !service.ReadOnly || service.User != config.User || config.User != "65532:65532" || len(service.Healthcheck.Test) == 0 || service.Healthcheck.Test[0] != "CMD" {
		t.Fatalf("the service is not as the image: %+v, and %+v", service, config)
	}
	if want := []string{"data:/data", "./tokens.yaml:/etc/agentmesh/tokens.yaml:ro"}; !slices.Equal(service.Volumes, want) {
		t.Fatalf("volumes are %q, and this test mounts %q", service.Volumes, want)
	}
	if os.Geteuid() != 0 || exec.CommandContext(t.Context(), "unshare", "--mount", "true").Run() != nil {
		t.Skip("only root may mount and change its root")
	}
	token := strings.Repeat("0123456789abcdef", 4)
	tokens := fmt.Sprintf("- {name: ann, hash: \"sha256:%x\", tenant: default, user: ann, roles: [user, operator]}\n", sha256.Sum256([]byte(token)))
	if err := os.WriteFile(filepath.Join(dir, "etc/agentmesh/tokens.yaml"), []byte(tokens), 0o644); err != nil {
		t.Fatal(err)
	}
	inside := func(ctx context.Context, args []string, env ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "unshare", append([]string{"--mount", "sh", "-euc", `
			mount --bind "$0" "$0"
			mount --bind "$0/data" "$0/data"
			mount -t tmpfs -o mode=1777 none "$0/tmp"
			mkdir -p "$0/proc" && mount -t proc none "$0/proc"
			mount -o remount,bind,ro "$0"
			exec chroot --userspec=65532:65532 --groups= "$0" "$@"`, dir}, append(slices.Clone(config.Entrypoint), args...)...)...)
		cmd.Env = append(append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, config.Env[1:]...), env...)
		return cmd
	}
	// Without a word on who may use it, it does not start where others reach it.
	if out, err := inside(t.Context(), config.Cmd).CombinedOutput(); err == nil || !strings.Contains(string(out), "auth") {
		t.Errorf("without auth: %v: %s", err, out)
	}
	m, addr := start(t, inside(t.Context(), service.Command, "MESH_GRPC=127.0.0.1:0", "MESH_HTTP=127.0.0.1:0", "MESH_LLM_URL=", "MESH_LLM_KEY=", "MESH_LLM_MODEL="))
	for _, args := range [][]string{service.Healthcheck.Test[2:], {"send", "What is a handoff?"}, {"status"}} {
		if out, err := inside(t.Context(), args, "MESH_ADDR="+addr, "MESH_TOKEN="+token).CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
	if out, err := inside(t.Context(), []string{"send", "Hello"}, "MESH_ADDR="+addr).CombinedOutput(); err == nil {
		t.Errorf("without a token it answers: %s", out)
	}
	m.stop()
	if out, err := inside(t.Context(), []string{"man", "/etc/man"}).CombinedOutput(); err == nil || !strings.Contains(string(out), "read-only") {
		t.Errorf("the root can be written: %v, %s", err, out)
	}
}

// The Debian package has the mesh, what the shell and man know of it, and a service that
// systemd takes.
func TestTheDebianPackageInstallsAMesh(t *testing.T) {
	if here.os != "linux" {
		t.Skip("packages are for Linux")
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not here")
	}
	file, dir := filepath.Join(t.TempDir(), "agentmesh.deb"), t.TempDir()
	if err := os.WriteFile(file, artifact(t, ".deb"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := said(t, "dpkg-deb", "-f", file, "Package", "Version", "Architecture"); got != "Package: agentmesh\nVersion: 1.2.3~rc.1\nArchitecture: "+here.arch+"\n" {
		t.Errorf("it is %q", got)
	}
	said(t, "dpkg-deb", "-x", file, dir)
	said(t, "dpkg-deb", "-e", file, filepath.Join(dir, "DEBIAN"))
	if got := said(t, filepath.Join(dir, "usr/bin/mesh"), "--version"); got != "mesh "+testVersion+"\n" {
		t.Errorf("the version is %q", got)
	}
	if got := said(t, filepath.Join(dir, "usr/bin/mesh"), "config", "check", "--config", filepath.Join(dir, "etc/agentmesh/mesh.yaml")); got == "" {
		t.Error("nothing is said of the settings")
	}
	if conf, err := os.ReadFile(filepath.Join(dir, "DEBIAN/conffiles")); err != nil || string(conf) != "/etc/agentmesh/mesh.yaml\n" {
		t.Errorf("what the administrator changes, and keeps, is %q, %v", conf, err)
	}
	for _, name := range []string{"share/man/man1/mesh-up.1", "share/zsh/vendor-completions/_mesh", "share/fish/vendor_completions.d/mesh.fish",
		"share/doc/agentmesh/copyright", "share/doc/agentmesh/" + noticesFile, "share/doc/agentmesh/docs/operations.md"} {
		if _, err := os.Stat(filepath.Join(dir, "usr", name)); err != nil {
			t.Error(err)
		}
	}
	scripts := []string{"usr/share/bash-completion/completions/mesh", "DEBIAN/postinst", "DEBIAN/prerm", "DEBIAN/postrm"}
	for _, name := range scripts {
		said(t, "bash", "-n", filepath.Join(dir, name))
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd-analyze is not here: nobody looks at the service")
		return
	}
	// The program that it starts is looked for where it is unpacked.
	unit, err := os.ReadFile(filepath.Join(dir, "usr/lib/systemd/system/agentmesh.service"))
	if err != nil {
		t.Fatal(err)
	}
	looked := filepath.Join(t.TempDir(), "agentmesh.service")
	if err := os.WriteFile(looked, bytes.ReplaceAll(unit, []byte("ExecStart="), []byte("ExecStart="+dir)), 0o644); err != nil {
		t.Fatal(err)
	}
	said(t, "systemd-analyze", "verify", "--man=no", looked)
}

// One file has the image of each architecture, under one name.
func TestAnImageIsForAllArchitectures(t *testing.T) {
	r := &release{work: t.TempDir(), out: t.TempDir(), version: "v1.2.3+4.g0123456", time: time.Unix(0, 0)}
	targets := []target{{"linux", "amd64"}, {"linux", "arm64"}}
	for _, one := range targets {
		for _, name := range []string{"mesh", "LICENSE", noticesFile} {
			if err := write(filepath.Join(r.tree(one), name), []byte(one.arch), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.image(targets); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(r.out, "agentmesh_v1.2.3+4.g0123456_image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range targets {
		image, tag := imageIn(t, data, one.arch)
		config, err := image.ConfigFile()
		if err != nil || config.Architecture != one.arch || tag != "v1.2.3-4.g0123456" {
			t.Errorf("for %s there is that of %s, %s, %v", one.arch, config.Architecture, tag, err)
		}
	}
}
