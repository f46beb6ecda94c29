//go:build unix

package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// fullEnv, when set, makes the test binary a process whose data folder, of which
// it names the file, has no room for a while: files end at limitEnv.
const (
	fullEnv  = "DISK_TEST_FULL"
	limitEnv = "DISK_TEST_LIMIT"
)

// The file system itself refuses to let the file grow, as a full disk does. No
// append is half there, and without a restart the store writes again when there
// is room.
func TestAFullDiskIsOutlivedWithoutARestart(t *testing.T) {
	for name, limit := range map[string]string{"in a segment": "700000", "behind one": "1048576"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "mesh.db")
			cmd := exec.Command(os.Args[0]) // a limit of its own, which would hit other tests here
			cmd.Env = append(os.Environ(), fullEnv+"="+path, limitEnv+"="+limit)
			out, err := cmd.CombinedOutput()
			var taken int
			if _, scanErr := fmt.Sscanf(string(out), "taken %d\n", &taken); err != nil || scanErr != nil {
				t.Fatalf("%v, %v: %s", err, scanErr, out)
			}
			recs, err := openAt(t, path).Scan(t.Context(), 0, 1000)
			if err != nil || len(recs) != taken {
				t.Errorf("%d appends were acknowledged, and there are %d: %v", taken, len(recs), err)
			}
		})
	}
}

// full fills the log up to its limit, and tells how many appends were taken.
func full(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	taken := 0
	add := func() error {
		b := &threadlog.Batch{Entries: []threadlog.Entry{{ID: fmt.Sprint("n", taken), Data: []byte(strings.Repeat("x", 32<<10))}}}
		_, err := s.Append(context.Background(), logtest.Key(1), b)
		if err == nil {
			taken++
		}
		return err
	}
	if err := add(); err != nil {
		return err
	}
	limit, err := strconv.ParseUint(os.Getenv(limitEnv), 10, 64)
	if err != nil {
		return err
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: was.Max}); err != nil {
		return err
	}
	for err = nil; err == nil && taken < 2000; {
		err = add()
	}
	for range 3 {
		if err := add(); !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) == "" {
			return fmt.Errorf("on a full disk: %w", err)
		}
	}
	if recs, err := s.Read(context.Background(), logtest.Key(1), 0, 2000); err != nil || len(recs) == 0 {
		return fmt.Errorf("on a full disk %d are read: %w", len(recs), err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	for range 3 {
		if err := add(); err != nil {
			return fmt.Errorf("with room again: %w", err)
		}
	}
	fmt.Println("taken", taken)
	return errors.Join(s.Close())
}

// What is acknowledged is synced: a kill does not show it, a power cut would.
func TestCommitsAreSynced(t *testing.T) {
	s := openNew(t)
	var calls []string
	s.disk().on(func(c call) error {
		calls = append(calls, map[bool]string{false: "write", true: "sync"}[c.sync]+" "+filepath.Base(filepath.Dir(c.file.Name())))
		return nil
	})
	for range 2 {
		if _, err := s.Append(t.Context(), logtest.Key(1), fact("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.PutState(t.Context(), state.Key{Kind: "k", Name: "x"}, []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	s.disk().on(nil)
	if want := slices.Repeat([]string{"write mesh.log", "sync mesh.log"}, 3); !slices.Equal(calls, want) {
		t.Errorf("three commits did %q, want %q", calls, want)
	}
	if s.db.NoSync || s.db.NoGrowSync {
		t.Error("the file of values is written without syncs")
	}
}
