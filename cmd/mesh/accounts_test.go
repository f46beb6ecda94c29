package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
)

// Accounts of the configuration are used by the skills for whom they are, and for nobody else.
func TestAccountsAreUsedForTheirOwners(t *testing.T) {
	nobody := rpctest.Free(t)
	cfg := &node.Config{Auth: "tokens", Tokens: "t", Data: t.TempDir(), Accounts: []node.Account{{
		User: "ann", IMAP: node.IMAP{Address: nobody, User: "ann", Password: "s3cret-pw", TLS: "none"},
		CalDAV: node.CalDAV{URL: "http://" + nobody + "/", User: "ann", Password: "s3cret-pw"},
	}}}
	if err := cfg.Fill(); err != nil {
		t.Fatal(err)
	}
	k, err := newKit(cfg, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.close(); err != nil {
			t.Error(err)
		}
	})
	handlers, err := k.handlers([]string{"mail", "calendar"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, server := range map[string]string{"mail.search": "mail server", "calendar.list": "calendar server"} {
		for user, want := range map[string]string{"ann": "The " + server + " 127.0.0.1 cannot be reached; try again later", "bob": ""} {
			_, err := skilltest.Do(t.Context(), handlers[name], &skill.Call{Skill: name, Key: "k"}, &skill.Env{Tenant: mesh.DefaultTenant, User: user, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
			if (err != nil) != (want != "") || !strings.Contains(mesh.DetailOf(err), want) {
				t.Errorf("%s for %s: %v, want %q", name, user, err, want)
			}
		}
	}
}
