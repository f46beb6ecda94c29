package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// allTargets are the systems that a release is for.
var allTargets = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// A target is a system to build for, in the words of Go.
type target struct{ os, arch string }

func parseTarget(s string) (target, error) {
	goos, arch, ok := strings.Cut(s, "/")
	if !ok || goos == "" || arch == "" {
		return target{}, fmt.Errorf("a target is a system and an architecture, as linux/amd64, and not %q", s)
	}
	return target{goos, arch}, nil
}

func (t target) binary() string {
	if t.os == "windows" {
		return "mesh.exe"
	}
	return "mesh"
}

// A release is one that is being made.
type release struct {
	root    string // of the mesh's module
	out     string // what people fetch
	work    string // the trees that it is made of, one for each target, and the manuals
	version string // v1.2.3, or after a tag v1.2.3+4.g0123456
	time    time.Time
}

// newRelease asks git what is released. SOURCE_DATE_EPOCH, in seconds, is the time of a
// tree without git, which needs a version, too.
func newRelease(ctx context.Context, root, version string) (*release, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	r := &release{root: root, version: version}
	if version == "" {
		if r.version, err = r.described(ctx); err != nil {
			return nil, fmt.Errorf("git does not know the version, say it with -version: %w", err)
		}
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$`).MatchString(r.version) {
		return nil, fmt.Errorf("a version is as v1.2.3, and not %q", r.version)
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = r.git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return nil, fmt.Errorf("git does not know the time of the commit, say it with SOURCE_DATE_EPOCH: %w", err)
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the time of the commit is no number of seconds: %w", err)
	}
	r.time = time.Unix(seconds, 0).UTC()
	return r, nil
}

// described is the version of the commit: that of its tag, or of the last one before it, so
// many commits and the commit after it, which is later than the tag to dpkg, and the same to semver.
func (r *release) described(ctx context.Context) (string, error) {
	changed, err := r.git(ctx, "status", "--porcelain") // also by files that git does not know: they are built and packed
	if err != nil {
		return "", err
	}
	said, err := r.git(ctx, "describe", "--tags", "--long", "--match=v[0-9]*")
	if err != nil { // there is no tag
		count, counted := r.git(ctx, "rev-list", "--count", "HEAD")
		commit, named := r.git(ctx, "rev-parse", "--short", "HEAD")
		if err := errors.Join(counted, named); err != nil {
			return "", err
		}
		said = "v0.0.0-" + count + "-g" + commit
	}
	return versionOf(said, changed != "")
}

// versionOf reads what git describe --long says: a tag, commits since then, and the commit.
func versionOf(said string, changed bool) (string, error) {
	parts := regexp.MustCompile(`^(.+)-(\d+)-(g[0-9a-f]+)$`).FindStringSubmatch(said)
	if parts == nil {
		return "", fmt.Errorf("git describe says %q", said)
	}
	var more []string
	if parts[2] != "0" {
		more = parts[2:]
	}
	if changed {
		more = append(more, "changed")
	}
	if len(more) == 0 {
		return parts[1], nil
	}
	return parts[1] + "+" + strings.Join(more, "."), nil
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	return r.command(ctx, r.root, nil, "git", args...)
}

// golang runs Go, with settings that change what it builds as they are by default, whatever the
// environment and 'go env -w' say, and those that say where modules come from as they are here.
func (r *release) golang(ctx context.Context, t target, args ...string) (string, error) {
	said, err := r.command(ctx, r.root, nil, "go", "env", "-json", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GONOPROXY", "GOINSECURE", "GOVCS", "GOAUTH", "GOCACHE", "GOMODCACHE", "GOTOOLCHAIN")
	if err != nil {
		return "", err
	}
	var here map[string]string
	if err := json.Unmarshal([]byte(said), &here); err != nil {
		return "", err
	}
	env := append(os.Environ(), "GOENV=off", "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off")
	for name, value := range here {
		env = append(env, name+"="+value)
	}
	return r.command(ctx, r.root, env, "go", args...)
}

// command runs a program in a folder and returns what it prints; nil is this process's
// environment.
func (r *release) command(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) // #nosec G204 -- programs of this package
	var told bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, &told
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(told.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// build compiles the mesh for a target.
func (r *release) build(ctx context.Context, t target, binary string) error {
	_, err := r.golang(ctx, t, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X main.release="+r.version, "-o", binary, "./cmd/mesh")
	return err
}

// manuals has a binary of this machine write the manual pages and completions, without the
// settings of who builds, which it would tell as defaults.
func (r *release) manuals(ctx context.Context) error {
	here := target{runtime.GOOS, runtime.GOARCH}
	mesh := filepath.Join(r.work, here.binary())
	if err := r.build(ctx, here, mesh); err != nil {
		return err
	}
	env := []string{"TZ=UTC", "SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.time.Unix(), 10)}
	if _, err := r.command(ctx, r.work, env, mesh, "man", r.path("manuals", "man", "man1")); err != nil {
		return err
	}
	for shell, name := range map[string]string{"bash": "mesh", "zsh": "_mesh", "fish": "mesh.fish", "powershell": "mesh.ps1"} {
		script, err := r.command(ctx, r.work, env, mesh, "completion", shell)
		if err != nil {
			return err
		}
		if err := write(r.path("manuals", "completions", shell, name), []byte(script+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// path is one below the folder of work.
func (r *release) path(parts ...string) string {
	return filepath.Join(append([]string{r.work}, parts...)...)
}

// tree is where the files of a target are.
func (r *release) tree(t target) string { return r.path(t.os + "_" + t.arch) }

// name is that of a file of the release.
func (r *release) name(suffix string) string { return "agentmesh_" + r.version + "_" + suffix }

// write writes a file whose folder need not be there.
func write(path string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, mode)
}

// checksums writes those of all files, as sha256sum -c reads them.
func (r *release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), e.Name())
		log.Printf("%6.1f MB  %s", float64(len(data))/1e6, e.Name())
	}
	return write(filepath.Join(r.out, "checksums.txt"), []byte(sums.String()), 0o644)
}
