package auth_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/internal/logbuffer"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
)

// A reloading token file, with a clock of its own.
type reloading struct {
	*auth.Tokens
	t    *testing.T
	path string
	logs *logbuffer.Buffer
	acts []string // that were told, which may be read after pass
}

// reload runs f with the tokens of the file, which are read again while it runs.
func reload(t *testing.T, file string, f func(t *testing.T, r *reloading)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &reloading{t: t, path: write(t, file), logs: new(logbuffer.Buffer)}
		logger := slog.New(slog.NewTextHandler(r.logs, nil))
		var err error
		if r.Tokens, err = auth.LoadTokens(r.path, nil, auth.WithLogger(logger, alarm.New(logger, nil)),
			auth.WithAudit(func(act string, p mesh.Principal) { r.acts = append(r.acts, act+" "+p.Credential+" "+p.User) })); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		f(t, r)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// becomes replaces the file, and waits as long as that may take to be noticed.
func (r *reloading) becomes(file string) {
	r.t.Helper()
	if err := os.Rename(write(r.t, file), r.path); err != nil {
		r.t.Fatal(err)
	}
	r.pass(5 * time.Second)
}

// pass lets time pass, and what is due happen.
func (r *reloading) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *reloading) login(token string) (mesh.Principal, error) {
	return r.Authenticate(r.t.Context(), rpc.Credentials{Authorization: "Bearer token-" + token})
}

const (
	ann = "- {name: ann, hash: HASH-A, tenant: acme, user: ann, roles: [user]}\n"
	bob = "- {name: bob, hash: HASH-B, tenant: acme, user: bob, roles: [viewer]}\n"
)

// finding T9: it is told which credentials come and go, each once, and who refused them
// is known although the call is not allowed.
func TestItIsToldWhichCredentialsComeAndGo(t *testing.T) {
	reload(t, ann, func(t *testing.T, r *reloading) {
		r.becomes(ann + bob)
		r.becomes(bob + strings.Replace(ann, "roles", "expires: 2000-01-01T00:01:00Z, roles", 1))
		r.pass(5 * time.Minute)
		p, err := r.login("A")
		if !mesh.IsCode(err, mesh.Unauthenticated) || p.Credential != "token:ann" {
			t.Errorf("an expired token is %q's, %v", p.Credential, err)
		}
		want := []string{"credential.added token:bob bob", "credential.added token:ann ann", "credential.revoked token:ann ann", "credential.expired token:ann ann"}
		if !slices.Equal(r.acts, want) {
			t.Errorf("told were %q, want %q", r.acts, want)
		}
	})
}

// finding T10: what is removed, disabled or given other roles ends within 5 s, with what
// was begun under it, and nothing else does.
func TestTokensEndWithTheirEntries(t *testing.T) {
	for name, without := range map[string]string{
		"removed":     bob,
		"disabled":    bob + strings.Replace(ann, "roles", "disabled: true, roles", 1),
		"expired":     bob + strings.Replace(ann, "roles", "expires: 1999-12-31, roles", 1),
		"not yet":     bob + strings.Replace(ann, "roles", "not_before: 2001-01-01, roles", 1),
		"another one": bob + strings.Replace(ann, "HASH-A", "HASH-O", 1),
	} {
		reload(t, ann+bob, func(t *testing.T, r *reloading) {
			was, err := r.login("A")
			other, err2 := r.login("B")
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			r.becomes(without)
			if _, err := r.login("A"); !mesh.IsCode(err, mesh.Unauthenticated) {
				t.Errorf("%s: a login: %v", name, err)
			}
			if was.Ended.Err() == nil {
				t.Errorf("%s: what was begun goes on", name)
			}
			if p, err := r.login("B"); err != nil || p.Ended != other.Ended || other.Ended.Err() != nil {
				t.Errorf("%s: another token: %+v, %v", name, p, err)
			}
		})
	}
	reload(t, ann+bob, func(t *testing.T, r *reloading) {
		was, _ := r.login("A")
		r.becomes(bob + strings.Replace(ann, "[user]", "[user, skill-author]", 1))
		if p, err := r.login("A"); err != nil || !p.Can(mesh.ActCreateSkill) || was.Ended.Err() == nil {
			t.Errorf("with another role: %+v, %v", p, err)
		}
	})
}

func TestATokenCountsFromWhenToWhenItSays(t *testing.T) {
	// A bubble begins at midnight UTC 2000-01-01.
	reload(t, "- {name: a, hash: HASH-A, tenant: acme, user: ann, roles: [user], not_before: 2000-01-02, expires: 2000-01-03T12:00:00Z}\n", func(t *testing.T, r *reloading) {
		if _, err := r.login("A"); !mesh.IsCode(err, mesh.Unauthenticated) || !strings.Contains(mesh.DetailOf(err), "counts from 2000-01-02T00:00:00Z") {
			t.Errorf("too early: %v", err)
		}
		r.pass(24 * time.Hour)
		p, err := r.login("A")
		if err != nil {
			t.Fatal(err)
		}
		r.pass(36*time.Hour - time.Second)
		if p.Ended.Err() != nil {
			t.Error("it ended before it should")
		}
		r.pass(5 * time.Second)
		if _, err := r.login("A"); !mesh.IsCode(err, mesh.Unauthenticated) || !strings.Contains(mesh.DetailOf(err), "expired at 2000-01-03T12:00:00Z") {
			t.Errorf("too late: %v", err)
		}
		if p.Ended.Err() == nil {
			t.Error("what was begun goes on after the end")
		}
	})
}

// A file that cannot be used, as one that is only half written, changes nothing and is
// told once.
func TestABadEditKeepsTheTokensOfBefore(t *testing.T) {
	reload(t, ann+bob, func(t *testing.T, r *reloading) {
		was, _ := r.login("A")
		for name, bad := range map[string]string{
			"half written": ann[:20], "empty": "", "an unknown role": strings.Replace(ann, "[user]", "[fly]", 1), "a day that is none": strings.Replace(ann, "roles", "expires: soon, roles", 1),
		} {
			r.becomes(ann + bob)
			r.logs.Take()
			r.becomes(bad)
			if _, err := r.login("A"); err != nil || was.Ended.Err() != nil {
				t.Errorf("%s: %v, %v", name, err, was.Ended.Err())
			}
			told := r.logs.Take()
			if n := strings.Count(told, "level=ERROR"); n != 1 || strings.Contains(told, "token-A") {
				t.Errorf("%s: it was told %d times: %s", name, n, told)
			}
		}
		for name, spoil := range map[string]func() error{
			"writable by others": func() error { return os.Chmod(r.path, 0o622) },
			"gone":               func() error { return os.Remove(r.path) },
		} {
			r.becomes(ann + bob)
			r.logs.Take()
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			r.pass(5 * time.Second)
			if told := r.logs.Take(); strings.Count(told, "level=ERROR") != 1 {
				t.Errorf("%s: %s", name, told)
			}
			if _, err := r.login("B"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		r.becomes(bob)
		if _, err := r.login("A"); err == nil || was.Ended.Err() == nil {
			t.Error("a file that is right again is not read")
		}
	})
}

func TestATokenFileThatOthersMayWriteIsRefused(t *testing.T) {
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o644: true, 0o640: true, 0o660: false, 0o602: false, 0o666: false} {
		path := write(t, ann)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := auth.LoadTokens(path, nil); (err == nil) != ok || err != nil && !mesh.IsCode(err, mesh.Precondition) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}
