package mesh

import (
	"maps"
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// What the mesh says under [ExtensionURI] in the metadata of parts of a user's message: of an
// audio part, that a text part before it has its words, or why none has; and of that text part,
// that somebody spoke it.
const (
	keyHeard   = "heard"
	keyUnheard = "unheard"
	keySpoken  = "spoken"
	keySpeak   = "speak" // of a message: its sender wants the answer spoken, too
)

// Why an audio part was not made text.
const (
	ReasonNoWords      = "NO_WORDS"             // nobody speaks in it
	ReasonAudioLong    = "AUDIO_TOO_LONG"       // it has more bytes, or more words, than are taken
	ReasonAudioRefused = "AUDIO_REFUSED"        // the endpoint does not take it: it is none, or of another format
	ReasonNotHeard     = "TRANSCRIPTION_FAILED" // the endpoint is away, or does not work
)

// IsAudio reports whether the part is a file that says it is audio.
func IsAudio(p *a2apb.Part) bool {
	switch p.GetContent().(type) {
	case *a2apb.Part_Raw, *a2apb.Part_Url:
		return AudioType(p.GetMediaType())
	}
	return false
}

// AudioType reports whether a media type, or a mode of a card, is one of audio; "*/*" is not.
func AudioType(mediaType string) bool {
	major, kind, _ := strings.Cut(mediaType, "/")
	return kind != "" && strings.EqualFold(major, "audio")
}

// Heard reports whether the words of an audio part are in a text part of its message; if not,
// reason says why, or is "" where nobody listened.
func Heard(p *a2apb.Part) (ok bool, reason string) {
	said := p.GetMetadata().GetFields()[ExtensionURI].GetStructValue().GetFields()
	return said[keyHeard].GetBoolValue(), said[keyUnheard].GetStringValue()
}

// MarkHeard says of an audio part that its words are spoken, which it returns as a part to come
// before it. Neither shares its metadata with another part.
func MarkHeard(p *a2apb.Part, words string) (spoken *a2apb.Part) {
	mark(p, keyHeard, structpb.NewBoolValue(true))
	spoken = &a2apb.Part{Content: &a2apb.Part_Text{Text: words}}
	mark(spoken, keySpoken, structpb.NewBoolValue(true))
	return spoken
}

// MarkUnheard says of an audio part why it was not made text.
func MarkUnheard(p *a2apb.Part, reason string) { mark(p, keyUnheard, structpb.NewStringValue(reason)) }

// Unmark takes from the parts what is not a client's to say of them. It changes them.
func Unmark(parts []*a2apb.Part) {
	for _, p := range parts {
		p.Metadata = saying(p.GetMetadata(), nil)
	}
}

func mark(p *a2apb.Part, key string, v *structpb.Value) {
	md := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for k, v := range p.GetMetadata().GetFields() {
		md.Fields[k] = v
	}
	md.Fields[ExtensionURI] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{key: v}})
	p.Metadata = md
}

// Unheard is why a message has nothing to say that anybody understands: it has audio that was not
// made text, and else nothing. It is "" for every other message.
func Unheard(m *a2apb.Message) (reason string) {
	for _, p := range m.GetParts() {
		_, why := Heard(p)
		if why == "" {
			return ""
		}
		reason = why
	}
	return reason
}

// Worded are the parts without audio whose words are in other parts; the parts themselves if there
// is none.
func Worded(parts []*a2apb.Part) []*a2apb.Part {
	heard := func(p *a2apb.Part) bool { ok, _ := Heard(p); return ok }
	if !slices.ContainsFunc(parts, heard) {
		return parts
	}
	return slices.DeleteFunc(slices.Clone(parts), heard)
}

// SpeechArtifact is the id of the artifact that is the answer to the message as it is spoken. The
// log has what tells one leg from another before it, as before all ids of artifacts.
func SpeechArtifact(message string) string { return "speech-" + message }

// IsSpeech reports whether the artifact is the answer to the message as it is spoken.
func IsSpeech(a *a2apb.Artifact, message string) bool {
	return strings.HasSuffix(a.GetArtifactId(), SpeechArtifact(message))
}

// WantsSpeech reports whether the answer to the message is to be spoken, too.
func WantsSpeech(m *a2apb.Message) bool {
	return m.GetMetadata().GetFields()[ExtensionURI].GetStructValue().GetFields()[keySpeak].GetBoolValue()
}

// WantSpeech says so of the message, whose metadata it replaces.
func WantSpeech(m *a2apb.Message) {
	md := &structpb.Struct{Fields: maps.Clone(m.GetMetadata().GetFields())}
	if md.Fields == nil {
		md.Fields = map[string]*structpb.Value{}
	}
	ext := maps.Clone(md.Fields[ExtensionURI].GetStructValue().GetFields())
	if ext == nil {
		ext = map[string]*structpb.Value{}
	}
	ext[keySpeak] = structpb.NewBoolValue(true)
	md.Fields[ExtensionURI] = structpb.NewStructValue(&structpb.Struct{Fields: ext})
	m.Metadata = md
}
