package mail_test

import (
	"strings"
	"testing"

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
