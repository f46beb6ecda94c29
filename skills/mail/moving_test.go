package mail_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
)

// A message that the server does not copy stays where it is, and what looks like its copy and is
// not one never stands for it.
func TestMove_losesNothingThatIsNotMoved(t *testing.T) {
	same := strings.Replace(invoice, "Please pay.", "Another one.", 1)
	for name, tt := range map[string]struct {
		opts          []imapOption
		refuse        string
		before, after string // what somebody puts into the archive before the first call, and after it
		deleted       bool   // between the calls
	}{
		"by MOVE":                              {nil, "MOVE", "", "", false},
		"without MOVE":                         {[]imapOption{withoutMove}, "COPY", "", "", false},
		"one of its Message-ID was there":      {[]imapOption{withoutMove}, "COPY", same, "", false},
		"one of a longer Message-ID comes":     {[]imapOption{withoutMove}, "COPY", "", strings.Replace(same, "<7", "<17", 1), false},
		"it is deleted, and one was there":     {nil, "MOVE", same, "", true},
		"it is deleted, and a longer ID comes": {nil, "MOVE", "", strings.Replace(same, "<7", "<17", 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newIMAP(t, []string{"Work", "Archive"}, tt.opts...)
			srv.receive(t, "Work", invoice)
			others := 0
			put := func(message string) {
				if message != "" {
					srv.receive(t, "Archive", message)
					others++
				}
			}
			put(tt.before)
			b := setup(t, srv.account(t, nil))
			args := map[string]any{"id": ids(t, b.Call("mail.search", "", map[string]any{"folder": "Work"}))[0], "to": "archive"}
			srv.set(func() { srv.refuse = tt.refuse })
			if r := b.Call("mail.move", "k", args); !r.Failed() || !mesh.IsCode(r.Err, mesh.Exhausted) || srv.count(t, "Work") != 1 {
				t.Fatalf("refused, the call gave %+v; %d are left", r, srv.count(t, "Work"))
			}
			srv.set(func() { srv.refuse = "" })
			put(tt.after)
			if tt.deleted {
				if err := srv.user.Delete("Work"); err != nil {
					t.Fatal(err)
				}
				if r := b.Call("mail.move", "k", args); !r.Failed() || !mesh.IsCode(r.Err, mesh.NotFound) {
					t.Errorf("of a message that is gone, the call says %+v", r)
				}
				return
			}
			r := b.Call("mail.move", "k", args)
			if r.Failed() || srv.count(t, "Work") != 0 || srv.count(t, "Archive") != 1+others {
				t.Fatalf("the call gave %+v; %d are left, the archive has %d", r, srv.count(t, "Work"), srv.count(t, "Archive"))
			}
			if r := b.Call("mail.read", "", map[string]any{"id": r.Metadata["id"]}); r.Failed() || !strings.Contains(r.Content, "Please pay") {
				t.Errorf("the moved message is %+v", r)
			}
		})
	}
}

// A message that came under the same name meanwhile is not replaced.
func TestMove_inFoldersReplacesNothing(t *testing.T) {
	b := setup(t)
	b.receive(t, "a.eml", invoice)
	id := ids(t, b.Call("mail.search", "", nil))[0]
	archive := filepath.Join(b.dir, "archive")
	if err := os.Symlink("nowhere", archive); err != nil { // in the way, so that the call ends before its effect
		t.Fatal(err)
	}
	args := map[string]any{"id": id, "to": "archive"}
	if r := b.Call("mail.move", "k", args); !r.Failed() || !mesh.IsCode(r.Err, mesh.Unavailable) {
		t.Fatalf("%+v", r)
	}
	if err := errors.Join(os.Remove(archive), os.Mkdir(archive, 0o700), os.WriteFile(filepath.Join(archive, "a.eml"), []byte("another one"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := b.Call("mail.move", "k", args); r.Failed() || len(b.messages(t)) != 2 {
			t.Fatalf("%+v: %v", r, b.messages(t))
		} else if r := b.Call("mail.read", "", map[string]any{"id": r.Metadata["id"]}); !strings.Contains(r.Content, "Please pay") {
			t.Errorf("the moved message is %+v", r)
		}
	}
	if data, err := os.ReadFile(filepath.Join(archive, "a.eml")); string(data) != "another one" {
		t.Errorf("the other message is %q: %v", data, err)
	}
}

// A draft that the account has, which was noted and not yet taken away here when its process died, is only
// taken away, also where the user has moved or deleted it on the server since.
func TestDraft_isNotPutIntoTheAccountAgain(t *testing.T) {
	local := setup(t)
	if r := local.Call("mail.draft", "k", letterTo("bob@example.com")); r.Failed() || len(local.messages(t)) != 1 {
		t.Fatalf("%+v", r)
	}
	srv := newIMAP(t, []string{"Drafts"})
	b := setup(t, srv.account(t, nil))
	first := b.Call("mail.draft", "k", letterTo("bob@example.com"))
	if first.Failed() || srv.count(t, "Drafts") != 1 || len(b.messages(t)) != 0 {
		t.Fatalf("%+v", first)
	}
	if err := errors.Join(srv.user.Delete("Drafts"), srv.user.Create("Drafts", nil)); err != nil {
		t.Fatal(err)
	}
	name := local.messages(t)[0]
	data, err := os.ReadFile(filepath.Join(local.dir, name))
	if err = errors.Join(err, os.WriteFile(filepath.Join(b.dir, name), data, 0o600)); err != nil {
		t.Fatal(err)
	}
	again := b.Call("mail.draft", "k", letterTo("bob@example.com"))
	if diff := cmp.Diff(first, again); diff != "" || srv.count(t, "Drafts") != 0 || len(b.messages(t)) != 0 {
		t.Errorf("the account has %d, files are %v: %s", srv.count(t, "Drafts"), b.messages(t), diff)
	}
}
