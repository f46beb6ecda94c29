package trail_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/audit/trail"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"
)

const (
	leak   = "zq-leaked-1" // what no entry may have
	secret = "the password=" + leak
)

// names are fields that name users, agents and executions, and words of ours.
var names = map[protoreflect.Name]bool{"user": true, "id": true, "agent": true, "from": true, "outcome": true}

// fill puts the secret into all texts of the message, and into JSON where bytes are that.
func fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case names[f.Name()] || f.IsMap() || f.ContainingOneof() != nil && m.WhichOneof(f.ContainingOneof()) != nil:
		case f.IsList() && f.Kind() == protoreflect.StringKind:
			m.Mutable(f).List().Append(protoreflect.ValueOfString(secret))
		case f.IsList() && f.Kind() == protoreflect.MessageKind && depth > 0:
			fill(m.Mutable(f).List().AppendMutable().Message(), depth-1)
		case f.IsList():
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(secret))
		case f.Kind() == protoreflect.BytesKind:
			m.Set(f, protoreflect.ValueOfBytes([]byte(`{"a":[{"api_key":"`+leak+`"}]}`)))
		case f.Kind() == protoreflect.MessageKind && depth > 0 && !strings.HasPrefix(string(f.Message().FullName()), "google."):
			fill(m.Mutable(f).Message(), depth-1)
		}
	}
}

// Whatever kind of event has a secret in whichever of its texts, no entry shows it, and all
// but the mesh's own kinds are told of as what they are. A kind that is added is tried too.
func TestNoKindOfEventShowsSecrets(t *testing.T) {
	red := redactor(t, trail.Rules{})
	internal := map[string]bool{"state_noted": true, "thread_claimed": true, "results_delivered": true}
	fields := new(meshv1.Event).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for i := range fields.Len() {
		name := string(fields.Get(i).Name())
		p := &meshv1.Event{Seq: 7, Actor: "agent:main", Time: timestamppb.Now()}
		fill(p.ProtoReflect().Mutable(fields.Get(i)).Message(), 3)
		if a := p.GetArtifactAppended(); a != nil {
			a.Artifact.Parts = append(a.Artifact.Parts, parts()...)
		}
		if a := p.GetMessagePosted(); a != nil {
			a.Message.Parts = append(a.Message.Parts, parts()...)
		}
		e, err := eventpb.EventFromProto(p)
		if err != nil {
			t.Fatal(name, err)
		}
		x, _ := red.Event(mesh.ThreadKey{Tenant: "acme", ID: "t"}, new(thread.State), e, nil, false)
		shown := protojson.Format(x)
		if strings.Contains(shown, leak) {
			t.Errorf("%s shows a secret: %s", name, shown)
		}
		if x.GetAction() != name || x.GetSeq() != 7 || x.GetTenantId() != "acme" {
			t.Errorf("%s is told as %s", name, shown)
		}
		if (x.GetKind() == meshv1.AuditTrailEntry_KIND_INTERNAL) != internal[name] || x.GetKind() == meshv1.AuditTrailEntry_KIND_UNSPECIFIED {
			t.Errorf("%s is of kind %v", name, x.GetKind())
		}
		if strings.Contains(p.String(), leak) && x.GetRedacted() == 0 && name != "thread_shared" && name != "task_moved" {
			t.Errorf("%s has nothing redacted: %s", name, shown)
		}
	}
}

// Whichever text of a record has a secret, no entry shows it, but for the fields that nobody
// can write as they like. A field that is added is tried too.
func TestNoRecordShowsSecrets(t *testing.T) {
	red := redactor(t, trail.Rules{})
	proven := []protoreflect.Name{"tenant_id", "user_id", "agent", "execution_id", "credential", "issuer", "impersonated_by", "peer", "trace_id", "permission", "required_by"}
	var try func(at func(*meshv1.AuditRecord) protoreflect.Message, path string)
	try = func(at func(*meshv1.AuditRecord) protoreflect.Message, path string) {
		fields := at(new(meshv1.AuditRecord)).Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			rec := new(meshv1.AuditRecord)
			switch name := path + string(f.Name()); {
			case f.IsList() && f.Kind() == protoreflect.MessageKind:
				try(func(rec *meshv1.AuditRecord) protoreflect.Message {
					list := at(rec).Mutable(f).List()
					if list.Len() == 0 {
						list.AppendMutable()
					}
					return list.Get(0).Message()
				}, name+"[0].")
			case f.IsList() || f.IsMap():
				t.Errorf("%s has several values, which are not looked at for secrets", name)
			case f.Kind() == protoreflect.MessageKind && f.Message().FullName() != "google.protobuf.Timestamp":
				try(func(rec *meshv1.AuditRecord) protoreflect.Message { return at(rec).Mutable(f).Message() }, name+".")
			case f.Kind() == protoreflect.StringKind && !slices.Contains(proven, f.Name()):
				at(rec).Set(f, protoreflect.ValueOfString(secret))
				if shown := protojson.Format(red.Record(rec, "t", nil)); strings.Contains(shown, leak) || !strings.Contains(shown, trail.Mark) {
					t.Errorf("%s is shown: %s", name, shown)
				}
				if !strings.Contains(rec.String(), leak) {
					t.Errorf("%s is not in the record any more", name)
				}
			}
		}
	}
	try(func(rec *meshv1.AuditRecord) protoreflect.Message { return rec.ProtoReflect() }, "")
	rec := &meshv1.AuditRecord{Action: "/mesh.v1.SkillService/DeleteSkill", Resource: "mail.send", Credential: "token:ann-laptop", Permission: "secret:read", Code: "PERMISSION_DENIED"}
	if x := red.Record(rec, "t", nil); !proto.Equal(x.GetRecord(), rec) || x.GetAction() != rec.GetAction() {
		t.Errorf("a record without secrets is told as %v", x)
	}
}

func parts() []*a2apb.Part {
	data, _ := structpb.NewValue(map[string]any{"deep": []any{map[string]any{"client_secret": leak}}})
	return []*a2apb.Part{
		{Content: &a2apb.Part_Text{Text: secret}},
		{Content: &a2apb.Part_Data{Data: data}},
		{Content: &a2apb.Part_Url{Url: "https://bob:" + leak + "@host/x?sig=" + leak}, Filename: "a.png"},
		{Content: &a2apb.Part_Raw{Raw: []byte(leak)}, Filename: "b.bin", MediaType: "application/pdf"},
	}
}

// What was said is cut, between characters and with a mark, and no half secret is left where
// it is; what cannot be sent as text is.
func TestContentIsBounded(t *testing.T) {
	red := redactor(t, trail.Rules{})
	entry := func(texts ...string) *meshv1.AuditTrailEntry {
		m := &a2apb.Message{}
		for _, text := range texts {
			m.Parts = append(m.Parts, &a2apb.Part{Content: &a2apb.Part_Text{Text: text}})
		}
		x, read := red.Event(mesh.ThreadKey{}, new(thread.State), &mesh.Event{Body: mesh.MessagePosted{Message: m}}, nil, false)
		if read > 2*trail.MaxRead {
			t.Errorf("%d bytes were looked at", read)
		}
		return x
	}
	for name, c := range map[string]struct {
		texts []string
		want  string // a part of it
		clip  bool
	}{
		"short":                                  {[]string{"hi", "there"}, "hi\nthere", false},
		"long":                                   {[]string{strings.Repeat("some word ", 500)}, "some word", true},
		"unicode":                                {[]string{strings.Repeat("日本語", 5000)}, "日本語", true},
		"many parts":                             {slicesOf("part of a message ", 100_000), "part", true},
		"secrets":                                {[]string{strings.Repeat("password="+leak+" ", 400)}, "[redacted]", true},
		"secret at the end of what is looked at": {[]string{strings.Repeat("token=a ", (trail.MaxRead-8)/8) + "ghp_" + strings.Repeat("x", 40)}, "[redacted]", true},
		"bidi":                                   {[]string{"a\u202eb"}, "a\u202eb", false},
	} {
		x := entry(c.texts...)
		if !utf8.ValidString(x.GetContent()) || len(x.GetContent()) > trail.MaxContent+len("…") || x.GetClipped() != c.clip ||
			!strings.Contains(x.GetContent(), c.want) || strings.Contains(x.GetContent(), leak) || strings.Contains(x.GetContent(), "ghp_") {
			t.Errorf("%s: %d bytes, clipped %v: %.80q", name, len(x.GetContent()), x.GetClipped(), x.GetContent())
		}
	}
	x, _ := red.Event(mesh.ThreadKey{}, new(thread.State), &mesh.Event{Body: mesh.StateNoted{Agent: "a", Data: []byte("\xff\xfe")}}, nil, false)
	if _, err := proto.Marshal(x); err != nil {
		t.Errorf("an entry cannot be sent: %v", err)
	}
}

func slicesOf(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// A refusal by the user, a limit, a policy or an agent is one, whichever event says so.
func TestRefusalsAreTold(t *testing.T) {
	for _, b := range []mesh.Body{
		mesh.ApprovalSettled{}, mesh.LimitTripped{}, mesh.ToolReturned{Cause: mesh.CauseRefused}, mesh.ToolReturned{Cause: mesh.CauseLimit},
		mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_REJECTED}, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_FAILED, Reason: mesh.ReasonPolicy},
		mesh.DispatchSettled{State: a2apb.TaskState_TASK_STATE_REJECTED}, mesh.DispatchSettled{State: a2apb.TaskState_TASK_STATE_FAILED, Reason: mesh.ReasonPermission},
		mesh.ToolReturned{Cause: mesh.CauseDenied},
	} {
		if k := trail.KindOf(&mesh.Event{Body: b}); k != meshv1.AuditTrailEntry_KIND_REFUSAL {
			t.Errorf("%T %+v is of kind %v", b, b, k)
		}
	}
	for _, b := range []mesh.Body{mesh.ApprovalSettled{Approved: true}, mesh.ToolReturned{Failed: true}, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_FAILED}} {
		if k := trail.KindOf(&mesh.Event{Body: b}); k == meshv1.AuditTrailEntry_KIND_REFUSAL {
			t.Errorf("%T %+v is a refusal", b, b)
		}
	}
}
