package mail_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	meshmail "agentmesh/skills/mail"
)

// takeAll empties a folder as whoever hands its mail on does.
func (b *bench) takeAll(t *testing.T, folder string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(b.dir, folder)); err != nil {
		t.Fatal(err)
	}
}

// Whoever takes the mail out of a folder does not make a repeated call send or
// write it again, with whatever arguments, process and configuration it comes.
func TestSend_remembersItsKeyWhenTheFolderIsEmptied(t *testing.T) {
	srv := newServer(t)
	viaServer := []meshmail.Option{srv.transport(t)}
	for folder, tt := range map[string]struct {
		skill         string
		first, second []meshmail.Option
	}{
		meshmail.Outbox:         {"mail.send", nil, nil},
		meshmail.Outbox + "/./": {"mail.send", nil, viaServer},
		meshmail.Sent:           {"mail.send", viaServer, viaServer},
		meshmail.Sent + "/./":   {"mail.send", viaServer, nil},
		meshmail.Drafts:         {"mail.draft", nil, nil},
	} {
		t.Run(folder+" "+tt.skill, func(t *testing.T) {
			before := len(srv.accepted())
			b := setup(t, tt.first...)
			first := b.Call(tt.skill, "k", letterTo("bob@example.com"))
			if first.Failed() {
				t.Fatal(first.Content)
			}
			sent := len(srv.accepted())
			b.takeAll(t, filepath.Clean(folder))
			for _, to := range []string{"bob@example.com", "eve@example.com"} {
				again := setupAt(t, b.dir, tt.second...).Call(tt.skill, "k", letterTo(to))
				if again.Failed() || !strings.Contains(again.Content, `"Report" to bob@example.com`) || !strings.Contains(again.Content, "taken") || len(again.Files) > 0 {
					t.Errorf("the repeated call gave %+v", again)
				}
				if diff := cmp.Diff(first.Metadata, again.Metadata); diff != "" {
					t.Error(diff)
				}
			}
			if got := b.messages(t); len(got) != 0 || len(srv.accepted()) != sent || sent > before+1 {
				t.Errorf("files are %v, the server has %d messages more", got, len(srv.accepted())-before)
			}
			if r := b.Call(tt.skill, "k2", letterTo("bob@example.com")); r.Failed() || len(r.Files) != 1 {
				t.Errorf("another call gave %+v", r)
			}
		})
	}
}

// A delivery of unknown outcome stays so when its file is gone.
func TestSend_remembersAnUnknownOutcome(t *testing.T) {
	srv := newServer(t)
	srv.set(func() { srv.cut = true })
	b := setup(t, srv.transport(t))
	b.send("k", "default", letterTo("bob@example.com"))
	srv.set(func() { srv.cut = false })
	b.takeAll(t, meshmail.Sending)
	if r := b.send("k", "default", letterTo("bob@example.com")); !r.Failed() || r.Metadata["outcome"] != "unknown" || len(srv.accepted()) != 1 {
		t.Errorf("%+v; the server has %d messages", r, len(srv.accepted()))
	}
}

// A process that dies between deciding and doing leaves what the next call of
// the key does, once.
func TestSend_finishesWhatADeathLeft(t *testing.T) {
	b := setup(t)
	first := b.send("k", "default", letterTo("bob@example.com"))
	dir, file := filepath.Split(filepath.Join(b.dir, first.Files[0]))
	if err := os.Rename(filepath.Join(dir, file), filepath.Join(dir, "."+file+".staged")); err != nil {
		t.Fatal(err)
	}
	if again := b.send("k", "default", letterTo("bob@example.com")); cmp.Diff(first, again) != "" || len(b.messages(t)) != 1 {
		t.Errorf("%+v, files are %v", again, b.messages(t))
	}
	// Died before it was noted: nothing was decided, and what was begun goes.
	if err := os.RemoveAll(filepath.Join(b.dir, ".mail-keys")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, file), filepath.Join(dir, "."+file+".staged")); err != nil {
		t.Fatal(err)
	}
	if again := b.send("k", "default", letterTo("eve@example.com")); !strings.Contains(again.Content, "eve@example.com") || len(b.messages(t)) != 1 {
		t.Errorf("%+v, files are %v", again, b.messages(t))
	}
	// Accepted and noted, but not moved.
	srv := newServer(t)
	s := setup(t, srv.transport(t))
	first = s.send("k", "default", letterTo("bob@example.com"))
	name := filepath.Base(first.Files[0])
	if err := os.Rename(filepath.Join(s.dir, "sent", name), filepath.Join(s.dir, "sending", name)); err != nil {
		t.Fatal(err)
	}
	if again := s.send("k", "default", letterTo("bob@example.com")); cmp.Diff(first, again) != "" || len(srv.accepted()) != 1 {
		t.Errorf("%+v, files are %v", again, s.messages(t))
	}
}

// Messages of a version that kept no ledger are known by their files.
func TestSend_knowsMailFromBeforeTheLedger(t *testing.T) {
	b := setup(t)
	first := b.send("k", "default", letterTo("bob@example.com"))
	b.takeAll(t, ".mail-keys")
	if again := b.send("k", "default", letterTo("eve@example.com")); cmp.Diff(first, again) != "" {
		t.Errorf("%+v", again)
	}
}

func TestSend_isOnceAmongMany(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			b := setupAt(t, dir)
			if r := b.send(fmt.Sprint(i%3), "default", letterTo(fmt.Sprintf("p%d@example.com", i))); r.Failed() {
				t.Error(r.Content)
			}
		})
	}
	wg.Wait()
	if got := setupAt(t, dir).messages(t); len(got) != 3 {
		t.Errorf("files are %v", got)
	}
}

// A page that declares less lets nothing be sent to nobody.
func TestSend_needsSomebody(t *testing.T) {
	b := setup(t)
	for _, to := range []any{",", []any{" "}, []any{int64(5)}, "friends:;"} {
		if r := b.Call("mail.send", "k", map[string]any{"to": to, "subject": "s", "body": "b"}); !r.Failed() || len(b.messages(t)) != 0 {
			t.Errorf("%v: %+v", to, r)
		}
	}
}
