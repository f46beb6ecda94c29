package mail_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	meshmail "agentmesh/skills/mail"
)

// attachedTo is a message of the text, whose first attachment is within so many parts that it is not looked at, and
// whose second one is plain to see.
func attachedTo(text string, depth int) string {
	var b strings.Builder
	b.WriteString("From: bob@example.com\nSubject: Lunch\nContent-Type: multipart/mixed; boundary=m\n\n--m\nContent-Type: text/plain\n\n" + text + "\n--m\n")
	for i := range depth {
		fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=d%d\n\n--d%d\n", i, i)
	}
	b.WriteString("Content-Type: application/pdf\nContent-Disposition: attachment; filename=hidden.exe\n\nhidden\n")
	for i := range depth {
		fmt.Fprintf(&b, "--d%d--\n", depth-1-i)
	}
	b.WriteString("--m\nContent-Type: application/pdf\nContent-Disposition: attachment; filename=menu.pdf\n\nmenu\n--m--\n")
	return b.String()
}

// What is saved is the attachment that was listed, also where the server sees others before it.
func TestSave_savesTheAttachmentThatIsListed(t *testing.T) {
	for name, text := range map[string]string{"small": "x", "large": strings.Repeat("a long line of text for lunch\n", 10_000)} {
		t.Run(name, func(t *testing.T) {
			srv := newIMAP(t, nil)
			srv.receive(t, "INBOX", attachedTo(text, 10))
			drive := t.TempDir()
			b := setup(t, srv.account(t, nil), meshmail.WithFiles(drive, true))
			id := ids(t, b.Call("mail.search", "", nil))[0]
			if r := b.Call("mail.read", "", map[string]any{"id": id, "limit": "100"}); r.Failed() || strings.Contains(r.Content, "hidden") || !strings.Contains(r.Content, "menu.pdf (application/pdf,") || !strings.Contains(r.Content, "\nNote: ") {
				t.Errorf("it is read as %s", r.Content)
			}
			if r := b.Call("mail.save", "k", map[string]any{"id": id}); r.Failed() {
				t.Fatalf("%+v", r)
			}
			if data, err := os.ReadFile(filepath.Join(drive, "default", "menu.pdf")); err != nil || strings.TrimSpace(string(data)) != "menu" {
				t.Errorf("saved is %q: %v", data, err)
			}
		})
	}
}

// Of a text that is not fetched to its end, that is said.
func TestRead_saysThatALongTextIsCut(t *testing.T) {
	srv := newIMAP(t, nil)
	line := strings.Repeat("long ", 13) + "\n"
	srv.receive(t, "INBOX", "From: bob@example.com\nSubject: Long\n\n"+strings.Repeat(line, 10_000)+"the end\n")
	b := setup(t, srv.account(t, nil))
	id := ids(t, b.Call("mail.search", "", nil))[0]
	if r := b.Call("mail.read", "", map[string]any{"id": id}); r.Failed() || !strings.Contains(r.Content, "\nNote: it is longer than what is shown; the rest is left out\n") {
		t.Errorf("it is read as %.500s", r.Content)
	}
}

// Pages of a list join to the whole, by when mail arrived: whatever numbers it got when it was moved, and
// whatever date its sender gave it.
func TestSearch_pagesAreOfTheMailThatArrivedLast(t *testing.T) {
	srv := newIMAP(t, []string{"Old"})
	start := time.Date(2026, 11, 10, 8, 0, 0, 0, time.UTC)
	for i, age := range []int{1, 0, 3, 2, 5, 4, 4, 6} { // the last ones were moved here
		message := fmt.Sprintf("From: a@example.com\nSubject: n%d\nDate: %s\n\nx\n", i, start.Add(time.Duration(i)*time.Hour).Format(time.RFC1123Z))
		srv.receiveAt(t, []string{"INBOX", "Old"}[i/6], message, start.Add(-time.Duration(age)*time.Hour))
	}
	b := setup(t, srv.account(t, nil))
	whole := ids(t, b.Call("mail.search", "", nil))
	var pages []string
	for offset := range 8 {
		pages = append(pages, ids(t, b.Call("mail.search", "", map[string]any{"limit": "1", "offset": fmt.Sprint(offset)}))...)
	}
	if diff := cmp.Diff(whole, pages); diff != "" || len(whole) != 8 {
		t.Error(diff)
	}
	var subjects []string
	for line := range strings.SplitSeq(b.Call("mail.search", "", map[string]any{"folder": "inbox", "limit": "4"}).Content, "\n") {
		if _, rest, ok := strings.Cut(line, `: "`); ok {
			subjects = append(subjects, rest[:2])
		}
	}
	if diff := cmp.Diff([]string{"n1", "n0", "n3", "n2"}, subjects); diff != "" {
		t.Error(diff)
	}
}

// Without a word of the server, a folder of a usual name is the usual one where such folders are,
// and not one of that name within others.
func TestSearch_knowsTheUsualFolders(t *testing.T) {
	for want, folders := range map[string][]string{
		"Trash":                {"Customers/Acme/Trash", "Trash"},
		"INBOX/Trash":          {"Customers/Acme/Trash", "INBOX/Trash"},
		"[Mail]/Trash":         {"[Mail]/Trash"},
		"Trash Can/Bin":        {"Trash Can/Bin", "Trash Can/Other"},
		"Deleted Items":        {"A/Deleted Messages", "Deleted Items"},
		"INBOX/Deleted Items":  {"A/Trash", "INBOX/Deleted Items"},
		"Deleted Items/Bin":    {"Deleted Items/Bin"},
		"Customers/Acme/Trash": {"Customers/Acme/Trash"},
	} {
		t.Run(want, func(t *testing.T) {
			srv := newIMAP(t, folders)
			for _, folder := range folders {
				srv.receive(t, folder, "From: a@example.com\nSubject: "+folder+"\n\nx\n")
			}
			b := setup(t, srv.account(t, nil))
			if r := b.Call("mail.search", "", map[string]any{"folder": "trash"}); r.Failed() || r.Metadata["count"] != 1 || !strings.Contains(r.Content, fmt.Sprintf("%q (trash)", want)) {
				t.Errorf("in the trash is %s", r.Content)
			}
		})
	}
}
