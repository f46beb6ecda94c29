package voice_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/voice"
)

// A scribe hears the bytes themselves as words.
type scribe struct {
	mu    sync.Mutex
	asked []string
	hold  chan struct{} // answers wait for it, if it is not nil
}

func (s *scribe) Transcribe(ctx context.Context, a llm.Audio) (llm.Transcript, error) {
	s.mu.Lock()
	s.asked = append(s.asked, string(a.Data[:min(len(a.Data), 20)]))
	s.mu.Unlock()
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return llm.Transcript{}, mesh.Wrap("scribe", ctx.Err())
		}
	}
	switch string(a.Data) {
	case "noise":
		return llm.Transcript{}, nil
	case "a picture":
		return llm.Transcript{}, mesh.Errorf(mesh.Invalid, "scribe", "no audio")
	case "away":
		return llm.Transcript{}, mesh.Errorf(mesh.Unavailable, "scribe", "away")
	}
	return llm.Transcript{Text: string(a.Data)}, nil
}

// called is what the scribe was asked, in order.
func (s *scribe) called() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

var key = mesh.ThreadKey{Tenant: "default", ID: mesh.NewThreadID()}

func newEar(t *testing.T, s *scribe, blobs map[string][]byte) *voice.Ear {
	t.Helper()
	e, err := voice.New(s, func(_ mesh.ThreadKey, b mesh.Blob) ([]byte, error) {
		if data, ok := blobs[b.Hash]; ok {
			return data, nil
		}
		return nil, mesh.Errorf(mesh.NotFound, "blobs", "no such blob")
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func raw(words string) *a2apb.Part {
	return &a2apb.Part{Content: &a2apb.Part_Raw{Raw: []byte(words)}, MediaType: "audio/wav"}
}

func at(url string) *a2apb.Part {
	return &a2apb.Part{Content: &a2apb.Part_Url{Url: url}, MediaType: "audio/wav"}
}

// S3-152: a message is an array of text and audio, and what is said in audio stands before it; the
// audio stays. Of what nobody understands it is said why. Nothing is fetched, and bytes that
// the thread does not have are left to who takes the message.
func TestTheWordsOfAudioStandBeforeIt(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	blob := mesh.Blob{Hash: hash, Size: 6}
	for name, tt := range map[string]struct {
		part   *a2apb.Part
		words  string
		reason string
	}{
		"in the message":     {raw("hello"), "hello", ""},
		"uploaded":           {at(blob.URL()), "stored", ""},
		"noise":              {raw("noise"), "", mesh.ReasonNoWords},
		"no audio":           {raw("a picture"), "", mesh.ReasonAudioRefused},
		"nobody listens":     {raw("away"), "", mesh.ReasonNotHeard},
		"too many words":     {raw(strings.Repeat("x", 64<<10+1)), "", mesh.ReasonAudioLong},
		"too many bytes":     {at(mesh.Blob{Hash: hash, Size: voice.MaxAudio + 1}.URL()), "", mesh.ReasonAudioLong},
		"elsewhere":          {at("https://example.com/a.wav"), "", ""},
		"not in this thread": {at(mesh.Blob{Hash: strings.Repeat("cd", 32), Size: 1}.URL()), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEar(t, new(scribe), map[string][]byte{hash: []byte("stored")})
			text := &a2apb.Part{Content: &a2apb.Part_Text{Text: "listen:"}}
			got, err := e.Hear(t.Context(), key, []*a2apb.Part{text, tt.part}, mesh.IsAudio)
			if err != nil {
				t.Fatal(err)
			}
			want := []*a2apb.Part{text, tt.part}
			if tt.words != "" {
				want = slices.Insert(want, 1, got[1])
				if got[1].GetText() != tt.words {
					t.Errorf("the words are %v", got[1])
				}
			}
			heard, why := mesh.Heard(tt.part)
			if !slices.Equal(got, want) || heard != (tt.words != "") || why != tt.reason {
				t.Errorf("got %v, heard %v, because %q", got, heard, why)
			}
		})
	}
}

// One message has so many pieces of audio transcribed, and no more are paid for.
func TestOneMessageHasABoundOfWhatIsTranscribed(t *testing.T) {
	s := new(scribe)
	e := newEar(t, s, nil)
	var parts []*a2apb.Part
	for _, words := range []string{"1", "2", "3", "4", "5", "6"} {
		parts = append(parts, raw(words))
	}
	got, err := e.Hear(t.Context(), key, parts, mesh.IsAudio)
	_, why := mesh.Heard(parts[5])
	if err != nil || len(got) != 10 || len(s.called()) != 4 || why != mesh.ReasonAudioLong {
		t.Errorf("%d parts, %v, asked %v, the last because %q", len(got), err, s.called(), why)
	}
}

// What was understood is not transcribed, and paid for, again when its sender sends it again, also
// while it is being transcribed; another tenant's is its own. What failed is tried again.
func TestTheSameAudioIsTranscribedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scribe{hold: make(chan struct{})}
		e := newEar(t, s, nil)
		hear := func(ctx context.Context, k mesh.ThreadKey, words string) error {
			_, err := e.Hear(ctx, k, []*a2apb.Part{raw(words)}, mesh.IsAudio)
			return err
		}
		leaves, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if err := hear(leaves, key, "once"); !mesh.IsCode(err, mesh.Canceled) {
				t.Errorf("who leaves gets %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if err := hear(t.Context(), key, "once"); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if got := s.called(); len(got) != 1 {
			t.Errorf("two that ask at a time have asked %v", got)
		}
		leave() // and the other one asks
		synctest.Wait()
		close(s.hold)
		all.Wait()
		if err := hear(t.Context(), key, "once"); err != nil || len(s.called()) != 2 {
			t.Errorf("%v, asked %v", err, s.called())
		}
		other := mesh.ThreadKey{Tenant: "other", ID: key.ID}
		_ = hear(t.Context(), other, "once")
		for range 2 {
			_ = hear(t.Context(), key, "away")
		}
		if got := s.called()[2:]; !slices.Equal(got, []string{"once", "away", "away"}) {
			t.Errorf("then asked %v", got)
		}
	})
}
