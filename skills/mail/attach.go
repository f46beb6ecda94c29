package mail

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"mime"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/emersion/go-message"
	gomail "github.com/emersion/go-message/mail"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/outfile"
	"agentmesh/skills/internal/tenantdir"
	"agentmesh/skills/mail/imapbox"
)

// Bounds of attachments.
const (
	maxAttached = 20       // files of a message that is sent
	maxFiles    = 20 << 20 // bytes of them together, which most servers take as they are sent
	maxSaved    = 25 << 20 // bytes of one that is saved
)

// A file is one that is sent along.
type file struct {
	name string
	data []byte
}

// attachedPaths reads which files of the drive are sent along.
func attachedPaths(call *skill.Call) ([]string, error) {
	var paths []string
	for _, text := range flags.List(call, "attach") {
		name, err := tenantdir.Clean(call.Skill, "attach", text)
		switch {
		case err != nil:
			return nil, err
		case name == ".":
			return nil, mesh.InvalidField(call.Skill, "attach", "names the drive itself; name files, as reports/may.pdf")
		case !slices.Contains(paths, name):
			paths = append(paths, name)
		}
	}
	if len(paths) > maxAttached {
		return nil, mesh.InvalidField(call.Skill, "attach", "names %d files; at most %d are sent along", len(paths), maxAttached)
	}
	return paths, nil
}

// attached reads the files of those paths.
func (p *post) attached(call *skill.Call, env *skill.Env, paths []string) (files []file, err error) {
	if len(paths) == 0 {
		return nil, nil
	}
	root, err := p.drive(call, env)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // only read
	room := int64(maxFiles)
	for _, name := range paths {
		data, err := root.Read(name, maxFiles)
		if err != nil {
			return nil, mesh.Wrap(call.Skill, err)
		}
		if room -= int64(len(data)); room < 0 {
			return nil, mesh.InvalidField(call.Skill, "attach", "names files of more than %d MiB together, more than most servers take", maxFiles>>20)
		}
		files = append(files, file{name: path.Base(name), data: data})
	}
	return files, nil
}

// compound writes a message that has files beside its text.
func compound(b *bytes.Buffer, h gomail.Header, body string, files []file) error {
	w, err := gomail.CreateWriter(b, h)
	if err != nil {
		return err
	}
	var text gomail.InlineHeader
	text.SetContentType("text/plain", map[string]string{"charset": "utf-8"})
	part, err := w.CreateSingleInline(text)
	if err != nil {
		return err
	}
	if err := written(part, []byte(body)); err != nil {
		return err
	}
	for _, f := range files {
		var h gomail.AttachmentHeader
		kind, _, err := mime.ParseMediaType(mime.TypeByExtension(path.Ext(f.name)))
		if err != nil || strings.HasPrefix(kind, "multipart/") || strings.HasPrefix(kind, "message/") {
			kind = "application/octet-stream"
		}
		h.SetContentType(kind, nil)
		h.SetFilename(f.name)
		h.Set("Content-Transfer-Encoding", "base64")
		part, err := w.CreateAttachment(h)
		if err != nil {
			return err
		}
		if err := written(part, f.data); err != nil {
			return err
		}
	}
	return w.Close()
}

func written(w io.WriteCloser, data []byte) error {
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Close()
}

// listed names the attachments that are shown.
func (l *letter) listed() string {
	var names []string
	for _, a := range l.attachments[:min(len(l.attachments), maxAttachment)] {
		names = append(names, a.String())
	}
	return strings.Join(names, "; ")
}

// choose finds the attachment that is asked for: by its name or its number, or the only one.
func (l *letter) choose(call *skill.Call) (int, error) {
	want := strings.TrimSpace(flags.Text(call, "attachment"))
	n := len(l.attachments)
	if n == 0 {
		return 0, mesh.Errorf(mesh.Precondition, call.Skill, "The message has no attachment")
	}
	if want == "" && n == 1 {
		return 0, nil
	}
	named := func(a attachment) bool { return strings.EqualFold(a.name, want) }
	if i := slices.IndexFunc(l.attachments, named); i >= 0 && !slices.ContainsFunc(l.attachments[i+1:], named) {
		return i, nil
	}
	if i, err := strconv.Atoi(want); err == nil && i >= 1 && i <= n {
		return i - 1, nil
	}
	return 0, mesh.InvalidField(call.Skill, "attachment", "must be the name or the number of one of %s, and is %q", l.listed(), mesh.Clip(want, maxShown))
}

// save puts an attachment into the drive.
func (p *post) save(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	if err := flags.Require(call, "id"); err != nil {
		return nil, err
	}
	overwrite, err := flags.Bool(call, "overwrite")
	if err != nil {
		return nil, err
	}
	a, data, err := p.content(ctx, call, env, strings.TrimSpace(flags.Text(call, "id")))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSaved {
		return nil, mesh.Errorf(mesh.Invalid, call.Skill, "The attachment has %d bytes; at most %d are saved", len(data), maxSaved)
	}
	to, err := tenantdir.Clean(call.Skill, "path", cmp.Or(flags.Text(call, "path"), path.Base(strings.ReplaceAll(a.name, `\`, "/"))))
	if err != nil {
		return nil, err
	}
	root, err := p.drive(call, env)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // what was written is on the disk
	done, err := root.Change(ctx, tenantdir.Change{
		Name: to, Key: call.Key, Most: maxSaved,
		Edit: func(_ []byte, exists bool) ([]byte, error) {
			if exists && !overwrite {
				return nil, mesh.Errorf(mesh.Precondition, call.Skill, "The drive has a file %s already; give another --path, or replace it with --overwrite", mesh.Clip(to, maxShown))
			}
			return data, nil
		},
	})
	if err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	return &skill.Result{
		Content:  fmt.Sprintf("The attachment %s is in the drive as %s (%d bytes).", a.name, shown(done.Name), done.Size),
		Metadata: map[string]any{"path": done.Name, "version": done.Version, "size": done.Size},
	}, nil
}

// content is the attachment that the call asks for.
func (p *post) content(ctx context.Context, call *skill.Call, env *skill.Env, id string) (a attachment, data []byte, err error) {
	if box := p.accounts[env.Owner()].Box; box != nil && imapbox.IsID(id) {
		return contentIn(ctx, box, call, env, id)
	}
	e, err := p.find(env.Owner(), id)
	if err != nil {
		return a, nil, err
	}
	l, err := p.open(ctx, env, e, maxWhole)
	if err != nil {
		return a, nil, err
	}
	i, err := l.choose(call)
	if err != nil {
		return a, nil, err
	}
	f, err := outfile.Open(p.folder(e.folder, env.Owner()), e.file)
	if err != nil {
		return a, nil, gone(id)
	}
	defer func() { _ = f.Close() }() // only read
	if _, data, err = pick(f, maxWhole, i); err != nil {
		return a, nil, damaged(call, err)
	}
	return l.attachments[i], data, nil
}

// contentIn is the same of a message in an account. Senders can write messages that servers and we
// divide into parts differently: what is saved is what was listed, or nothing.
func contentIn(ctx context.Context, box *imapbox.Account, call *skill.Call, env *skill.Env, id string) (a attachment, data []byte, err error) {
	whole := false // the message is here
	raw, err := box.Attachment(ctx, id, func(m *imapbox.Message) (int, error) {
		l := received(id, m, env.Now())
		i, err := l.choose(call)
		switch {
		case err != nil:
			return 0, err
		case m.Sizes != nil && len(m.Sizes) != len(l.attachments):
			return 0, disputed(call)
		}
		if a = l.attachments[i]; m.Sizes != nil {
			return i, nil
		}
		if m.Cut {
			return 0, mesh.Errorf(mesh.Precondition, call.Skill, "The server does not tell the parts of the message well enough, and it is too long to be fetched whole; save the attachment with a mail program")
		}
		if _, data, err = pick(bytes.NewReader(m.Raw), maxWhole, i); err != nil {
			return 0, damaged(call, err)
		}
		whole = true
		return -1, nil
	})
	if whole || err != nil {
		return a, data, mesh.Wrap(call.Skill, err)
	}
	e, err := message.Read(bytes.NewReader(raw))
	if e == nil || err != nil && !message.IsUnknownCharset(err) {
		return a, nil, damaged(call, err)
	}
	if got, ok := labelled(e.Header); !ok || got.name != a.name || got.kind != a.kind {
		return a, nil, disputed(call)
	}
	if data, err = io.ReadAll(e.Body); err != nil {
		return a, nil, damaged(call, err)
	}
	return a, data, nil
}

func damaged(call *skill.Call, err error) error {
	return mesh.Errorf(mesh.Precondition, call.Skill, "The attachment is damaged; open the message with a mail program: %w", err)
}

func disputed(call *skill.Call) error {
	return mesh.Errorf(mesh.Precondition, call.Skill, "The mail server finds other parts in the message than are listed here, so that it is not sure which is meant; save the attachment with a mail program")
}
