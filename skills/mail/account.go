package mail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/outfile"
	"agentmesh/skills/mail/imapbox"
)

// moved is the ledger of what was moved.
const moved = "moved"

// filing is how much of a call's time is left for telling what became of it, and fileTime how
// long an account may take to file a message that was sent.
const (
	filing   = 2 * time.Second
	fileTime = 15 * time.Second
)

// handIn has the owner's account file a message of the folders sent or drafts, from where it goes
// then. What does not succeed is told, and tried again when the call is repeated: the message is
// in the folder here meanwhile, and where it is to go was decided.
func (p *post) handIn(ctx context.Context, env *skill.Env, m *parcel) (note string) {
	box, folder := p.accounts[m.owner].Box, m.record.Folder
	dir := p.folder(folder, m.owner)
	if box == nil || folder != Sent && folder != Drafts {
		return ""
	}
	if m.record.Place == nil {
		if err := p.fileWith(ctx, box, m, dir); mesh.IsCode(err, mesh.NotFound) {
			return "" // the account has no such folder: it stays here
		} else if err != nil {
			env.Logger.WarnContext(ctx, "mail is not in the account's folder, but in the mesh's", "folder", folder, "file", m.file, "err", err)
			return fmt.Sprintf(" It is not in the folder %s of the account yet: %s.", folder, mesh.DetailOf(err))
		}
	}
	if m.record.Place != nil && exists(dir, m.file) {
		if err := outfile.Remove(dir, m.file); err != nil {
			env.Logger.WarnContext(ctx, "mail that is in the account's folder is in the mesh's, too", "folder", folder, "file", m.file, "err", err)
		}
	}
	return ""
}

// fileWith puts the message into the account, and notes where it is.
func (p *post) fileWith(ctx context.Context, box *imapbox.Account, m *parcel, dir string) error {
	const op = "mail.handIn"
	f, err := outfile.Open(dir, m.file)
	if errors.Is(err, fs.ErrNotExist) { // whoever took it has it
		return nil
	}
	if err != nil {
		return mesh.Errorf(mesh.Unavailable, op, "The message cannot be read; check the permissions of the folder: %w", err)
	}
	data, err := io.ReadAll(f)
	_ = f.Close() // only read
	if err != nil {
		return mesh.Errorf(mesh.Unavailable, op, "The message cannot be read; check the disk: %w", err)
	}
	until := time.Now().Add(fileTime)
	if d, ok := ctx.Deadline(); ok && d.Add(-filing).Before(until) {
		until = d.Add(-filing)
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	place, err := box.Put(ctx, m.record.Folder, m.record.MessageID, data, m.record.Folder == Drafts)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	m.record.Place = &place
	if err := m.note(m.record.Folder); err != nil {
		m.record.Place = nil
		return mesh.Wrap(op, err)
	}
	return nil
}

// A removal is what is known of a message that is moved, by the key of the call.
type removal struct {
	ID     string         `json:"id"`
	To     string         `json:"to"`
	Begun  *imapbox.Begun `json:"begun,omitempty"`  // of one on a server
	Folder string         `json:"folder,omitempty"` // of a file, where it was,
	File   string         `json:"file,omitempty"`   // under which name,
	As     string         `json:"as,omitempty"`     // and under which it goes on
	// Place is where it is, once it was moved.
	Place *imapbox.Place `json:"place,omitempty"`
}

// move puts a message into another folder. What is to be moved is noted before it is, so that a
// call that was cut off is completed, and nothing else is moved under its key.
func (p *post) move(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	if err := flags.Require(call, "id", "to"); err != nil {
		return nil, err
	}
	key := outfile.Name(env.Tenant, call.Key)
	ledger := outfile.NewLedger(filepath.Join(p.dir, ledgers, moved, outfile.Distinct(env.Owner())))
	unlock, err := ledger.Lock(ctx, key)
	if err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	defer unlock()
	note := func(r *removal) error {
		data, err := json.Marshal(r)
		if err != nil {
			return mesh.Wrap(call.Skill, err)
		}
		return ledger.Put(key, data)
	}
	r := &removal{ID: strings.TrimSpace(flags.Text(call, "id")), To: strings.TrimSpace(flags.Text(call, "to"))}
	known, err := ledger.Get(key)
	if err == nil && known != nil {
		if err = json.Unmarshal(known, r); err != nil {
			err = mesh.Errorf(mesh.Unavailable, call.Skill, "What is known of the move is damaged; ask the operator to look at %s in %s: %w", key, ledgers, err)
		}
	}
	if err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	if r.Place == nil {
		if err := p.carryOut(ctx, call, env, r, known != nil, note); err != nil {
			return nil, mesh.Wrap(call.Skill, err)
		}
	}
	where := fmt.Sprintf("The message is in the folder %s.", shown(r.Place.Folder))
	if r.Place.ID != "" {
		where += fmt.Sprintf(" Its id is %s.", r.Place.ID)
	}
	return &skill.Result{Content: where, Metadata: map[string]any{"id": r.Place.ID, "folder": r.Place.Folder}}, nil
}

// carryOut moves the message, and notes that it was.
func (p *post) carryOut(ctx context.Context, call *skill.Call, env *skill.Env, r *removal, again bool, note func(*removal) error) error {
	if box := p.accounts[env.Owner()].Box; box != nil && imapbox.IsID(r.ID) {
		place, err := box.Move(ctx, imapbox.Moving{ID: r.ID, To: r.To, Begun: r.Begun, Note: func(b imapbox.Begun) error {
			r.Begun = &b
			return note(r)
		}})
		if err != nil {
			return err
		}
		r.Place = &place
		return note(r)
	}
	owner := env.Owner()
	if !again {
		if err := flags.Enum(call, "to", []string{r.To}, Inbox, Archive, Trash); err != nil {
			return err
		}
		e, err := p.find(owner, r.ID)
		if err != nil {
			return err
		}
		if slices.Contains([]string{Outbox, Sending}, e.folder) {
			return mesh.Errorf(mesh.Precondition, call.Skill, "The message is in the folder %s, and on its way; it is not moved", e.folder)
		}
		r.Folder, r.File = e.folder, e.file
		if err := r.choose(p.folder(r.To, owner), note); err != nil {
			return err
		}
	}
	from, to := p.folder(r.Folder, owner), p.folder(r.To, owner)
	for moved := r.Folder == r.To; !moved; {
		if !exists(from, r.File) && exists(to, r.As) {
			break // it was, by a call that was cut off
		}
		if !exists(from, r.File) {
			return gone(r.ID)
		}
		var err error
		if moved, err = outfile.MoveNew(from, r.File, to, r.As); err == nil && !moved {
			err = r.choose(to, note) // somebody was faster
		}
		if err != nil {
			return err
		}
	}
	r.Place = &imapbox.Place{ID: idOf(r.To, r.As), Folder: r.To}
	return note(r)
}

// choose notes a name that no file of the folder has: its own if it can be.
func (r *removal) choose(dir string, note func(*removal) error) error {
	r.As = r.File
	for n := 1; r.Folder != r.To && exists(dir, r.As); n++ {
		r.As = fmt.Sprintf("%s-%d%s", idOf(r.Folder, r.File), n, suffix)
	}
	return note(r)
}
