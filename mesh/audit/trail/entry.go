package trail

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog/eventpb"
)

// Bounds of an entry, in bytes.
const (
	// MaxContent is how much of what was said is shown, and maxReason of why.
	MaxContent = 2 << 10
	maxReason  = 512
	maxSubject = 256
	// MaxRead is how much is looked at: a secret that begins in what is shown ends in it.
	MaxRead = 8 << 10
)

// An Entry of the trail.
type Entry = meshv1.AuditTrailEntry

// Event returns the entry of an event of the thread, which st is the state of, and how many
// bytes of text were looked at for it. output is what was gathered of a piece of output that
// begins with the event, or nil, and goesOn says that there is more of that.
func (r *Redactor) Event(key mesh.ThreadKey, st *thread.State, e *mesh.Event, output *thread.Output, goesOn bool) (*Entry, int) {
	d := st.Deed(e)
	if output != nil {
		d.Said = output.Said
	}
	b := builder{by: r, entry: &Entry{
		ThreadId: key.ID, Seq: int64(e.Seq), Time: timestamppb.New(e.Time), Action: eventpb.KindOf(eventpb.EventToProto(e)),
		TenantId: string(key.Tenant), Actor: valid(e.Actor, maxSubject), Outcome: d.Outcome,
	}}
	b.deed(d)
	b.entry.Subject, b.entry.Call = b.shown(d.Subject, maxSubject), b.shown(d.Call, maxSubject)
	b.entry.Reason = b.shown(d.Reason, maxReason)
	for i, text := range d.Said {
		b.say(text, goesOn && i == len(d.Said)-1)
	}
	b.finish()
	return b.entry, b.read
}

// KindOf is the kind of the event's entry.
func KindOf(e *mesh.Event) meshv1.AuditTrailEntry_Kind { return kind(thread.KindOfDeed(e)) }

func kind(k thread.DeedKind) meshv1.AuditTrailEntry_Kind {
	return meshv1.AuditTrailEntry_Kind(meshv1.AuditTrailEntry_Kind_value["KIND_"+strings.ToUpper(string(k))])
}

// Record returns the entry of a record, which is of that thread or of "". st is the state of
// the thread, or nil.
func (r *Redactor) Record(rec *meshv1.AuditRecord, threadID string, st *thread.State) *Entry {
	b := builder{by: r, entry: &Entry{
		ThreadId: threadID, Time: rec.GetTime(), TenantId: rec.GetTenantId(),
		Actor: "node", Record: proto.CloneOf(rec),
		Outcome: strings.ToLower(strings.TrimPrefix(rec.GetDecision().String(), "DECISION_")),
	}}
	d := thread.Deed{Execution: mesh.ExecutionID(rec.GetExecutionId())}
	if st != nil {
		d = st.Doer(d.Execution)
	}
	d.User = cmp.Or(rec.GetUserId(), d.User)
	b.deed(d)
	b.entry.Kind = KindOfRecord(rec)
	switch {
	case rec.GetAgent() != "":
		b.entry.Actor = "agent:" + rec.GetAgent()
		b.entry.Agent = rec.GetAgent()
		if len(b.entry.Chain) == 0 {
			b.entry.Chain = []string{"user:" + rec.GetUserId(), b.entry.Actor}
		}
	case rec.GetUserId() != "":
		b.entry.Actor = "user:" + rec.GetUserId()
		b.entry.Chain = []string{b.entry.Actor}
	}
	if by := rec.GetImpersonatedBy(); by != "" {
		b.entry.Chain = slices.Insert(b.entry.Chain, 0, "user:"+by)
	}
	b.entry.TraceId = cmp.Or(rec.GetTraceId(), b.entry.TraceId)
	b.entry.Subject = b.shown(rec.GetResource(), maxSubject)
	why := []string{rec.GetCode(), rec.GetReason(), rec.GetPermission(), rec.GetRequiredBy(), rec.GetPolicy()}
	b.entry.Reason = b.shown(strings.Join(slices.DeleteFunc(why, func(w string) bool { return w == "" }), " "), maxReason)
	b.finish()
	r.record(b.entry.Record.ProtoReflect())
	b.entry.Action = b.entry.Record.GetAction()
	return b.entry
}

// proven are the fields of a record in which nobody can write what they like: who they proved
// to be, and what that needs.
var proven = map[protoreflect.Name]bool{
	"tenant_id": true, "user_id": true, "agent": true, "execution_id": true, "credential": true, "issuer": true,
	"impersonated_by": true, "peer": true, "trace_id": true, "permission": true, "required_by": true,
}

// record takes secrets out of all texts of the record, or of a message in it.
func (r *Redactor) record(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList() && f.Kind() == protoreflect.MessageKind:
			for i := range v.List().Len() {
				r.record(v.List().Get(i).Message())
			}
		case proven[f.Name()] || f.IsList() || f.IsMap():
		case f.Kind() == protoreflect.StringKind:
			text, _ := r.Text(v.String())
			m.Set(f, protoreflect.ValueOfString(text))
		case f.Kind() == protoreflect.MessageKind:
			r.record(v.Message())
		}
		return true
	})
}

// KindOfRecord is the kind of the record's entry.
func KindOfRecord(rec *meshv1.AuditRecord) meshv1.AuditTrailEntry_Kind {
	switch {
	case rec.GetDecision() == meshv1.AuditRecord_DECISION_REFUSED:
		return meshv1.AuditTrailEntry_KIND_REFUSAL
	case strings.HasSuffix(rec.GetAction(), ".read.tenant"), rec.GetAction() == string(mesh.ActReadAudit):
		return meshv1.AuditTrailEntry_KIND_READ
	case rec.GetCheckpoint() != nil:
		return meshv1.AuditTrailEntry_KIND_INTERNAL
	}
	return meshv1.AuditTrailEntry_KIND_ACT
}

// Concerns reports whether the entry is about what the agent did, or what was done to it.
func Concerns(x *Entry, agent string) bool {
	if x.GetAgent() == agent || x.GetActor() == "agent:"+agent {
		return true
	}
	asked := x.GetKind() == meshv1.AuditTrailEntry_KIND_DISPATCH || x.GetKind() == meshv1.AuditTrailEntry_KIND_TRANSFER ||
		x.GetKind() == meshv1.AuditTrailEntry_KIND_TASK || x.GetKind() == meshv1.AuditTrailEntry_KIND_REFUSAL || x.GetKind() == meshv1.AuditTrailEntry_KIND_ACT
	return asked && x.GetSubject() == agent
}

// A builder fills an entry.
type builder struct {
	by    *Redactor
	entry *Entry
	texts []string // of the content
	read  int      // bytes of text
	whole int      // bytes of content that were looked at
}

// deed fills in whose it is.
func (b *builder) deed(d thread.Deed) {
	x := b.entry
	x.Kind, x.UserId, x.Chain, x.Agent = kind(d.Kind), d.User, d.Chain, d.Agent
	x.ExecutionId, x.ParentId = string(d.Execution), string(d.Parent)
	if _, rest, ok := strings.Cut(d.Traceparent, "-"); ok {
		x.TraceId, _, _ = strings.Cut(rest, "-")
	}
}

// say adds to the content, each text by itself: JSON is understood as such. Of one that goes
// on, the last word is left out.
func (b *builder) say(text string, goesOn bool) {
	left := MaxRead - b.whole
	if goesOn || len(text) > left {
		text = cut(text, left)
		b.entry.Clipped = true
	}
	b.whole += len(text)
	if text = b.redacted(text); text != "" {
		b.texts = append(b.texts, text)
	}
}

// shown is a text without secrets.
func (b *builder) shown(text string, most int) string {
	if len(text) > MaxRead {
		text = cut(text, MaxRead)
		b.entry.Clipped = true
	}
	return b.clipped(b.redacted(text), most)
}

func (b *builder) redacted(text string) string {
	b.read += len(text)
	text, n := b.by.Text(valid(text, len(text)))
	b.entry.Redacted += int32(min(n, MaxRead))
	return text
}

func (b *builder) clipped(text string, most int) string {
	if len(text) > most {
		b.entry.Clipped = true
	}
	return mesh.Clip(text, most)
}

func (b *builder) finish() {
	b.entry.Content = b.clipped(strings.Join(b.texts, "\n"), MaxContent)
}

// cut returns the beginning of the text, at most that many bytes of it, without the last word
// in ASCII, which may be half a secret: there is more.
func cut(text string, most int) string {
	if len(text) > most {
		most = max(most, 0)
		for most > 0 && !utf8.RuneStart(text[most]) {
			most--
		}
		text = text[:most]
	}
	return strings.TrimRightFunc(text, func(r rune) bool { return r > ' ' && r < utf8.RuneSelf })
}

// valid is the text as it can be sent, at most that many bytes of it.
func valid(s string, most int) string {
	if len(s) > most {
		s = mesh.Clip(s, most)
	}
	return strings.ToValidUTF8(s, "�")
}
