// Command dist makes what a release consists of: for each system an archive with the
// binary, its manual pages, completions, documents and the licences of all that is inside,
// and a list of the modules that it is made of; for Linux a Debian package and a container
// image, too; and the checksums of all.
//
// # What it guarantees
//
// The same commit gives the same bytes, wherever and whenever it is built by the same Go:
// times are those of the commit, and nothing of this machine gets in. It needs Go, git and the Go
// module proxy, and neither a container daemon nor a registry of images.
//
// It is a module of its own, so that what it is made of is not in the mesh's go.mod.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	log.SetFlags(0)
	root := flag.String("root", "../..", "`folder` of the mesh's module")
	out := flag.String("out", ".build/dist", "`folder` to fill, below that of the module; what is in it is removed")
	targets := flag.String("targets", strings.Join(allTargets, ","), "`systems` to build for, as linux/amd64")
	version := flag.String("version", "", "`version` to bear, as v1.2.3; otherwise git is asked")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *root, *out, *version, strings.Split(*targets, ","))
	stop()
	if err != nil {
		log.Fatalf("dist: %v", err)
	}
}

// run makes a release for the targets in out, which is below root unless it is absolute.
func run(ctx context.Context, root, out, version string, targets []string) error {
	r, err := newRelease(ctx, root, version)
	if err != nil {
		return err
	}
	if r.out = filepath.Clean(out); !filepath.IsAbs(out) {
		r.out = filepath.Join(r.root, out)
	}
	if r.within(r.out) {
		return fmt.Errorf("the folder to fill is %q, which has the module in it and would be emptied; name one of its own with -out, as .build/dist", out)
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "dist-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.work) }() // the system removes it otherwise
	log.Printf("agentmesh %s of %s", r.version, r.time.Format("2006-01-02 15:04:05"))
	if err := r.manuals(ctx); err != nil {
		return err
	}
	var linux []target
	for _, name := range targets {
		t, err := parseTarget(name)
		if err != nil {
			return err
		}
		if err := r.system(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if t.os == "linux" {
			linux = append(linux, t)
		}
	}
	if len(linux) > 0 {
		if err := r.image(linux); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	return r.checksums()
}

// within reports whether the folder is that of the module or above it, by whatever name.
func (r *release) within(dir string) bool {
	there, err := os.Stat(dir)
	if err != nil {
		return false
	}
	for at, above := r.root, ""; at != above; at, above = filepath.Dir(at), at {
		if here, err := os.Stat(at); err == nil && os.SameFile(here, there) {
			return true
		}
	}
	return false
}

// system makes all that is for one system alone.
func (r *release) system(ctx context.Context, t target) error {
	if err := r.stage(ctx, t); err != nil {
		return err
	}
	if err := r.archive(t); err != nil {
		return err
	}
	if err := r.contents(ctx, t); err != nil {
		return err
	}
	if t.os == "linux" {
		return r.debian(t)
	}
	return nil
}
