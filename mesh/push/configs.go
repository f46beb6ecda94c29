package push

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/state"
	"agentmesh/mesh/thread"
)

// Bounds of configs.
const (
	MaxPerTask = 16      // configs that a user may have for one task
	MaxSecret  = 8 << 10 // bytes of a token or of credentials
	MaxPage    = 100     // configs of one list
	usualPage  = 50      // of a list that names no size
)

var _ a2a.Pusher = (*Dispatcher)(nil)

// Create implements [a2a.Pusher]. A config that replaces one goes on where that
// one was, with its failures forgotten; a new one begins with what happens from
// now on.
func (d *Dispatcher) Create(ctx context.Context, c *a2apb.TaskPushNotificationConfig) (*a2apb.TaskPushNotificationConfig, error) {
	const op = "push.Create"
	if err := d.check(op, "", c); err != nil {
		return nil, err
	}
	r, err := locate(ctx, op, c.GetTaskId())
	if err != nil {
		return nil, err
	}
	c = proto.CloneOf(c)
	if c.Id == "" {
		c.Id = mesh.NewEventID()
	}
	return c, mesh.Wrap(op, d.put(ctx, op, r, c, func(s *thread.State) mesh.Seq { return s.Seq }))
}

// Check implements [a2a.Pusher].
func (d *Dispatcher) Check(_ context.Context, req *a2apb.SendMessageRequest) error {
	const op, field = "push.Check", "configuration.task_push_notification_config"
	c := req.GetConfiguration().GetTaskPushNotificationConfig()
	if c.GetTaskId() != "" && c.GetTaskId() != req.GetMessage().GetTaskId() {
		return mesh.InvalidField(op, field+".task_id", "is not the task of the message; leave it out")
	}
	if strings.ContainsAny(c.GetId(), "/:") || len(c.GetId()) > a2a.MaxID {
		return mesh.InvalidField(op, field+".id", "must have at most %d bytes, and neither '/' nor ':'", a2a.MaxID)
	}
	return d.check(op, field+".", c)
}

// Attach implements [a2a.Pusher]. The config begins with the message. Without
// an id it gets one that a resend of the message gets as well.
func (d *Dispatcher) Attach(ctx context.Context, req *a2apb.SendMessageRequest, acc *a2a.Accepted) error {
	const op = "push.Attach"
	r, err := locate(ctx, op, acc.Task.GetId())
	if err != nil {
		return err
	}
	c := proto.CloneOf(req.GetConfiguration().GetTaskPushNotificationConfig())
	c.TaskId = acc.Task.GetId()
	message := req.GetMessage().GetMessageId()
	if c.Id == "" {
		c.Id = digest(fmt.Sprintf("%q %q %q", c.TaskId, message, c.Url))
	}
	return mesh.Wrap(op, d.put(ctx, op, r, c, func(s *thread.State) mesh.Seq {
		after := acc.Cursor
		for _, p := range s.Posted(message) {
			if p.Task == r.task && p.User == r.by.User {
				after = min(after, p.Seq)
			}
		}
		return after
	}))
}

// Get implements [a2a.Pusher].
func (d *Dispatcher) Get(ctx context.Context, req *a2apb.GetTaskPushNotificationConfigRequest) (*a2apb.TaskPushNotificationConfig, error) {
	const op = "push.Get"
	r, err := d.access(ctx, op, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	c, err := d.config(ctx, r.name(req.GetId()))
	if mesh.IsCode(err, mesh.NotFound) {
		return nil, unknown(op)
	}
	return c.TaskPushNotificationConfig, mesh.Wrap(op, err)
}

// List implements [a2a.Pusher]. The token is the place of the last config of
// the page before, which says nothing about others' configs.
func (d *Dispatcher) List(ctx context.Context, req *a2apb.ListTaskPushNotificationConfigsRequest) (*a2apb.ListTaskPushNotificationConfigsResponse, error) {
	const op = "push.List"
	r, err := d.access(ctx, op, req.GetTaskId())
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	switch {
	case size < 0 || size > MaxPage:
		return nil, mesh.InvalidField(op, "page_size", "must be 1 to %d, or 0 for %d, and is %d", MaxPage, usualPage, size)
	case size == 0:
		size = usualPage
	}
	after := ""
	if token := req.GetPageToken(); token != "" {
		if len(token) != len(digest("")) || strings.Trim(token, "0123456789abcdef") != "" {
			return nil, mesh.InvalidField(op, "page_token", "is not one that a list of push notification configs gave")
		}
		after = r.prefix() + token
	}
	items, more, err := d.KV.List(ctx, state.Page{Kind: kindConfig, Prefix: r.prefix(), After: after, Limit: size})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	res := new(a2apb.ListTaskPushNotificationConfigsResponse)
	for _, it := range items {
		c, _, err := d.unseal(it.Name, it.Data)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		res.Configs = append(res.Configs, c.TaskPushNotificationConfig)
	}
	if more {
		res.NextPageToken = strings.TrimPrefix(items[len(items)-1].Name, r.prefix())
	}
	return res, nil
}

// Delete implements [a2a.Pusher]. A request that is under way is cut off.
func (d *Dispatcher) Delete(ctx context.Context, req *a2apb.DeleteTaskPushNotificationConfigRequest) error {
	const op = "push.Delete"
	r, err := d.access(ctx, op, req.GetTaskId())
	if err != nil {
		return err
	}
	defer d.lock(r.key)()
	return mesh.Wrap(op, d.remove(ctx, r.name(req.GetId())))
}

// A Delivery says how a config fares.
type Delivery struct {
	// Failed says that the config was given up; setting it again resumes it.
	Failed bool
	// Attempts counts those that failed for the next update.
	Attempts int
	// LastError is why the last one failed, and LastFailure when.
	LastError   string
	LastFailure time.Time
}

// Delivery returns how the caller's config fares.
func (d *Dispatcher) Delivery(ctx context.Context, taskID, id string) (Delivery, error) {
	const op = "push.Delivery"
	r, err := d.access(ctx, op, taskID)
	if err != nil {
		return Delivery{}, err
	}
	name := r.name(id)
	defer d.lock(r.key)()
	if _, err := d.KV.Get(ctx, state.Key{Kind: kindConfig, Name: name}); mesh.IsCode(err, mesh.NotFound) {
		return Delivery{}, unknown(op)
	} else if err != nil {
		return Delivery{}, mesh.Wrap(op, err)
	}
	cur, err := d.cursorOf(ctx, name)
	return Delivery{Failed: cur.Failed, Attempts: cur.Attempts, LastError: cur.LastError, LastFailure: cur.At}, mesh.Wrap(op, err)
}

// put keeps the config and, unless all is delivered, sets it to work. start
// says where a new one begins.
func (d *Dispatcher) put(ctx context.Context, op string, r ref, c *a2apb.TaskPushNotificationConfig, start func(*thread.State) mesh.Seq) error {
	defer d.lock(r.key)()
	call, _ := mesh.CallFrom(ctx)
	name := r.name(c.GetId())
	var after mesh.Seq
	var over, byRole bool
	err := d.States.With(ctx, r.key, func(s *thread.State) error {
		t, err := r.turn(op, s)
		if err != nil {
			return err
		}
		byRole = !s.Involves(r.by)
		after = start(s)
		over = t.Ended != 0 && t.Ended <= after
		return nil
	})
	if err != nil {
		return err
	}
	_, err = d.KV.Get(ctx, state.Key{Kind: kindConfig, Name: name})
	if mesh.IsCode(err, mesh.NotFound) {
		err = d.room(ctx, op, r)
	}
	if err != nil {
		return err
	}
	fresh := cursor{After: after, By: &Owner{User: r.by.User, Credential: r.by.Credential, Operator: r.by.Can(mesh.ActAdminNode), At: time.Now().UTC()}}
	if over {
		fresh.Late, fresh.Over = true, fresh.By.At
	}
	cur, keep, err := d.start(ctx, name, fresh)
	if err != nil || !keep {
		return err
	}
	if err := d.putConfig(ctx, name, &record{TaskPushNotificationConfig: c, v03: call.PushV03, byRole: byRole, version: state.AnyVersion}); err != nil {
		return err
	}
	if byRole {
		d.ReadByRole(ctx, r.key.ID)
	}
	if !cur.Over.IsZero() {
		return nil
	}
	return d.activate(ctx, name, c)
}

// room refuses one config too many.
func (d *Dispatcher) room(ctx context.Context, op string, r ref) error {
	items, _, err := d.KV.List(ctx, state.Page{Kind: kindConfig, Prefix: r.prefix(), Limit: MaxPerTask})
	if err == nil && len(items) == MaxPerTask {
		err = mesh.Errorf(mesh.Exhausted, op,
			"The task has %d push notification configs, which is the most; delete one", MaxPerTask)
	}
	return err
}

// start writes the cursor of a new config, and makes the one of a replaced config forget its
// failures and who set it before. It returns it, and false if the config is not to be kept:
// it came with the resend of a message, and all of it was delivered.
func (d *Dispatcher) start(ctx context.Context, name string, fresh cursor) (cursor, bool, error) {
	for {
		c, err := d.cursorOf(ctx, name)
		switch {
		case mesh.IsCode(err, mesh.NotFound):
			c = fresh
		case err != nil:
			return c, false, err
		case !c.Over.IsZero() && !fresh.Late:
			return c, false, nil
		case !c.Over.IsZero():
			fresh.version = c.version
			c = fresh
		case c.Attempts == 0 && !c.Failed && c.By != nil && c.By.Credential == fresh.By.Credential && d.counts(name, *c.By):
			return c, true, nil // so that what is under way is not sent again
		}
		c.By, c.Attempts, c.Failed, c.LastError, c.At = fresh.By, 0, false, "", time.Time{}
		if err = d.putCursor(ctx, name, &c); !mesh.IsCode(err, mesh.Conflict) {
			return c, err == nil, err
		}
	}
}

// remove removes a config for good. The caller holds the lock of its thread.
func (d *Dispatcher) remove(ctx context.Context, name string) error {
	d.deactivate(name)
	if err := d.drop(ctx, kindConfig, name); err != nil {
		return err
	}
	return d.drop(ctx, kindCursor, name)
}

// lock keeps changes of a thread's configs apart, and returns its unlock.
func (d *Dispatcher) lock(key mesh.ThreadKey) func() {
	m := &d.locks[maphash.Comparable(d.seed, key)%uint64(len(d.locks))]
	m.Lock()
	return m.Unlock
}

// access finds the task, if the caller may see it.
func (d *Dispatcher) access(ctx context.Context, op, id string) (ref, error) {
	r, err := locate(ctx, op, id)
	if err != nil {
		return r, err
	}
	return r, d.States.With(ctx, r.key, func(s *thread.State) error {
		_, err := r.turn(op, s)
		return err
	})
}

// locate says whose the configs are that the caller has for the task.
func locate(ctx context.Context, op, id string) (ref, error) {
	call, ok := mesh.CallFrom(ctx)
	if !ok {
		return ref{}, mesh.Errorf(mesh.Unknown, op, "the server does not know who is calling")
	}
	task := mesh.ExecutionID(id)
	threadID, valid := task.ThreadID()
	if !valid || call.Thread != "" && call.Thread != threadID {
		return ref{}, mesh.TaskNotFound(op)
	}
	return ref{mesh.ThreadKey{Tenant: call.Principal.Tenant, ID: threadID}, task, call.Principal, call.Agent}, nil
}

// check refuses what could never be delivered by.
func (d *Dispatcher) check(op, within string, c *a2apb.TaskPushNotificationConfig) error {
	if _, err := d.Guard.Check(within+"url", c.GetUrl()); err != nil {
		return mesh.Wrap(op, err)
	}
	auth := c.GetAuthentication()
	if err := checkSecret(op, within+"token", c.GetToken()); err != nil {
		return err
	}
	if err := checkSecret(op, within+"authentication.credentials", auth.GetCredentials()); err != nil {
		return err
	}
	scheme := auth.GetScheme()
	if auth != nil && (scheme == "" || len(scheme) > 64 || strings.ContainsFunc(scheme, notInScheme)) {
		return mesh.InvalidField(op, within+"authentication.scheme", "must be an HTTP authentication scheme such as Bearer")
	}
	return nil
}

func checkSecret(op, field, s string) error {
	if len(s) > MaxSecret {
		return mesh.InvalidField(op, field, "is %d bytes long; the limit is %d", len(s), MaxSecret)
	}
	if strings.ContainsFunc(s, notInHeader) || s != strings.TrimSpace(s) {
		return mesh.InvalidField(op, field, "must be printable ASCII, as it is sent in a header")
	}
	return nil
}

func notInHeader(r rune) bool { return r < ' ' || r > '~' }

func notInScheme(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// unknown is the answer for configs that do not exist and for others' alike.
func unknown(op string) *mesh.Error {
	return &mesh.Error{Code: mesh.NotFound, Op: op, Field: "id", Reason: "TASK_NOT_FOUND",
		Detail: "The task has no such push notification config; list those that it has"}
}
