package rpc

import (
	"slices"
	"strconv"
	"strings"

	"agentmesh/mesh"

	"google.golang.org/grpc/metadata"
)

// The metadata keys of the mesh. The HTTP headers of the gateway have the same
// names.
const (
	KeyTenant      = "tenant-id"
	KeyThread      = "thread-id"
	KeyParentTask  = "parent-task-id"
	KeyExecution   = "execution-id"
	KeyUser        = "user-id"
	KeyGrant       = "mesh-grant"
	KeyTicket      = "mesh-ticket" // what an agent is called with
	KeyHolder      = "mesh-holder" // the secret of an agent's registration
	KeyAuth        = "authorization"
	KeyTraceparent = "traceparent"
	KeyVersion     = "a2a-version"
	KeyExtensions  = "a2a-extensions"
	KeyAfterSeq    = "after-seq"
	KeyWantSeq     = "want-seq"         // "1": see mesh.Call.WantSeq; for gateways
	KeyPushShape   = "push-shape"       // "0.3": see mesh.Call.PushV03; for package v03
	KeyAgent       = "agent"            // the agent that is addressed: see mesh.Call.Agent
	KeyMaxAnswer   = "max-answer-bytes" // see mesh.Call.Room; what gRPC clients take by themselves, unless it is more
)

// KeyNothingLeft is "1" in the header of a stream that was to go on after a cursor, and has
// nothing more than what that says: neither now, nor ever.
const KeyNothingLeft = "nothing-left"

// Version is the A2A version that connections of this package speak.
const Version = "1.0"

// VersionOld is what they say instead in calls whose Call has that version, of agents that
// speak it.
const VersionOld = "0.3"

// PushShapeV03 is the one value of [KeyPushShape].
const PushShapeV03 = "0.3"

// Keys lists the metadata keys of the mesh, for gateways that copy headers.
func Keys() []string {
	return []string{KeyTenant, KeyThread, KeyParentTask, KeyExecution, KeyUser, KeyGrant, KeyTicket, KeyHolder, KeyAuth,
		KeyTraceparent, KeyVersion, KeyExtensions, KeyAfterSeq, KeyWantSeq, KeyPushShape, KeyAgent, KeyMaxAnswer}
}

// Bounds of what is read from metadata, in bytes but for MaxExtensions.
const (
	maxUser       = 128
	maxID         = 128
	maxToken      = 32 << 10
	maxVersion    = 16
	MaxExtension  = 512
	MaxExtensions = 32
)

// CheckUser returns an Invalid error for what cannot name a user: a name is 1
// to 128 printable ASCII characters without spaces, because it travels in
// headers.
func CheckUser(name string) error {
	return checkText(KeyUser, name, maxUser)
}

func checkText(field, s string, most int) error {
	bad := strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
	if s == "" || len(s) > most || bad {
		return mesh.InvalidField("rpc.metadata", field, "must be 1 to %d printable ASCII characters without spaces", most)
	}
	return nil
}

// incoming is what the metadata of a call says, before anyone believes it.
type incoming struct {
	call   mesh.Call // without Principal
	tenant mesh.TenantID
	user   string
	auth   string
}

// parse reads and checks the metadata of the mesh. Its errors are Invalid and
// name the key.
func parse(md metadata.MD) (incoming, error) {
	r := reader{md: md}
	var in incoming
	in.tenant = mesh.TenantID(r.text(KeyTenant, func(s string) error { return mesh.TenantID(s).Validate() }))
	in.user = r.text(KeyUser, CheckUser)
	in.auth = r.text(KeyAuth, bounded(KeyAuth, maxToken))
	in.call = mesh.Call{
		Thread:      strings.ToLower(r.text(KeyThread, checkThread)),
		ParentTask:  r.text(KeyParentTask, func(s string) error { return checkText(KeyParentTask, s, maxID) }),
		Execution:   mesh.ExecutionID(r.text(KeyExecution, checkExecution)),
		GrantToken:  r.text(KeyGrant, bounded(KeyGrant, maxToken)),
		TicketToken: r.text(KeyTicket, bounded(KeyTicket, maxToken)),
		Holder:      r.text(KeyHolder, bounded(KeyHolder, maxID)),
		Traceparent: r.one(KeyTraceparent),
		Version:     r.one(KeyVersion),
		Agent:       r.text(KeyAgent, checkAgent),
	}
	if len(in.call.Version) > maxVersion {
		r.fail(mesh.InvalidField("rpc.metadata", KeyVersion, "must be as %q", Version))
	}
	if !mesh.ValidTraceparent(in.call.Traceparent) {
		in.call.Traceparent = "" // W3C Trace Context §3.2.2.3: ignore, do not refuse
	}
	in.call.Extensions = r.list(KeyExtensions)
	in.call.AfterSeq, in.call.HasCursor = r.seq(KeyAfterSeq)
	in.call.Room = r.room(KeyMaxAnswer)
	in.call.WantSeq = r.flag(KeyWantSeq, "1")
	in.call.PushV03 = r.flag(KeyPushShape, PushShapeV03)
	if of, ok := in.call.Execution.ThreadID(); ok && in.call.Thread != "" && of != in.call.Thread {
		r.fail(mesh.InvalidField("rpc.metadata", KeyExecution, "must be an execution of the thread in %s", KeyThread))
	}
	return in, r.err
}

func checkThread(s string) error {
	_, err := mesh.ParseThreadID(s)
	return err
}

func checkExecution(s string) error {
	if _, ok := mesh.ExecutionID(s).ThreadID(); !ok {
		return mesh.InvalidField("rpc.metadata", KeyExecution, "must be the id of an execution, as this mesh made it")
	}
	return nil
}

func checkAgent(s string) error {
	if !mesh.ValidAgentName(s) {
		return mesh.InvalidField("rpc.metadata", KeyAgent, "must be the name of an agent, in lower-case letters, digits, '-' and '_'")
	}
	return nil
}

func bounded(field string, most int) func(string) error {
	return func(s string) error {
		if len(s) > most {
			return mesh.InvalidField("rpc.metadata", field, "must be at most %d bytes", most)
		}
		return nil
	}
}

// A reader takes values out of metadata and keeps the first error.
type reader struct {
	md  metadata.MD
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// one returns the value of a key that may be there once, or "".
func (r *reader) one(key string) string {
	switch v := r.md[key]; len(v) {
	case 0:
		return ""
	case 1:
		return strings.TrimSpace(v[0])
	}
	r.fail(mesh.InvalidField("rpc.metadata", key, "must be set once, and is set %d times", len(r.md[key])))
	return ""
}

// text returns the value of a key that must pass check when it is there.
func (r *reader) text(key string, check func(string) error) string {
	if len(r.md[key]) == 0 {
		return ""
	}
	s := r.one(key)
	if r.err == nil && s == "" {
		r.fail(mesh.InvalidField("rpc.metadata", key, "must not be empty; set it or leave it out"))
	}
	if r.err != nil {
		return ""
	}
	if err := check(s); err != nil {
		r.fail(err)
		return ""
	}
	return s
}

// list returns the values of a key that holds comma-separated values and may
// be there several times, each once (A2A v1.0 §3.2.6).
func (r *reader) list(key string) []string {
	var all []string
	for _, line := range r.md[key] {
		for s := range strings.SplitSeq(line, ",") {
			s = strings.TrimSpace(s)
			if s == "" || slices.Contains(all, s) {
				continue
			}
			if len(s) > MaxExtension || len(all) == MaxExtensions {
				r.fail(mesh.InvalidField("rpc.metadata", key,
					"must be at most %d values of at most %d bytes", MaxExtensions, MaxExtension))
				return nil
			}
			all = append(all, s)
		}
	}
	return all
}

func (r *reader) seq(key string) (mesh.Seq, bool) {
	s := r.text(key, func(s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 || s[0] == '+' || s[0] == '-' {
			return mesh.InvalidField("rpc.metadata", key, "must be a decimal number from 0, the seq of an event that was read")
		}
		return nil
	})
	if s == "" {
		return 0, false
	}
	n, _ := strconv.ParseInt(s, 10, 64) // checked above
	return mesh.Seq(n), true
}

// room returns the number of a key that is at least what all clients take; 0 if there is none.
func (r *reader) room(key string) (n int) {
	r.text(key, func(s string) (err error) {
		if n, err = strconv.Atoi(s); err != nil || n < mesh.MaxWire {
			return mesh.InvalidField("rpc.metadata", key, "must be how many bytes of an answer you take, at least %d; leave it out otherwise", mesh.MaxWire)
		}
		return nil
	})
	return n
}

// flag returns whether a key is set, which it may be to one value.
func (r *reader) flag(key, set string) bool {
	s := r.text(key, func(s string) error {
		if s != set {
			return mesh.InvalidField("rpc.metadata", key, "must be %s; leave it out otherwise", set)
		}
		return nil
	})
	return s != ""
}

// write sets the metadata that c stands for, and removes any other values of
// the keys of the mesh.
func write(md metadata.MD, c mesh.Call, bearer string) {
	for _, key := range Keys() {
		delete(md, key)
	}
	set := func(key, value string) {
		if value != "" {
			md[key] = []string{value}
		}
	}
	set(KeyTenant, string(c.Principal.Tenant))
	set(KeyUser, c.Principal.User)
	set(KeyThread, c.Thread)
	set(KeyParentTask, c.ParentTask)
	set(KeyExecution, string(c.Execution))
	if c.TicketToken != "" { // of a call that came under both, of which one is passed on
		set(KeyTicket, c.TicketToken)
	} else {
		set(KeyGrant, c.GrantToken)
	}
	set(KeyHolder, c.Holder)
	set(KeyTraceparent, c.Traceparent)
	set(KeyExtensions, strings.Join(c.Extensions, ","))
	set(KeyVersion, Version)
	if c.Version == VersionOld {
		set(KeyVersion, VersionOld)
	}
	set(KeyAgent, c.Agent)
	if c.HasCursor {
		set(KeyAfterSeq, strconv.FormatInt(int64(c.AfterSeq), 10))
	}
	if c.WantSeq {
		set(KeyWantSeq, "1")
	}
	if c.PushV03 {
		set(KeyPushShape, PushShapeV03)
	}
	if bearer != "" && c.GrantToken == "" && c.TicketToken == "" {
		set(KeyAuth, "Bearer "+bearer)
	}
}
