// Package voice makes text of the audio in what users say, where it comes in, so that all behind it
// work on text: agents, the log, approvals, searches.
//
// # What it guarantees
//
// A message keeps its audio. Beside it stands what was said in it, or why that is not known: audio
// that nobody understands is no error here. What was understood is remembered for a while, so that a
// message that is sent again, after its sender heard nothing, is not transcribed again.
//
// # What may run concurrently
//
// All of it. The audio of at most four messages is transcribed at a time, so that the bytes that are
// in memory have a bound; other messages wait.
//
// # What it is not
//
// It knows no endpoint, which is the [llm.Transcriber]'s, and adds nothing to the thread's log: who
// posts the message does.
package voice

import (
	"context"
	"crypto/sha256"
	"log/slog"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// Bounds of what is transcribed.
const (
	// MaxAudio is how many bytes one piece of audio may have: what OpenAI takes.
	MaxAudio = 25 << 20
	// maxWords is how many bytes its words may have.
	maxWords = 64 << 10
	// maxParts is how many pieces of audio of one message are transcribed.
	maxParts = 4
	// atOnce is how many messages are heard at a time, and remembered how many pieces are.
	atOnce     = 4
	remembered = 256
)

// An Ear makes text of audio. Use New.
type Ear struct {
	transcriber llm.Transcriber
	read        Reader
	logger      *slog.Logger
	places      chan struct{}
	flights     singleflight.Group
	heard       *lru.Cache[string, llm.Transcript]
}

// A Reader returns the bytes of a blob that the thread has, or that were uploaded for it. It may be
// called concurrently.
type Reader func(key mesh.ThreadKey, b mesh.Blob) ([]byte, error)

// New returns an Ear. The logger is told what came of audio, without its words.
func New(t llm.Transcriber, read Reader, logger *slog.Logger) (*Ear, error) {
	heard, err := lru.New[string, llm.Transcript](remembered)
	if err != nil {
		return nil, mesh.Wrap("voice.New", err)
	}
	return &Ear{transcriber: t, read: read, logger: logger, places: make(chan struct{}, atOnce), heard: heard}, nil
}

// Hear returns the parts of a message that was sent to the thread with the words of the audio in
// each, where it is the mesh's to transcribe, before it. The parts are the caller's, and their
// metadata is changed. Audio elsewhere is not fetched, and bytes that are not there are left to who
// takes the message. The error is that of ctx.
func (e *Ear) Hear(ctx context.Context, key mesh.ThreadKey, parts []*a2apb.Part, ours func(*a2apb.Part) bool) ([]*a2apb.Part, error) {
	select { // before bytes are read
	case e.places <- struct{}{}:
	case <-ctx.Done():
		return nil, mesh.Wrap("voice.Hear", ctx.Err())
	}
	defer func() { <-e.places }()
	out := make([]*a2apb.Part, 0, len(parts)+maxParts)
	left := maxParts
	for _, p := range parts {
		if ours(p) {
			left--
			spoken := e.hear(ctx, key, p, left < 0)
			if err := ctx.Err(); err != nil {
				return nil, mesh.Wrap("voice.Hear", err)
			}
			if spoken != nil {
				out = append(out, spoken)
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// hear marks the part, and returns that of its words or nil. Nobody listens to one too many.
func (e *Ear) hear(ctx context.Context, key mesh.ThreadKey, p *a2apb.Part, many bool) *a2apb.Part {
	b, blob := mesh.ParseBlob(p.GetUrl())
	size := int64(len(p.GetRaw()))
	switch {
	case blob:
		size = b.Size
	case p.GetUrl() != "":
		return nil
	}
	if many || size > MaxAudio {
		mesh.MarkUnheard(p, mesh.ReasonAudioLong)
		return nil
	}
	data := p.GetRaw()
	if blob {
		var err error
		if data, err = e.read(key, b); err != nil {
			return nil
		}
	}
	words, reason := e.words(ctx, key, llm.Audio{MediaType: p.GetMediaType(), Data: data})
	if reason != "" {
		mesh.MarkUnheard(p, reason)
		return nil
	}
	return mesh.MarkHeard(p, words)
}

// words is what is said in the audio, or why that is not known.
func (e *Ear) words(ctx context.Context, key mesh.ThreadKey, a llm.Audio) (words, reason string) {
	t, err := e.transcript(ctx, key, a)
	switch {
	case err != nil && mesh.IsCode(err, mesh.Invalid):
		reason = mesh.ReasonAudioRefused
	case err != nil:
		reason = mesh.ReasonNotHeard
	case t.Text == "":
		reason = mesh.ReasonNoWords
	case len(t.Text) > maxWords:
		reason = mesh.ReasonAudioLong
	}
	if ctx.Err() == nil {
		e.logger.InfoContext(ctx, "audio transcribed", "thread", key, "type", a.MediaType, "bytes", len(a.Data), "seconds", t.Seconds,
			"input", t.Usage.Prompt, "output", t.Usage.Completion, "reason", reason, "err", err)
	}
	return t.Text, reason
}

// transcript is what the transcriber says of the audio, which it is asked once for, if it answers:
// also when the same comes again, or twice at a time.
func (e *Ear) transcript(ctx context.Context, key mesh.ThreadKey, a llm.Audio) (llm.Transcript, error) {
	sum := sha256.Sum256(a.Data)
	id := string(key.Tenant) + "\x00" + a.MediaType + "\x00" + string(sum[:])
	for {
		if t, ok := e.heard.Get(id); ok {
			return t, nil
		}
		mine := false
		v, err, _ := e.flights.Do(id, func() (any, error) {
			mine = true
			t, err := e.transcriber.Transcribe(ctx, a)
			if err == nil {
				e.heard.Add(id, t)
			}
			return t, err
		})
		t, _ := v.(llm.Transcript)
		if err == nil || mine || ctx.Err() != nil || !mesh.IsCode(err, mesh.Canceled) && !mesh.IsCode(err, mesh.Timeout) {
			return t, err
		}
		// who asked for it left: now it is asked for here
	}
}
