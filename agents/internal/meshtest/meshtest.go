// Package meshtest runs a whole mesh for tests of agents: real nodes on ephemeral
// ports with their agents as gRPC servers, and a user who talks to them.
//
// What it starts ends with the test. Its methods may be called concurrently.
package meshtest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/agentcards"
	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/nodetest"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/eventpb"
	"agentmesh/skills"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// patience is how long a turn may take.
const patience = time.Minute

// Agents makes the agents of a mesh, by name.
type Agents map[string]func(node.Env) (agent.Agent, error)

// Options change the defaults of Start. The zero value is a mesh in a folder
// of its own that anybody may use.
type Options struct {
	// Data is the data folder, for a mesh that is started again.
	Data string
	// Tokens is a file for auth "tokens"; without it, auth is none.
	Tokens string
	// Bearer is the token with which the user calls.
	Bearer string
	// Skills are the skill files; the default is those of the mesh.
	Skills []fs.FS
	// Limits are those of the mesh, and Quotas what its users may have.
	Limits node.Limits
	Quotas node.Quotas
	// Sessions are those of the mesh.
	Sessions node.Sessions
	// Store, if set, returns what the mesh sees of its store of threads.
	Store func(threadlog.Backend) threadlog.Backend
}

// A Mesh is a node that runs, or two on one backend, of which each call goes to any.
type Mesh struct {
	*nodetest.Mesh
	t testing.TB
	// Data is the data folder.
	Data   string
	edge   a2apb.A2AServiceClient
	logs   meshv1.ThreadServiceClient
	skills meshv1.SkillServiceClient
}

// Card reads one of the mesh's own cards.
func Card(t testing.TB, name string) *a2apb.AgentCard {
	t.Helper()
	data, err := fs.ReadFile(agentcards.FS, name+".json")
	if err != nil {
		t.Fatal(err)
	}
	card, err := registry.ParseCard(name+".json", data)
	if err != nil {
		t.Fatal(err)
	}
	return card
}

// Start runs a mesh until Stop or the end of the test.
func Start(t testing.TB, agents Agents, o Options) *Mesh {
	t.Helper()
	if o.Data == "" {
		o.Data = t.TempDir()
	}
	if o.Skills == nil {
		o.Skills = []fs.FS{skills.FS}
	}
	cfg, opts := nodetest.Config(o.Data), nodetest.Options()
	cfg.Limits, cfg.Quotas, cfg.Sessions = o.Limits, o.Quotas, o.Sessions
	if o.Tokens != "" {
		cfg.Auth, cfg.Tokens = "tokens", o.Tokens
	}
	opts.Skills = o.Skills
	for name, make := range agents {
		opts.Builtins = append(opts.Builtins, node.Builtin{Name: name, New: make})
	}
	if open := opts.Backend; o.Store != nil {
		opts.Backend = func(cfg node.Config, address string) (node.Backend, error) {
			b, err := open(cfg, address)
			if err == nil {
				b.Threads = o.Store(b.Threads)
			}
			return b, err
		}
	}
	m := &Mesh{Mesh: nodetest.Start(t, cfg, opts), t: t, Data: o.Data}
	conn := m.Dial(rpc.DialOptions{Bearer: o.Bearer})
	m.edge, m.logs, m.skills = a2apb.NewA2AServiceClient(conn), meshv1.NewThreadServiceClient(conn), meshv1.NewSkillServiceClient(conn)
	return m
}

// Said is what the user heard in answer to one message.
type Said struct {
	TaskID string
	State  mesh.TaskState
	// Text is the answer, and Status the status messages, in order.
	Text   string
	Status []string
	// Steps are the states of the agent's own workflow, in order.
	Steps []string
}

// Heard reports whether a status message contains the words.
func (s Said) Heard(words string) bool {
	return slices.ContainsFunc(s.Status, func(x string) bool { return strings.Contains(x, words) })
}

// Asked is the question with which the turn ended, or "".
func (s Said) Asked() string {
	if !mesh.Interrupted(s.State) || len(s.Status) == 0 {
		return ""
	}
	return s.Status[len(s.Status)-1]
}

// Say sends a message in the thread as a client that knows our extension, and
// hears what comes until the turn rests.
func (m *Mesh) Say(thread, text string) Said {
	m.t.Helper()
	return m.SayAs(mesh.Principal{Tenant: mesh.DefaultTenant, User: "ann"}, thread, text)
}

// SayAs is Say of a given user.
func (m *Mesh) SayAs(who mesh.Principal, thread, text string) Said {
	m.t.Helper()
	return m.send(who, thread, a2a.NewMessage(a2apb.Role_ROLE_USER, text))
}

// SayWith is Say with data of our extension.
func (m *Mesh) SayWith(thread, text string, data map[string]any) Said {
	m.t.Helper()
	msg := a2a.NewMessage(a2apb.Role_ROLE_USER, text)
	ext, err := structpb.NewStruct(map[string]any{mesh.ExtensionURI: data})
	if err != nil {
		m.t.Fatal(err)
	}
	msg.Metadata = ext
	return m.send(mesh.Principal{Tenant: mesh.DefaultTenant, User: "ann"}, thread, msg)
}

func (m *Mesh) send(who mesh.Principal, thread string, msg *a2apb.Message) Said {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.as(who, thread), patience)
	defer cancel()
	stream, err := m.edge.SendStreamingMessage(ctx, &a2apb.SendMessageRequest{Message: msg})
	if err != nil {
		m.t.Fatal(err)
	}
	var s Said
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return s
		}
		if err != nil {
			m.t.Fatalf("the stream broke after %q: %v", s.Text, err)
		}
		checkExtension(m.t, a2a.MetadataOf(r))
		s.add(r)
	}
}

func (s *Said) add(r *a2apb.StreamResponse) {
	switch p := r.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		s.TaskID, s.State = p.Task.GetId(), p.Task.GetStatus().GetState()
	case *a2apb.StreamResponse_StatusUpdate:
		s.State = p.StatusUpdate.GetStatus().GetState()
		if text := a2a.TextOf(p.StatusUpdate.GetStatus().GetMessage()); text != "" {
			s.Status = append(s.Status, text)
		}
		if state := a2a.Extension(p.StatusUpdate.GetMetadata()).GetFields()[a2a.KeyState].GetStringValue(); state != "" {
			s.Steps = append(s.Steps, state)
		}
	case *a2apb.StreamResponse_ArtifactUpdate:
		s.Text += a2a.ArtifactText(p.ArtifactUpdate.GetArtifact())
	}
}

func (m *Mesh) as(who mesh.Principal, thread string) context.Context {
	return mesh.WithCall(context.WithoutCancel(m.t.Context()),
		mesh.Call{Principal: who, Thread: thread, Extensions: []string{mesh.ExtensionURI}})
}

// Events returns the thread's log.
func (m *Mesh) Events(thread string) []*mesh.Event {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.as(mesh.Principal{Tenant: mesh.DefaultTenant, User: "ann"}, thread), patience)
	defer cancel()
	var out []*mesh.Event
	for {
		req := &meshv1.ReadThreadRequest{ThreadId: thread, Limit: 500}
		if n := len(out); n > 0 {
			req.AfterSeq = int64(out[n-1].Seq)
		}
		res, err := m.logs.ReadThread(ctx, req)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, p := range res.GetEvents() {
			e, err := eventpb.EventFromProto(p)
			if err != nil {
				m.t.Fatal(err)
			}
			checkEvent(m.t, e)
			out = append(out, e)
		}
		if !res.GetMore() {
			return out
		}
	}
}

// SkillFile returns the file of a skill that the user made in this mesh.
func (m *Mesh) SkillFile(name string) string {
	m.t.Helper()
	path := filepath.Join(m.Data, "tenant-skills", string(mesh.DefaultTenant), filepath.FromSlash(strings.Replace(name, ".", "/", 1)+".md"))
	data, err := os.ReadFile(path)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(data)
}

// WriteSkillFile writes the file of a skill that the user made in this mesh, as by hand, and
// has the mesh read it.
func (m *Mesh) WriteSkillFile(name, source string) {
	m.t.Helper()
	path := filepath.Join(m.Data, "tenant-skills", string(mesh.DefaultTenant), filepath.FromSlash(strings.Replace(name, ".", "/", 1)+".md"))
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		m.t.Fatal(err)
	}
	ctx := m.as(mesh.Principal{Tenant: mesh.DefaultTenant, User: "ann"}, "")
	if _, err := m.skills.ReloadSkills(ctx, &meshv1.ReloadSkillsRequest{}); err != nil {
		m.t.Fatal(err)
	}
}
