package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of this binary and of what it is built on",
		Example: `  mesh version`,
		Args:    nothing,
		RunE: a.action(func(context.Context, []string) error {
			info, _ := debug.ReadBuildInfo()
			a.printf("%s", versionText(info))
			return nil
		}),
	}
}

// release is the version of a released binary, which the linker sets (deploy/dist). Others
// have what go build knows of them.
var release string

// versionOf is the binary's version.
func versionOf(info *debug.BuildInfo) string {
	if release != "" {
		return release
	}
	if info == nil || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// versionLine is what --version prints: the first line of what 'mesh version' does.
func versionLine() string {
	info, _ := debug.ReadBuildInfo()
	line, _, _ := strings.Cut(versionText(info), "\n")
	return line
}

// protocols are the modules whose version decides who can talk to whom.
var protocols = []string{
	"github.com/a2aproject/a2a-go/v2",
	"google.golang.org/grpc",
	"google.golang.org/protobuf",
}

// versionText returns what info says; info may be nil.
func versionText(info *debug.BuildInfo) string {
	if info == nil {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	version := versionOf(info)
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if rev := settings["vcs.revision"]; rev != "" && !strings.Contains(version, rev[:min(12, len(rev))]) {
		version += " " + rev[:min(12, len(rev))]
		if settings["vcs.modified"] == "true" {
			version += " with changes"
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "mesh %s\n%s %s/%s\n", version, info.GoVersion, runtime.GOOS, runtime.GOARCH)
	for _, dep := range info.Deps {
		if slices.Contains(protocols, dep.Path) {
			fmt.Fprintf(&b, "%s %s\n", dep.Path, dep.Version)
		}
	}
	return b.String()
}
