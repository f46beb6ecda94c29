package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the one kind of package that is made
)

// debian packs the tree of a target as deploy/debian/nfpm.yaml says.
func (r *release) debian(t target) (err error) {
	config, err := nfpm.ParseFileWithEnvMapping(filepath.Join(r.root, "deploy", "debian", "nfpm.yaml"), func(name string) string {
		return map[string]string{"TREE": r.tree(t), "DEPLOY": filepath.Join(r.root, "deploy"), "ARCH": t.arch, "VERSION": r.version}[name]
	})
	if err != nil {
		return err
	}
	for _, script := range []*string{&config.Scripts.PostInstall, &config.Scripts.PreRemove, &config.Scripts.PostRemove} {
		*script = filepath.Join(r.root, "deploy", "debian", *script)
	}
	info, err := config.Get("deb")
	if err != nil {
		return err
	}
	info.MTime = r.time
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	packager, err := nfpm.Get("deb")
	if err != nil {
		return err
	}
	w, err := os.Create(filepath.Join(r.out, "agentmesh_"+strings.TrimPrefix(r.version, "v")+"_"+t.arch+".deb"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return packager.Package(info, w)
}
