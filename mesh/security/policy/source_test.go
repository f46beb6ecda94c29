package policy_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/internal/logbuffer"
	"agentmesh/mesh/security/policy"
)

// A reloading folder, with a clock of its own.
type reloading struct {
	*policy.Source
	t       *testing.T
	dir     string
	logs    *logbuffer.Buffer
	changed atomic.Int32
}

func reload(t *testing.T, f func(t *testing.T, r *reloading)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &reloading{t: t, dir: folder(t, map[string]string{"a.cedar": noChat}), logs: new(logbuffer.Buffer)}
		logger := slog.New(slog.NewTextHandler(r.logs, nil))
		var err error
		if r.Source, err = policy.Open(r.dir, logger, alarm.New(logger, nil)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx, func() { r.changed.Add(1) }) }()
		f(t, r)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// pass lets time pass in which a change is to be noticed.
func (r *reloading) pass() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func (r *reloading) chat() string {
	_, err := r.Judge("test", policy.Request{Principal: ann(mesh.RoleUser), Action: mesh.ActChat, Name: "main"}, nil)
	return mesh.PolicyOf(err)
}

const (
	noChat = `@id("no-chat") forbid(principal, action == Action::"chat.send", resource);` + "\n"
	noRead = `@id("no-read") forbid(principal, action == Action::"thread.read.own", resource);` + "\n"
)

// What is added, changed and removed counts soon, and nothing is read when nothing changes.
func TestAFolderIsReadAgainWhenItChanges(t *testing.T) {
	reload(t, func(t *testing.T, r *reloading) {
		if r.chat() != "no-chat" {
			t.Fatal("the policy is not there")
		}
		r.pass()
		if r.changed.Load() != 0 || r.logs.Take() != "" {
			t.Error("it was read without a change")
		}
		put(t, r.dir, "a.cedar", strings.Replace(noChat, "no-chat", "not-now", 1))
		r.pass()
		if r.chat() != "not-now" || r.changed.Load() != 1 {
			t.Errorf("it is %q after %d changes", r.chat(), r.changed.Load())
		}
		if err := os.Remove(filepath.Join(r.dir, "a.cedar")); err != nil {
			t.Fatal(err)
		}
		r.pass()
		if r.chat() != "" || r.changed.Load() != 2 {
			t.Errorf("removed, it is %q after %d changes", r.chat(), r.changed.Load())
		}
		put(t, r.dir, "acme/own.cedar", noChat)
		r.pass()
		if r.chat() != "acme/no-chat" || r.changed.Load() != 3 {
			t.Errorf("the tenant's is %q after %d changes", r.chat(), r.changed.Load())
		}
	})
}

// A folder with a mistake changes nothing, and is told once, with file, line and column.
func TestABadEditKeepsThePoliciesOfBefore(t *testing.T) {
	reload(t, func(t *testing.T, r *reloading) {
		for name, tt := range map[string]struct {
			spoil func() error
			says  string
		}{
			"half written": {func() error { return os.WriteFile(filepath.Join(r.dir, "a.cedar"), []byte("\n"+noChat[:40]), 0o600) }, "a.cedar:2:"},
			"an unknown action": {func() error {
				return os.WriteFile(filepath.Join(r.dir, "a.cedar"), []byte(strings.Replace(noChat, "chat.send", "fly", 1)), 0o600)
			}, "a.cedar:1:1"},
			"writable by others": {func() error { return os.Chmod(filepath.Join(r.dir, "a.cedar"), 0o622) }, "chmod go-w"},
			"a link to nothing":  {func() error { return os.Symlink("gone", filepath.Join(r.dir, "b.cedar")) }, "b.cedar"},
			"no tenant":          {func() error { return os.Mkdir(filepath.Join(r.dir, "no tenant"), 0o700) }, "no tenant"},
			"no folder":          {func() error { return os.RemoveAll(r.dir) }, "cannot be read"},
		} {
			if err := tt.spoil(); err != nil {
				t.Fatal(err)
			}
			r.pass()
			r.pass()
			if told := r.logs.Take(); strings.Count(told, "level=ERROR") != 1 || !strings.Contains(told, tt.says) {
				t.Errorf("%s: it was told %q", name, told)
			}
			if r.chat() != "no-chat" {
				t.Errorf("%s: the policy is %q", name, r.chat())
			}
			if err := os.RemoveAll(r.dir); err != nil {
				t.Fatal(err)
			}
			put(t, r.dir, "a.cedar", noChat)
			r.pass()
			if told := r.logs.Take(); !strings.Contains(told, "read again") || strings.Contains(told, "ERROR") || r.chat() != "no-chat" {
				t.Errorf("%s: mended, it was told %q, and the policy is %q", name, told, r.chat())
			}
		}
	})
}

// What is there of a file that is being written may be whole policies: they do not count
// before it stays as it is.
func TestAFileIsNotReadWhileItIsWritten(t *testing.T) {
	reload(t, func(t *testing.T, r *reloading) {
		f, err := os.Create(filepath.Join(r.dir, "a.cedar"))
		if err != nil {
			t.Fatal(err)
		}
		for range 10 { // without the policy that is to stay
			if _, err := f.WriteString(noRead[strings.Index(noRead, "forbid"):]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(700 * time.Millisecond)
			synctest.Wait()
			if r.chat() != "no-chat" {
				t.Fatal("the beginning of a file counts")
			}
		}
		if _, err := f.WriteString(noChat); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		r.pass()
		if r.chat() != "no-chat" || r.changed.Load() != 1 {
			t.Errorf("the policy is %q after %d changes", r.chat(), r.changed.Load())
		}
	})
}

// Decisions and changes at the same time: each decision is by one set.
func TestPoliciesChangeUnderLoad(t *testing.T) {
	dir := folder(t, map[string]string{"a.cedar": noChat + noRead})
	src, err := policy.Open(dir, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	changed := make(chan struct{})
	working.Go(func() {
		_ = src.Run(ctx, func() { changed <- struct{}{} })
	})
	for range 2 {
		working.Go(func() {
			for ctx.Err() == nil {
				set := src.Set()
				_, chat := set.Judge("test", policy.Request{Principal: ann(), Action: mesh.ActChat, Name: "main"}, nil)
				_, read := set.Judge("test", policy.Request{Principal: ann(), Action: mesh.ActReadOwn}, nil)
				if a, b := mesh.PolicyOf(chat), mesh.PolicyOf(read); strings.TrimPrefix(a, "no-chat") != strings.TrimPrefix(b, "no-read") {
					t.Errorf("one set has %q and %q", a, b)
					return
				}
			}
		})
	}
	for i := range 2 {
		version := fmt.Sprint("-", i)
		put(t, dir, "a.cedar", strings.Replace(noChat, "no-chat", "no-chat"+version, 1)+strings.Replace(noRead, "no-read", "no-read"+version, 1))
		<-changed
	}
	stop()
	working.Wait()
}
