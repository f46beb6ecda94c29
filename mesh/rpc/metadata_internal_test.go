package rpc

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"

	"agentmesh/mesh"
)

// headers returns the metadata in lines of "key: value", as a caller sends it.
func headers(lines string) metadata.MD {
	md := metadata.MD{}
	for line := range strings.SplitSeq(lines, "\n") {
		key, value, _ := strings.Cut(line, ":")
		md.Append(strings.TrimSpace(key), value)
	}
	return md
}

// Whatever the metadata is, it is refused by the name of one of our keys, or
// what was read is in bounds and comes out of another node as it came into this.
func FuzzMetadata(f *testing.F) {
	thread := mesh.NewThreadID()
	execution := string(mesh.NewExecutionID(thread))
	const trace = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, seed := range []string{
		"",
		"tenant-id: acme\nuser-id: ann\nauthorization: Bearer x\na2a-version: 1.0",
		"thread-id: " + strings.ToUpper(thread) + "\nexecution-id: " + execution + "\nparent-task-id: " + execution,
		"execution-id: " + execution + "\nmesh-grant: a.b\nagent: main\nwant-seq: 1\npush-shape: 0.3\nafter-seq: 9223372036854775807",
		"thread-id: " + mesh.NewThreadID() + "\nexecution-id: " + execution,
		"max-answer-bytes: 67108864", "max-answer-bytes: 1",
		"traceparent: 00-" + trace + "\na2a-extensions: urn:a, urn:b ,,urn:a\na2a-extensions: urn:c",
		"traceparent: 01-" + trace + "-more",
		"traceparent: ff-" + trace + "\ntraceparent: 00-" + trace,
		"a2a-version: 0.3\na2a-version: 1.0",
		"a2a-version: " + strings.Repeat("1", maxVersion+1),
		"a2a-extensions: " + strings.Repeat("x", MaxExtension+1),
		"a2a-extensions: a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z,0,1,2,3,4,5,6",
		"after-seq: -1\nwant-seq: true\nagent: No Body\nuser-id: a b",
		"after-seq: +1", "after-seq: 007", "push-shape: 1.0", "after-seq:", "user-id: \x00", "tenant-id: ../x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		md := headers(lines)
		in, err := parse(md)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		checkBounds(t, in)
		c := in.call
		c.Principal = mesh.Principal{Tenant: in.tenant, User: in.user}
		write(md, c, "own") // over what came, of which nothing may stay
		again, err := parse(md)
		if err != nil {
			t.Fatalf("what was accepted is refused when it is passed on: %v", err)
		}
		want := in
		want.call.Version, want.call.Room, want.auth = Version, 0, "Bearer own" // each node speaks for itself
		if c.GrantToken != "" {
			want.auth = "" // the grant says it all
		}
		if diff := cmp.Diff(want, again, cmp.AllowUnexported(incoming{})); diff != "" {
			t.Errorf("passed on, it changes (-read +read again):\n%s", diff)
		}
	})
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	var e *mesh.Error
	if !errors.As(err, &e) || e.Code != mesh.Invalid || !slices.Contains(Keys(), e.Field) || e.Detail == "" {
		t.Errorf("got %#v, want Invalid with the key and a detail", err)
	}
}

// checkBounds checks what the documentation of mesh.Call and the bounds of
// this package promise of what was read.
func checkBounds(t *testing.T, in incoming) {
	t.Helper()
	c := in.call
	for what, ok := range map[string]bool{
		KeyTenant:      in.tenant == "" || in.tenant.Validate() == nil,
		KeyUser:        in.user == "" || CheckUser(in.user) == nil,
		KeyAuth:        len(in.auth) <= maxToken,
		KeyGrant:       len(c.GrantToken) <= maxToken,
		KeyParentTask:  len(c.ParentTask) <= maxID,
		KeyAgent:       c.Agent == "" || mesh.ValidAgentName(c.Agent),
		KeyVersion:     len(c.Version) <= maxVersion,
		KeyTraceparent: c.Traceparent == "" || len(c.Traceparent) >= 55 && len(c.Traceparent) <= maxID,
		KeyAfterSeq:    c.AfterSeq >= 0 && (c.HasCursor || c.AfterSeq == 0),
		KeyMaxAnswer:   c.Room == 0 || c.Room >= mesh.MaxWire,
		KeyExtensions: len(c.Extensions) <= MaxExtensions && !slices.ContainsFunc(c.Extensions, func(s string) bool {
			return s == "" || len(s) > MaxExtension || strings.Contains(s, ",")
		}),
	} {
		if !ok {
			t.Errorf("%s is out of bounds: %+v", what, in)
		}
	}
	if c.Thread != "" {
		if id, err := mesh.ParseThreadID(c.Thread); err != nil || id != c.Thread {
			t.Errorf("thread %q is not a thread's id in its one form: %v", c.Thread, err)
		}
	}
	if of, ok := c.Execution.ThreadID(); c.Execution != "" && (!ok || c.Thread != "" && of != c.Thread) {
		t.Errorf("execution %q is none of the thread %q", c.Execution, c.Thread)
	}
	once := map[string]bool{}
	for _, s := range c.Extensions {
		once[s] = true
	}
	if len(once) != len(c.Extensions) {
		t.Errorf("extensions %q, of which only %q differ", c.Extensions, slices.Collect(maps.Keys(once)))
	}
}
